package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

const (
	// What has neither a letter nor rows in other tables ends with one statement for the whole batch. Most of it stands in no line
	// and in no batch.
	settlePlain = `with gone as (
  delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
  where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.letter is null and j.flags & 292 = 0
  returning j.id, j.enqueued_at, j.queue, j.kind, j.attempt, j.requeues, j.crashes, j.envelope
)
insert into {current} ({columns}) select {values} from gone returning id, 0::int2`

	forgetPlain = `delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.letter is null and j.flags & 292 = 0 returning j.id, 0::int2`

	settleDone = `with gone as (
  delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
  where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.letter is null and j.flags & 4 = 0
  returning j.id, j.enqueued_at, j.queue, j.kind, j.attempt, j.requeues, j.crashes, j.flags, j.envelope, j.batch
), kept as (
  insert into {current} ({columns}) select {values} from gone
), left_lines as (
  delete from {s}.turn t using gone where gone.flags & 32 <> 0 and t.job_id = gone.id returning t.okey, t.lkey, t.kind
), came as (
  insert into {s}.arrival (okey, lkey, kind) select distinct on (okey, lkey, kind) okey, lkey, kind from left_lines order by okey, lkey, kind
), counted as (
  insert into {s}.tally (batch, done) select batch, count(*) from gone where flags & 256 <> 0 group by batch
) select id, flags from gone`

	settleForgotten = `with gone as (
  delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
  where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.letter is null and j.flags & 4 = 0
  returning j.id, j.flags, j.batch
), left_lines as (
  delete from {s}.turn t using gone where gone.flags & 32 <> 0 and t.job_id = gone.id returning t.okey, t.lkey, t.kind
), came as (
  insert into {s}.arrival (okey, lkey, kind) select distinct on (okey, lkey, kind) okey, lkey, kind from left_lines order by okey, lkey, kind
), counted as (
  insert into {s}.tally (batch, done) select batch, count(*) from gone where flags & 256 <> 0 group by batch
) select id, flags from gone`
)

// errNoLetter refuses a death without evidence.
func errNoLetter() error {
	return &pawl.FieldError{Field: "letter", Value: nil, Rule: "must be given with a death, with its id"}
}

// Settle ends reservations: the plain acknowledgements with one statement, the others together in a transaction. Where
// that fails, its halves are tried apart, down to the member that cannot be written.
func (s *Store) Settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	b := newSettling(s, session, settlements)
	err := b.finish(ctx)
	if err == nil {
		err = b.settleOthers(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	b.answerRepeats()
	s.held.settle(session, settlements, b.results)
	if b.ready {
		s.claims.fronts.Add(1)
		s.waker.announce()
	}
	s.tellPassed(b.passed)
	if b.lined && b.turnsAreLeft() {
		s.turns.ask()
	}
	if b.batched {
		s.counts.ask()
	}
	return b.results, nil
}

// settling is a batch of settlements under way.
type settling struct {
	store   *Store
	session pawl.SessionID
	items   []pawl.Settlement
	results []error
	done    []int // plain acknowledgements
	others  []int
	repeats map[int]int // members whose reservation was named before, and where
	ready   bool        // jobs became ready
	lined   bool        // some stood in line
	batched bool        // some were members of batches
	passing bool        // the acknowledgements pass slots on
	passed  idList      // the jobs that got them
	left    bool        // and some were left for whoever gives turns
}

// turnsAreLeft reports that there may be turns to give: for what did not end by an acknowledgement, or did not pass on what it
// freed.
func (b *settling) turnsAreLeft() bool {
	return len(b.others) > 0 || !b.passing || b.left
}

func newSettling(s *Store, session pawl.SessionID, settlements []pawl.Settlement) *settling {
	b := &settling{
		store: s, session: session, items: settlements, results: make([]error, len(settlements)),
		done: make([]int, 0, len(settlements)), repeats: map[int]int{},
	}
	seen := make(map[pawl.ID]int, len(settlements))
	for i := range settlements {
		item := &settlements[i]
		if b.results[i] = checkSettlement(item); b.results[i] != nil {
			continue
		}
		if first, ok := seen[item.ID]; ok && settlements[first].Token == item.Token {
			b.repeats[i] = first
			continue
		}
		seen[item.ID] = i
		if _, ok := item.Outcome.(pawl.Done); ok && item.Record == nil && len(item.Enqueue) == 0 {
			b.done = append(b.done, i)
		} else {
			b.others = append(b.others, i)
		}
	}
	return b
}

// checkSettlement refuses what no store could settle.
func checkSettlement(item *pawl.Settlement) error {
	switch item.Outcome.(type) {
	case pawl.Done, pawl.Retry, pawl.Release, pawl.GiveBack:
	case pawl.Dead:
		if item.Letter == nil || item.Letter.ID.IsZero() {
			return fmt.Errorf("settle job %s: %w", item.ID, errNoLetter())
		}
	default:
		return &pawl.FieldError{Field: "outcome", Value: item.Outcome, Rule: "must be Done, Retry, Release, GiveBack or Dead"}
	}
	return checkJobs(item.Enqueue)
}

// answerRepeats refuses what was named twice: only the first counts.
func (b *settling) answerRepeats() {
	for i, first := range b.repeats {
		b.results[i] = pawl.LeaseLost(b.items[i].Reservation)
		if err := b.results[first]; err != nil {
			b.results[i] = err
		}
	}
}

// reservations are those of members, in the order of the ids, in which rows are locked.
func (b *settling) reservations(members []int) (ids idList, claims []int64) {
	slices.SortFunc(members, func(i, j int) int { return bytes.Compare(b.items[i].ID[:], b.items[j].ID[:]) })
	ids, claims = make(idList, len(members)), make([]int64, len(members))
	for n, i := range members {
		ids[n], claims[n] = b.items[i].ID, int64(b.items[i].Token)
	}
	return ids, claims
}

// finish ends the plain acknowledgements. What is not plain after all joins the others.
func (b *settling) finish(ctx context.Context) error {
	if len(b.done) == 0 {
		return nil
	}
	ids, claims := b.reservations(b.done)
	ended := make(map[pawl.ID]bool, len(ids))
	marks := b.store.held.marks(b.session, b.items)
	b.passing = marks&flagLinedKind != 0
	err := b.keepingHistory(ctx, func(slots slotSet) error {
		text, args := slots.texts.settlePlain, []any{ids, claims, int64(b.session)}
		switch {
		case b.passing:
			text, args = slots.texts.settlePassing, append(args, turnsAtOnce-1)
		case marks != 0:
			text = slots.texts.settleDone
		}
		return b.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			clear(ended)
			b.passed, b.left = nil, false
			rows, err := conn.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				switch r := row(rows.RawValues()); {
				case r[0] == nil:
					b.left = r.int16(1) != 0
				case r[1] == nil:
					b.passed = append(b.passed, r.id(0))
				default:
					ended[r.id(0)] = true
					b.see(r.int16(1))
				}
			}
			return rows.Err()
		})
	})
	switch {
	case err != nil && affectsAll(err):
		return err
	case err != nil:
		b.others = append(b.others, b.done...)
	case len(ended) < len(ids):
		for _, i := range b.done {
			if !ended[b.items[i].ID] {
				b.others = append(b.others, i)
			}
		}
	}
	return nil
}

