package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	lib "modernc.org/sqlite/lib"
)

const (
	// Parameters 1 and 2 are reservationLists.
	insertDone = `insert or ignore into pawl_done (id, kind, queue, state, attempt, enqueued_at, finished_at, letter, envelope)
select j.id, j.kind, j.queue, 'done', j.attempt, j.enqueued_at, ?4, j.letter, iif(?5, j.envelope, null)
from json_each(?1) t cross join pawl_job j
where j.session = ?3 and j.token = t.value and +j.id = substr(?2, t.key * 16 + 1, 16)`

	selectOwned = `select t.key from json_each(?1) t cross join pawl_job j
where j.session = ?3 and j.token = t.value and +j.id = substr(?2, t.key * 16 + 1, 16) order by t.key`

	// What the session holds with a letter, a unique key, a place in a line or in a batch.
	selectCare = `select token, id, letter, unique_key, turn <> 0, batch from pawl_job
where session = ?1 and session is not null and (letter is not null or unique_key is not null or turn <> 0 or batch is not null)`

	deleteDone = `delete from pawl_job where session = ?1 and token in (select value from json_each(?2))`
)

var errNoLetter error = &pawl.FieldError{Field: "letter", Value: nil, Rule: "must be given with a death, with its id"}

// Settle ends reservations. They share one transaction; where that fails, its halves are tried apart, down to the
// member that cannot be written.
func (s *Store) Settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	results, err := s.settle(ctx, session, settlements)
	if err == nil || affectsAll(err) {
		return results, wrapSettle(err)
	}
	return s.settleApart(ctx, session, settlements, err), nil
}

func wrapSettle(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("settle: %w", err)
}

// settleApart settles a batch that together failed with err.
func (s *Store) settleApart(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement, err error) []error {
	if len(settlements) == 1 || affectsAll(err) {
		return slices.Repeat([]error{wrapSettle(err)}, len(settlements))
	}
	var all []error
	half := len(settlements) / 2
	for _, part := range [][]pawl.Settlement{settlements[:half], settlements[half:]} {
		results, err := s.settle(ctx, session, part)
		if err != nil {
			results = s.settleApart(ctx, session, part, err)
		}
		all = append(all, results...)
	}
	return all
}

// affectsAll reports whether an error says nothing about the jobs of a batch: smaller batches would fail with it too.
func affectsAll(err error) bool {
	switch code(err) {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_READONLY, lib.SQLITE_CORRUPT, lib.SQLITE_NOMEM, lib.SQLITE_CANTOPEN:
		return true
	}
	return errors.Is(err, errGone) || errors.Is(err, pawl.ErrBusy) || errors.Is(err, pawl.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// settle ends reservations in one transaction.
func (s *Store) settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	b := settling{session: int64(session), items: settlements, history: s.config.History > 0}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		b.w, b.at = w, now()
		b.turns, b.ends = newTurns(w, b.at), ends{}
		return b.run(ctx)
	})
	return b.results, err
}

// settling is a batch of settlements under way.
type settling struct {
	w       *writer
	session int64
	items   []pawl.Settlement
	history bool // keep the envelopes of finished jobs
	at      int64
	results []error
	turns   *turns
	ends    ends
}

// run settles the plain acknowledgements together and the others one by one.
func (b *settling) run(ctx context.Context) error {
	b.results = make([]error, len(b.items))
	done := make([]int, 0, len(b.items))
	var others []int
	for i := range b.items {
		item := &b.items[i]
		if b.results[i] = checkSettlement(item); b.results[i] != nil {
			continue
		}
		if _, ok := item.Outcome.(pawl.Done); ok && item.Record == nil {
			done = append(done, i)
		} else {
			others = append(others, i)
		}
	}
	if err := b.finish(ctx, done); err != nil {
		return err
	}
	for _, i := range others {
		if err := b.settleOne(ctx, i); err != nil {
			return fmt.Errorf("job %s: %w", b.items[i].ID, err)
		}
	}
	ready, err := b.turns.give(ctx)
	if err != nil {
		return err
	}
	b.w.ready = b.w.ready || ready
	if err := b.enqueue(ctx); err != nil {
		return err
	}
	return b.ends.count(ctx, b.w)
}

// checkSettlement refuses what no store could settle.
func checkSettlement(item *pawl.Settlement) error {
	switch item.Outcome.(type) {
	case pawl.Done, pawl.Retry, pawl.Release, pawl.GiveBack:
	case pawl.Dead:
		if item.Letter == nil || item.Letter.ID.IsZero() {
			return fmt.Errorf("settle job %s: %w", item.ID, errNoLetter)
		}
	default:
		return &pawl.FieldError{Field: "outcome", Value: item.Outcome, Rule: "must be Done, Retry, Release, GiveBack or Dead"}
	}
	return checkJobs(item.Enqueue)
}

