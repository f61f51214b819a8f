package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// Whoever ends or moves one of these jobs is waited for.
	lockToCancel = `select id, case when holder is not null then 'reserved' when run_at < 'infinity' then 'scheduled' else 'waiting' end,
  flags & 8 <> 0 from {s}.job where id = any($1::uuid[]) order by id for update`
	selectEndedState = `select id, case state when 0 then 'done' when 1 then 'dead' else 'removed' end from {t} where id = any($1::uuid[])`
	markCancelled    = `update {s}.job set flags = flags | 8 where id = any($1::uuid[])`

	endedColumns = `j.id, j.enqueued_at, j.queue, j.kind, j.attempt, j.requeues, j.crashes, j.flags, j.letter, j.envelope, j.batch`
	removeFree   = `delete from {s}.job j where j.id = any($1::uuid[]) and j.holder is null returning ` + endedColumns

	// Without claims, whatever the session holds of the ids.
	removeCancelled = `delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
where j.id = t.id and (t.claim is null or j.claim = t.claim) and j.holder = $3 and j.flags & 8 <> 0 returning ` + endedColumns
)

// CancelJobs removes jobs, and marks those that are running.
func (s *Store) CancelJobs(ctx context.Context, ids []pawl.ID, by pawl.By) (results []pawl.Cancelled, err error) {
	if err := desk.CheckCancel(ids, by); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var c canceling
	err = s.inSlots(ctx, s.writableSlots, func(slots slotSet) error {
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			c = canceling{store: s, by: by, slots: slots, results: map[pawl.ID]pawl.Cancelled{}}
			results, err = c.run(ctx, tx, ids)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cancel jobs: %w", err)
	}
	s.giveIfAny(ctx)
	if len(c.running) > 0 {
		s.waker.announce() // their hosts are to hear of it
	}
	return results, nil
}

// canceling is one call under way.
type canceling struct {
	store   *Store
	by      pawl.By
	slots   slotSet
	results map[pawl.ID]pawl.Cancelled
	free    idList // neither running nor ended
	running idList // and not marked yet
	lines   []audited
}

func (c *canceling) run(ctx context.Context, tx pgx.Tx, ids []pawl.ID) ([]pawl.Cancelled, error) {
	for _, step := range []func(context.Context, pgx.Tx, []pawl.ID) error{c.look, c.removeFree, c.mark, c.stopBatches, c.refuse} {
		if err := step(ctx, tx, ids); err != nil {
			return nil, err
		}
	}
	if _, err := c.store.writeAudit(ctx, tx, c.lines...); err != nil {
		return nil, err
	}
	out := make([]pawl.Cancelled, len(ids))
	seen := map[pawl.ID]bool{}
	for i, id := range ids {
		out[i] = c.results[id]
		if seen[id] && out[i].State == pawl.JobRemoved { // named before
			out[i] = desk.CancelRefused(id, pawl.JobRemoved)
		}
		seen[id] = true
	}
	return out, nil
}

// look locks the jobs that have not ended.
func (c *canceling) look(ctx context.Context, tx pgx.Tx, ids []pawl.ID) error {
	var id idColumn
	var state pawl.JobState
	var marked bool
	rows, err := tx.Query(ctx, c.store.sql.desk.lockToCancel, idList(ids))
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&id, (*string)(&state), &marked}, func() error {
		job := pawl.ID(id)
		switch {
		case state != pawl.JobReserved:
			c.free = append(c.free, job)
		case !marked:
			c.running = append(c.running, job)
		}
		if c.results[job] = (pawl.Cancelled{State: pawl.JobReserved}); state != pawl.JobReserved {
			c.results[job] = pawl.Cancelled{State: pawl.JobRemoved}
		}
		if state != pawl.JobReserved || !marked {
			c.lines = append(c.lines, audited{c.by, desk.CancelEntry(job, state)})
		}
		return nil
	})
	return err
}

func (c *canceling) removeFree(ctx context.Context, tx pgx.Tx, _ []pawl.ID) error {
	if len(c.free) == 0 {
		return nil
	}
	jobs, err := c.store.takeEnded(ctx, tx, c.store.sql.desk.removeFree, c.free)
	if err != nil {
		return err
	}
	return c.store.keepRemoved(ctx, tx, jobs, c.slots)
}

func (c *canceling) mark(ctx context.Context, tx pgx.Tx, _ []pawl.ID) error {
	if len(c.running) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, c.store.sql.desk.markCancelled, c.running)
	return err
}

// rest are those of some jobs that were not found yet.
func (c *canceling) rest(ids []pawl.ID) (rest idList) {
	for _, id := range ids {
		if _, there := c.results[id]; !there {
			rest = append(rest, id)
		}
	}
	return rest
}

