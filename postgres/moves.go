package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	// Whoever changes a letter holds its row from here to the end.
	lockFates = `select id, now(), status, redriven_by, redriven_at, new_job_id, redrive_outcome, next_letter, note, status_at, erased_at
from {s}.letter where id = any($1::uuid[]) order by id for update`

	writeFates = `update {s}.letter l set status = t.status, redriven_by = t.redriven_by, redriven_at = t.redriven_at,
  new_job_id = t.new_job_id, redrive_outcome = t.redrive_outcome, next_letter = t.next_letter, note = t.note, status_at = t.status_at
from unnest($1::uuid[], $2::smallint[], $3::text[], $4::timestamptz[], $5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::timestamptz[])
  t (id, status, redriven_by, redriven_at, new_job_id, redrive_outcome, next_letter, note, status_at)
where l.id = t.id`

	// The letter as which a redrive died, where it was recorded here.
	selectNextLetter = `select id from {s}.letter where job_id = $1 and previous = $2 order by dead_at desc, id desc limit 1`
)

// fate is what operators change of a letter, as it was when the letter was locked.
type fate struct {
	desk.Fate
	now time.Time // the database's
}

// lockFates locks letters and reads what can be changed of them.
func (s *Store) lockFates(ctx context.Context, tx pgx.Tx, letters []pawl.ID) (map[pawl.ID]fate, error) {
	fates := make(map[pawl.ID]fate, len(letters))
	_, err := selectRows(ctx, tx, func(rows pgx.Rows) (f fate, err error) {
		var id pawl.ID
		err = rows.Scan((*idColumn)(&id), (*timeColumn)(&f.now), smallColumn[pawl.Status]{&f.Status}, &f.RedrivenBy,
			(*timeColumn)(&f.RedrivenAt), (*idColumn)(&f.NewJob), (*string)(&f.Outcome), (*idColumn)(&f.Next), &f.Note,
			(*timeColumn)(&f.StatusAt), (*timeColumn)(&f.ErasedAt))
		fates[id] = f
		return f, err
	}, s.sql.desk.lockFates, idList(letters))
	return fates, err
}

// MoveLetters changes the status of letters. The moves of one call share few transactions, and each is apart from the
// others: a refused one has left nothing.
func (s *Store) MoveLetters(ctx context.Context, moves []pawl.Move) ([]error, error) {
	var out []error
	for len(moves) > 0 {
		n := together(moves)
		refusals, err := s.moveTogether(ctx, moves[:n])
		if err != nil {
			return nil, fmt.Errorf("move letters: %w", err)
		}
		out, moves = append(out, refusals...), moves[n:]
	}
	return out, nil
}

// together is how many moves go into one transaction: none of them aims at a letter that one before it does.
func together(moves []pawl.Move) int {
	aims := map[pawl.ID]bool{}
	for n, m := range moves {
		if n == deskBatch || aims[m.Letter] {
			return n
		}
		aims[m.Letter] = true
	}
	return len(moves)
}

func (s *Store) moveTogether(ctx context.Context, moves []pawl.Move) ([]error, error) {
	return s.moveWithin(ctx, moves, func(_ context.Context, _ pgx.Tx, move func() ([]error, error)) error {
		_, err := move()
		return err
	})
}

// moveWithin runs f in a transaction, in which f makes the moves when it calls move. The moves are of different letters. It
// returns their refusals.
func (s *Store) moveWithin(ctx context.Context, moves []pawl.Move, f func(ctx context.Context, tx pgx.Tx, move func() ([]error, error)) error) ([]error, error) {
	m := moving{store: s, moves: moves, refusals: make([]error, len(moves))}
	var letters []pawl.ID
	var kinds, queues []string
	for i := range moves {
		if m.refusals[i] = desk.CheckMove(moves[i]); m.refusals[i] != nil {
			continue
		}
		letters = append(letters, moves[i].Letter)
		if push := moves[i].Push; push != nil {
			kinds, queues = append(kinds, push.Kind), append(queues, push.Queue)
		}
	}
	if err := s.number(ctx, kinds, queues); err != nil {
		return nil, err
	}
	var done moving
	err := s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			done = m.afresh()
			return f(ctx, tx, func() ([]error, error) { return done.refusals, done.run(ctx, tx, letters, slots) })
		})
	})
	if err != nil {
		return nil, err
	}
	if done.pushed {
		s.giveIfAny(ctx)
		s.waker.announce()
	}
	return done.refusals, nil
}

// inSlots calls f with the tables of finished jobs, and once more where one of them was dropped since this process
// looked. It must not be called while a connection is held.
func (s *Store) inSlots(ctx context.Context, current func(context.Context) (slotSet, error), f func(slots slotSet) error) error {
	slots, err := current(ctx)
	if err == nil {
		err = f(slots)
	}
	if !missing(err, "done_") {
		return err
	}
	s.forgetSlots()
	if slots, err = current(ctx); err != nil {
		return err
	}
	return f(slots)
}