// see notes what is to be looked after, by the flags of a job that has ended.
func (b *settling) see(flags int16) {
	b.lined = b.lined || flags&flagLined != 0
	b.batched = b.batched || flags&flagMember != 0
}

// keepingHistory calls settle with the tables of finished jobs. A trouble with them never keeps a job from ending: where
// they fail even as they are now, it is called without.
func (b *settling) keepingHistory(ctx context.Context, settle func(slots slotSet) error) error {
	var err error
	for range 2 { // as this process knows them, and as they are now
		var slots slotSet
		if slots, err = b.store.writableSlots(ctx); err == nil {
			err = settle(slots)
		}
		if !missing(err, "done_") && state(err) != insufficientRights {
			return err
		}
		b.store.forgetSlots()
	}
	b.store.config.Logger.Warn("finished jobs cannot be kept", "error", err)
	return settle(slotSet{current: -1, texts: b.store.schema.slotTexts(slotSet{current: -1}, false)})
}

// settleOthers settles what is not a plain acknowledgement.
func (b *settling) settleOthers(ctx context.Context) error {
	if len(b.others) == 0 {
		return nil
	}
	var kinds, queues []string
	var next []pawl.NewJob
	for _, i := range b.others {
		for _, job := range b.items[i].Enqueue {
			kinds, queues = append(kinds, job.Kind), append(queues, job.Queue)
		}
		next = append(next, b.items[i].Enqueue...)
	}
	if err := b.store.number(ctx, kinds, queues); err != nil {
		return err
	}
	if err := b.store.stateLimits(ctx, next); err != nil {
		return err
	}
	return b.settleApart(ctx, b.others)
}

// settleApart settles members together, or where that fails for the sake of one of them, in halves.
func (b *settling) settleApart(ctx context.Context, members []int) error {
	err := b.keepingHistory(ctx, func(slots slotSet) error {
		return b.store.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return b.settleTogether(ctx, tx, members, slots)
		})
	})
	switch {
	case err == nil:
		return nil
	case affectsAll(err) && !errors.Is(err, pawl.ErrInvalid):
		return err
	}
	first, second := b.divide(members, state(err) == lockNotAvailable)
	if len(first) == 0 || len(second) == 0 {
		for _, i := range members {
			b.results[i] = fmt.Errorf("settle: %w", err)
		}
		return nil
	}
	if err := b.settleApart(ctx, first); err != nil {
		return err
	}
	return b.settleApart(ctx, second)
}

// divide parts members that cannot be settled together. Where a lock did not come free, deaths are parted from the
// others, and no more: the letters' table may be locked, and trying each member would take as long as each time.
func (b *settling) divide(members []int, locked bool) (first, second []int) {
	if !locked {
		half := len(members) / 2
		return members[:half:half], members[half:]
	}
	for _, i := range members {
		if b.items[i].Letter == nil {
			first = append(first, i)
		} else {
			second = append(second, i)
		}
	}
	return first, second
}