// stopBatches removes jobs that were to follow batches that are open.
func (c *canceling) stopBatches(ctx context.Context, tx pgx.Tx, ids []pawl.ID) error {
	rest := c.rest(ids)
	if len(rest) == 0 {
		return nil
	}
	jobs, err := c.store.takeCallbacks(ctx, tx, rest)
	if err != nil || len(jobs) == 0 {
		return err
	}
	for _, job := range jobs {
		c.results[job.id] = pawl.Cancelled{State: pawl.JobRemoved}
		c.lines = append(c.lines, audited{c.by, desk.CancelCallbackEntry(job.id)})
	}
	return c.store.keepRemoved(ctx, tx, jobs, c.slots)
}

// refuse says of the others why not.
func (c *canceling) refuse(ctx context.Context, tx pgx.Tx, ids []pawl.ID) error {
	rest := c.rest(ids)
	for _, id := range rest {
		c.results[id] = desk.CancelRefused(id, "")
	}
	ended, err := c.store.endedStates(ctx, tx, rest, c.slots)
	for id, state := range ended {
		c.results[id] = desk.CancelRefused(id, state)
	}
	return err
}

// takeEnded reads the jobs that a statement has removed by an operator's will, with what other tables have of them.
func (s *Store) takeEnded(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]*ended, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	var jobs []*ended
	var one ended
	_, err = pgx.ForEachRow(rows, one.targets(), func() error {
		job := one
		job.envelope = append([]byte{}, one.envelope...)
		jobs = append(jobs, &job)
		return nil
	})
	if err != nil || len(jobs) == 0 {
		return jobs, err
	}
	removed := tallies{}
	for _, job := range jobs {
		if !job.batch.IsZero() {
			removed.of(job.batch).removed++
		}
	}
	if err := s.noteEnds(ctx, tx, removed); err != nil {
		return nil, err
	}
	return jobs, s.takePast(ctx, tx, jobs)
}

// keepRemoved remembers jobs that operators removed, and tells the letters that they came from.
func (s *Store) keepRemoved(ctx context.Context, tx pgx.Tx, jobs []*ended, slots slotSet) error {
	var ends []redriveEnd
	states := make([]int16, len(jobs))
	for i, job := range jobs {
		states[i] = stateRemoved
		if !job.letter.IsZero() {
			ends = append(ends, redriveEnd{letter: job.letter, outcome: pawl.RedriveCancelled})
		}
	}
	if err := s.redriveEnded(ctx, tx, ends); err != nil {
		return fmt.Errorf("write outcomes of redrives: %w", err)
	}
	if slots.texts.insertEnded == "" {
		return nil
	}
	return s.keepEnded(ctx, tx, jobs, states, slots)
}

// removeCancelled removes what a session holds of some jobs and was to be cancelled, in the place of putting it back.
// Without claims, all of it. records are of their last attempts.
func (s *Store) removeCancelled(ctx context.Context, tx pgx.Tx, session int64, ids idList, claims []int64, records map[pawl.ID]*pawl.AttemptRecord, slots slotSet) ([]*ended, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := s.takeEnded(ctx, tx, s.sql.removeCancelled, ids, claims, session)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	lines := make([]audited, len(jobs))
	for i, job := range jobs {
		lines[i] = audited{desk.System(), desk.CancelledEntry(job.id)}
		if record := records[job.id]; record != nil {
			text, err := json.Marshal(record)
			if err != nil {
				return nil, err
			}
			job.history = append(job.history, text)
		}
	}
	if err := s.keepRemoved(ctx, tx, jobs, slots); err != nil {
		return nil, err
	}
	_, err = s.writeAudit(ctx, tx, lines...)
	return jobs, err
}

// removeInstead removes members that could not be put back because their jobs are to be cancelled.
func (b *settling) removeInstead(ctx context.Context, tx pgx.Tx, members []int, slots slotSet) error {
	var missing []int
	index, records := map[pawl.ID]int{}, map[pawl.ID]*pawl.AttemptRecord{}
	for _, i := range members {
		if errors.Is(b.results[i], pawl.ErrLeaseLost) {
			missing = append(missing, i)
			index[b.items[i].ID], records[b.items[i].ID] = i, b.items[i].Record
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ids, claims := b.reservations(missing)
	jobs, err := b.store.removeCancelled(ctx, tx, int64(b.session), ids, claims, records, slots)
	for _, job := range jobs {
		b.results[index[job.id]] = nil
		b.see(job.flags)
	}
	return err
}

// slotsOrNone are the tables of finished jobs for work that goes on without them.
func (s *Store) slotsOrNone(ctx context.Context) slotSet {
	slots, err := s.writableSlots(ctx)
	if err != nil {
		return slotSet{current: -1, texts: s.schema.slotTexts(slotSet{current: -1}, false)}
	}
	return slots
}
