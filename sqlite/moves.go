package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

func readFate(ctx context.Context, x execer, letter pawl.ID) (desk.Fate, bool, error) {
	return selectOne(ctx, x, func(rows *sql.Rows) (f desk.Fate, err error) {
		return f, rows.Scan(&f.Status, &f.RedrivenBy, (*timeColumn)(&f.RedrivenAt),
			(*idColumn)(&f.NewJob), &f.Outcome, (*idColumn)(&f.Next), &f.Note, (*timeColumn)(&f.StatusAt), (*timeColumn)(&f.ErasedAt))
	}, `select status, redriven_by, redriven_at, new_job_id, redrive_outcome, next_letter, note, max(status_at, dead_at), erased_at
		from pawl_letter where id = ?`, letter[:])
}

// writeFate changes the letter, if it is still as it was, and says so in the trail.
func writeFate(ctx context.Context, x execer, m pawl.Move, before, after desk.Fate, at int64) error {
	n, err := change(ctx, x, `
		update pawl_letter set status = ?, redriven_by = ?, redriven_at = ?, new_job_id = ?, redrive_outcome = ?,
			next_letter = ?, note = ?, status_at = ?
		where id = ? and status = ? and redrive_outcome = ?`,
		int64(after.Status), after.RedrivenBy, timeValue(after.RedrivenAt), idValue(after.NewJob), string(after.Outcome),
		idValue(after.Next), after.Note, timeValue(after.StatusAt), m.Letter[:], int64(before.Status), string(before.Outcome))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("letter %s was changed meanwhile: %w", m.Letter, pawl.ErrConflict)
	}
	if m.Action == pawl.ActionOutcome {
		if err := operationHears(ctx, x, before.NewJob, m.Outcome); err != nil {
			return err
		}
	}
	_, err = writeAudit(ctx, x, at, m.By, desk.Entry(m, before, after))
	return err
}

// MoveLetters changes the status of letters. The moves of one call share few transactions, and each is apart from the
// others: a refused one has left nothing.
func (s *Store) MoveLetters(ctx context.Context, moves []pawl.Move) ([]error, error) {
	var out []error
	for len(moves) > 0 {
		part := moves[:min(batch, len(moves))]
		moves = moves[len(part):]
		var refusals []error
		err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
			refusals, err = moveAll(ctx, w, part, now())
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("move letters: %w", err)
		}
		out = append(out, refusals...)
	}
	return out, nil
}

func moveAll(ctx context.Context, w *writer, moves []pawl.Move, at int64) ([]error, error) {
	refusals := make([]error, len(moves))
	for i, m := range moves {
		refusal, err := moveOne(ctx, w, m, at)
		if err != nil {
			return nil, fmt.Errorf("letter %s: %w", m.Letter, err)
		}
		refusals[i] = refusal
		w.ready = w.ready || refusal == nil && m.Push != nil
	}
	return refusals, nil
}

// moveOne either moves, or says why not and leaves all as it was. Its second result is the store's own trouble.
func moveOne(ctx context.Context, x execer, m pawl.Move, at int64) (refusal, err error) {
	if refusal := desk.CheckMove(m); refusal != nil {
		return refusal, nil
	}
	before, found, err := readFate(ctx, x, m.Letter)
	if err != nil {
		return nil, err
	}
	if !found {
		return fmt.Errorf("letter %s: %w", m.Letter, pawl.ErrNotFound), nil
	}
	if refusal := before.Allowed(m); refusal != nil {
		return refusal, nil
	}
	newJob := m.NewJob
	if m.Push != nil {
		newJob = m.Push.ID
		if refusal, err := push(ctx, x, m, at); refusal != nil || err != nil {
			return refusal, err
		}
	}
	after := before.Moved(m, newJob, time.UnixMilli(at))
	if m.Action == pawl.ActionOutcome && m.Outcome == pawl.RedriveDiedAgain {
		if after.Next, err = nextLetter(ctx, x, m.Letter, before.NewJob); err != nil {
			return nil, err
		}
	}
	return nil, writeFate(ctx, x, m, before, after, at)
}

// nextLetter is the letter as which a redrive died, where it was recorded here.
func nextLetter(ctx context.Context, x execer, letter, job pawl.ID) (next pawl.ID, err error) {
	next, _, err = selectOne(ctx, x, func(rows *sql.Rows) (id pawl.ID, err error) {
		return id, rows.Scan((*idColumn)(&id))
	}, `select id from pawl_letter where job_id = ? and previous = ? order by dead_at desc limit 1`, idValue(job), letter[:])
	return next, err
}

// push stores the move's job. What keeps it out has left everything as it was.
func push(ctx context.Context, x execer, m pawl.Move, at int64) (refusal, err error) {
	job := *m.Push
	job.Letter = m.Letter
	stored, err := insertJobs(ctx, x, []pawl.NewJob{job}, at)
	switch {
	case err != nil:
		return nil, err
	case stored[0].Status == pawl.Repeated:
		return fmt.Errorf("letter %s: a job %s is there already: %w", m.Letter, stored[0].ID, pawl.ErrConflict), nil
	case stored[0].Status == pawl.Duplicate:
		return fmt.Errorf("letter %s: its unique key is held by job %s: %w", m.Letter, stored[0].ID, pawl.ErrConflict), nil
	}
	return nil, nil
}