// moving is moves of different letters under way.
type moving struct {
	store    *Store
	moves    []pawl.Move
	refusals []error
	fates    map[pawl.ID]fate
	pushed   bool
}

// afresh is a copy that has done nothing yet.
func (m *moving) afresh() moving {
	again := *m
	again.refusals = append([]error(nil), m.refusals...)
	return again
}

func (m *moving) run(ctx context.Context, tx pgx.Tx, letters []pawl.ID, slots slotSet) (err error) {
	if len(letters) == 0 {
		return nil
	}
	if m.fates, err = m.store.lockFates(ctx, tx, letters); err != nil {
		return err
	}
	for i := range m.moves {
		if m.refusals[i] == nil {
			m.refusals[i] = m.refusal(&m.moves[i])
		}
	}
	if err := m.push(ctx, tx, slots); err != nil {
		return fmt.Errorf("push jobs: %w", err)
	}
	var changes []change
	for i := range m.moves {
		if m.refusals[i] != nil {
			continue
		}
		one, err := m.change(ctx, tx, &m.moves[i])
		if err != nil {
			return fmt.Errorf("letter %s: %w", m.moves[i].Letter, err)
		}
		changes = append(changes, one)
	}
	if err := m.store.writeChanges(ctx, tx, changes); err != nil {
		return err
	}
	return m.store.operationsHear(ctx, tx, changes)
}

// refusal says why a move is not allowed.
func (m *moving) refusal(move *pawl.Move) error {
	before, found := m.fates[move.Letter]
	if !found {
		return fmt.Errorf("letter %s: %w", move.Letter, pawl.ErrNotFound)
	}
	return before.Allowed(*move)
}

// push stores the jobs of the moves that are allowed. One that is kept out has left nothing, and its move is refused.
func (m *moving) push(ctx context.Context, tx pgx.Tx, slots slotSet) error {
	var jobs []pawl.NewJob
	var of []int
	for i := range m.moves {
		if push := m.moves[i].Push; push != nil && m.refusals[i] == nil {
			job := *push
			job.Letter = m.moves[i].Letter
			jobs, of = append(jobs, job), append(of, i)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	in := m.store.insertionOf(jobs, slots)
	in.number()
	if err := in.run(ctx, execer.OnPgx(tx)); err != nil {
		return err
	}
	for n, i := range of {
		letter, result := m.moves[i].Letter, in.results[n]
		switch result.Status {
		case pawl.Repeated:
			m.refusals[i] = fmt.Errorf("letter %s: a job %s is there already: %w", letter, result.ID, pawl.ErrConflict)
		case pawl.Duplicate:
			m.refusals[i] = fmt.Errorf("letter %s: its unique key is held by job %s: %w", letter, result.ID, pawl.ErrConflict)
		default:
			m.pushed = true
		}
	}
	return nil
}

// change is what a move makes of a letter.
type change struct {
	move          *pawl.Move
	before, after desk.Fate
}

func (m *moving) change(ctx context.Context, tx pgx.Tx, move *pawl.Move) (change, error) {
	before, newJob := m.fates[move.Letter], move.NewJob
	if move.Push != nil {
		newJob = move.Push.ID
	}
	after := before.Moved(*move, newJob, before.now)
	if move.Action == pawl.ActionOutcome && move.Outcome == pawl.RedriveDiedAgain {
		next, _, err := selectOne(ctx, tx, scanID, m.store.sql.desk.selectNextLetter, idValue(before.NewJob), idValue(move.Letter))
		if err != nil {
			return change{}, err
		}
		after.Next = pawl.ID(next)
	}
	return change{move, before.Fate, after}, nil
}

// writeChanges changes letters that are locked, and says so in the trail.
func (s *Store) writeChanges(ctx context.Context, tx pgx.Tx, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.sql.desk.writeFates,
		column(changes, func(c *change) pgtype.UUID { return idValue(c.move.Letter) }),
		column(changes, func(c *change) int16 { return int16(c.after.Status) }),
		column(changes, func(c *change) string { return c.after.RedrivenBy }),
		column(changes, func(c *change) pgtype.Timestamptz { return timeValue(c.after.RedrivenAt) }),
		column(changes, func(c *change) pgtype.UUID { return idValue(c.after.NewJob) }),
		column(changes, func(c *change) string { return string(c.after.Outcome) }),
		column(changes, func(c *change) pgtype.UUID { return idValue(c.after.Next) }),
		column(changes, func(c *change) string { return c.after.Note }),
		column(changes, func(c *change) pgtype.Timestamptz { return timeValue(c.after.StatusAt) }))
	if err != nil {
		return fmt.Errorf("change letters: %w", err)
	}
	_, err = s.writeAudit(ctx, tx, column(changes, func(c *change) audited {
		return audited{c.move.By, desk.Entry(*c.move, c.before, c.after)}
	})...)
	return err
}
