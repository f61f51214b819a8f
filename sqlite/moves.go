package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// fate is what operators change of a letter.
type fate struct {
	status     pawl.Status
	redrivenBy string
	redrivenAt time.Time
	newJob     pawl.ID
	outcome    pawl.RedriveOutcome
	next       pawl.ID
	note       string
}

func readFate(ctx context.Context, x execer, letter pawl.ID) (fate, bool, error) {
	return selectOne(ctx, x, func(rows *sql.Rows) (f fate, err error) {
		return f, rows.Scan(&f.status, &f.redrivenBy, (*timeColumn)(&f.redrivenAt),
			(*idColumn)(&f.newJob), &f.outcome, (*idColumn)(&f.next), &f.note)
	}, `select status, redriven_by, redriven_at, new_job_id, redrive_outcome, next_letter, note
		from pawl_letter where id = ?`, letter[:])
}

// moved is the fate after a move that is allowed; newJob is the job of a redrive.
func (f fate) moved(m pawl.Move, newJob pawl.ID, at int64) fate {
	f.status = m.To()
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		f.redrivenBy, f.redrivenAt, f.newJob = m.By.Who, time.UnixMilli(at), newJob
		f.outcome, f.next = pawl.RedrivePending, pawl.ID{}
	case pawl.ActionOutcome:
		f.outcome = m.Outcome
	case pawl.ActionReopen:
		f.redrivenBy, f.redrivenAt, f.newJob, f.outcome, f.next = "", time.Time{}, pawl.ID{}, "", pawl.ID{}
	}
	if m.Note != "" {
		f.note = m.Note
	}
	return f
}

// writeFate changes the letter, if it is still as it was, and says so in the trail.
func writeFate(ctx context.Context, x execer, m pawl.Move, before, after fate, at int64) error {
	n, err := change(ctx, x, `
		update pawl_letter set status = ?, redriven_by = ?, redriven_at = ?, new_job_id = ?, redrive_outcome = ?,
			next_letter = ?, note = ?
		where id = ? and status = ? and redrive_outcome = ?`,
		int64(after.status), after.redrivenBy, timeValue(after.redrivenAt), idValue(after.newJob), string(after.outcome),
		idValue(after.next), after.note, m.Letter[:], int64(before.status), string(before.outcome))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("letter %s was changed meanwhile: %w", m.Letter, pawl.ErrConflict)
	}
	entry := pawl.AuditEntry{
		Action: m.Action, Subject: m.Letter.String(), From: before.status.String(), To: after.status.String(),
	}
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		entry.Outcome = after.newJob.String()
	case pawl.ActionOutcome:
		entry.Outcome = string(after.outcome)
	}
	_, err = writeAudit(ctx, x, at, m.By, entry)
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
	if refusal := checkMove(m); refusal != nil {
		return refusal, nil
	}
	before, found, err := readFate(ctx, x, m.Letter)
	if err != nil {
		return nil, err
	}
	if !found {
		return fmt.Errorf("letter %s: %w", m.Letter, pawl.ErrNotFound), nil
	}
	if refusal := m.Allowed(before.status, before.outcome, before.newJob); refusal != nil {
		return refusal, nil
	}
	newJob := m.NewJob
	if m.Push != nil {
		newJob = m.Push.ID
		if refusal, err := push(ctx, x, m, at); refusal != nil || err != nil {
			return refusal, err
		}
	}
	after := before.moved(m, newJob, at)
	if m.Action == pawl.ActionOutcome && m.Outcome == pawl.RedriveDiedAgain {
		if after.next, err = nextLetter(ctx, x, m.Letter, before.newJob); err != nil {
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

// checkMove refuses a move that makes no sense whatever the letter's state.
func checkMove(m pawl.Move) error {
	if err := checkBy(m.By); err != nil {
		return err
	}
	if err := checkStorable("note", m.Note, maxNote); err != nil {
		return err
	}
	runs := false
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		runs = true
	case pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen:
	case pawl.ActionOutcome:
		switch m.Outcome {
		case pawl.RedriveSucceeded, pawl.RedriveDiedAgain, pawl.RedriveCancelled:
		default:
			return &pawl.FieldError{Field: "outcome", Value: m.Outcome, Rule: "must be succeeded, died again or cancelled"}
		}
	default:
		return &pawl.FieldError{Field: "action", Value: m.Action, Rule: "must be redrive, retry, resolve, discard, reopen or outcome"}
	}
	switch {
	case runs && m.Push == nil && m.NewJob.IsZero():
		return &pawl.FieldError{Field: "job", Value: "", Rule: "a " + string(m.Action) + " needs the job that it makes"}
	case !runs && (m.Push != nil || !m.NewJob.IsZero()):
		return &pawl.FieldError{Field: "job", Value: m.NewJob, Rule: "a " + string(m.Action) + " makes no job"}
	case m.Push != nil:
		return m.Push.Check()
	}
	return nil
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