// finish moves acknowledged jobs to the finished ones.
func (b *settling) finish(ctx context.Context, done []int) error {
	if len(done) == 0 {
		return nil
	}
	tokens, ids := b.lists(done)
	moved, err := change(ctx, b.w, insertDone, tokens, ids, b.session, b.at, b.history)
	if err != nil {
		return fmt.Errorf("keep finished jobs: %w", err)
	}
	if moved < int64(len(done)) {
		if done, err = b.dropLost(ctx, done, tokens, ids); err != nil || len(done) == 0 {
			return err
		}
		tokens, _ = b.lists(done)
	}
	if err := b.takeCare(ctx, done); err != nil {
		return err
	}
	if _, err := b.w.ExecContext(ctx, deleteDone, b.session, tokens); err != nil {
		return fmt.Errorf("remove finished jobs: %w", err)
	}
	return nil
}

func (b *settling) lists(members []int) (tokens string, ids []byte) {
	reservations := make([]pawl.Reservation, len(members))
	for n, i := range members {
		reservations[n] = b.items[i].Reservation
	}
	return reservationLists(reservations)
}

// dropLost finds the members whose reservation is not the session's, or was named before.
func (b *settling) dropLost(ctx context.Context, members []int, tokens string, ids []byte) (owned []int, err error) {
	found, err := selectRows(ctx, b.w, scanValue[int], selectOwned, tokens, ids, b.session)
	if err != nil {
		return nil, fmt.Errorf("check reservations: %w", err)
	}
	for _, i := range members {
		b.results[i] = pawl.LeaseLost(b.items[i].Reservation)
	}
	seen := make(map[pawl.Token]bool, len(found))
	for _, n := range found {
		i := members[n]
		if token := b.items[i].Token; !seen[token] {
			seen[token] = true
			b.results[i] = nil
			owned = append(owned, i)
		}
	}
	return owned, nil
}

// takeCare frees the unique keys and the turns of finished jobs, and writes to the letters that they came from.
func (b *settling) takeCare(ctx context.Context, done []int) error {
	special, err := selectRows(ctx, b.w, scanCare, selectCare, b.session)
	if err != nil {
		return fmt.Errorf("find keys and letters: %w", err)
	}
	if len(special) == 0 {
		return nil
	}
	ended := make(map[pawl.Token]bool, len(done))
	for _, i := range done {
		ended[b.items[i].Token] = true
	}
	for _, job := range special {
		if !ended[job.token] {
			continue
		}
		if err := b.leave(ctx, job, pawl.RedriveSucceeded, pawl.ID{}); err != nil {
			return err
		}
	}
	return nil
}

// care is what is to be done when a job ends.
type care struct {
	token  pawl.Token
	id     pawl.ID
	letter pawl.ID
	key    sql.NullString
	turn   bool // it stands in line
	batch  pawl.ID
}

func scanCare(rows *sql.Rows) (c care, err error) {
	return c, rows.Scan(&c.token, (*idColumn)(&c.id), (*looseID)(&c.letter), &c.key, &c.turn, (*looseID)(&c.batch))
}

// leave does it, but for the turns of others and the batches.
func (b *settling) leave(ctx context.Context, job care, outcome pawl.RedriveOutcome, next pawl.ID) error {
	if job.key.Valid {
		if _, err := b.w.ExecContext(ctx, freeKey, job.key.String, job.id[:], int64(pawl.UniqueForPeriod)); err != nil {
			return fmt.Errorf("free unique key: %w", err)
		}
	}
	if job.turn {
		if err := b.turns.ended(ctx, job.id); err != nil {
			return fmt.Errorf("leave lines: %w", err)
		}
	}
	if !job.batch.IsZero() {
		if end := b.ends.of(job.batch); outcome == pawl.RedriveDiedAgain {
			end.Dead++
		} else {
			end.Done++
		}
	}
	if job.letter.IsZero() {
		return nil
	}
	if err := redriveEnded(ctx, b.w, job.letter, outcome, next, b.at); err != nil {
		return fmt.Errorf("write outcome to letter %s: %w", job.letter, err)
	}
	return nil
}

// enqueue stores the follow-up jobs of what was settled.
func (b *settling) enqueue(ctx context.Context) error {
	var jobs []pawl.NewJob
	for i := range b.items {
		if b.results[i] == nil {
			jobs = append(jobs, b.items[i].Enqueue...)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	b.w.ready = true
	if _, err := insertJobs(ctx, b.w, jobs, b.at); err != nil {
		return fmt.Errorf("enqueue follow-ups: %w", err)
	}
	return nil
}
