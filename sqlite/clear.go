package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// ClearQueue removes the jobs that are in a queue when it is called. It goes by batches, so that others get to write;
// the line in the trail says after each batch how many have gone.
func (s *Store) ClearQueue(ctx context.Context, queue string, by pawl.By) (int, error) {
	if err := desk.CheckBy(by); err != nil {
		return 0, err
	}
	if err := desk.CheckName("queue", queue); err != nil {
		return 0, err
	}
	c := clearing{queue: queue, by: by, until: now()}
	for more := true; more; {
		var next clearing
		err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
			next, more, err = c.step(ctx, w, s.config.History >= 0, now())
			return err
		})
		if err != nil {
			return c.cleared, fmt.Errorf("clear queue %s after %d jobs: %w", queue, c.cleared, err)
		}
		c = next
	}
	return c.cleared, nil
}

// clearing is how far a clear has come.
type clearing struct {
	queue   string
	by      pawl.By
	until   int64 // later enqueues stay
	audit   int64 // the line in the trail; 0 before the first batch
	cleared int
}

// step removes one batch.
func (c clearing) step(ctx context.Context, x execer, keep bool, at int64) (_ clearing, more bool, err error) {
	jobs, err := c.next(ctx, x)
	if err != nil {
		return c, false, err
	}
	if err := removeJobs(ctx, x, jobs, keep, at); err != nil {
		return c, false, err
	}
	c.cleared += len(jobs)
	if c.audit == 0 {
		c.audit, err = writeAudit(ctx, x, at, c.by, pawl.AuditEntry{
			Action: pawl.ActionClear, Subject: "queue " + c.queue, Outcome: strconv.Itoa(c.cleared),
		})
	} else {
		_, err = x.ExecContext(ctx, `update pawl_audit set outcome = ? where id = ?`, strconv.Itoa(c.cleared), c.audit)
	}
	return c, len(jobs) > 0, err
}

type removal struct {
	seq    int64
	letter pawl.ID
}

const (
	clearWaiting   = "session is null and run_at is null"
	clearScheduled = "run_at is not null"
	clearReserved  = "session is not null"
)

func pickToClear(state string) string {
	return `select seq, letter from pawl_job where ` + state + ` and queue = ? and enqueued_at <= ? limit ?`
}

// next picks jobs by the index of each state in turn.
func (c clearing) next(ctx context.Context, x execer) ([]removal, error) {
	for _, state := range []string{clearWaiting, clearScheduled, clearReserved} {
		jobs, err := selectRows(ctx, x, func(rows *sql.Rows) (r removal, err error) {
			return r, rows.Scan(&r.seq, (*looseID)(&r.letter))
		}, pickToClear(state), c.queue, c.until, batch)
		if err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

const (
	cleared = `(select value from json_each(?1))`

	keepRemoved = `insert into pawl_done (id, kind, queue, state, attempt, enqueued_at, finished_at, letter, envelope)
select id, kind, queue, 'removed', attempt, enqueued_at, ?2, letter, case when ?3 then envelope end
from pawl_job where seq in ` + cleared
)

const leaveLines = `delete from pawl_turn where job_id in (select id from pawl_job where turn <> 0 and seq in ` + cleared + `) returning okey, lkey, kind`

// removals take the jobs of a list, and what hangs on them. Their records stay with what is kept of them.
var removals = [...]string{
	`delete from pawl_key where until = 0 and (key, job_id) in (select unique_key, id from pawl_job where seq in ` + cleared + `)`,
	`delete from pawl_verdict where job_id in (select id from pawl_job where seq in ` + cleared + `)`,
	`delete from pawl_job where seq in ` + cleared,
}

// removeJobs ends jobs by an operator's will, in whatever state they are, and remembers that.
func removeJobs(ctx context.Context, x execer, jobs []removal, keep bool, at int64) error {
	var list intList
	for _, job := range jobs {
		list.add(job.seq)
	}
	seqs := list.json()
	if _, err := x.ExecContext(ctx, keepRemoved, seqs, at, keep); err != nil {
		return err
	}
	if err := countRemovedMembers(ctx, x, seqs); err != nil {
		return err
	}
	t := newTurns(x, at)
	left, err := selectRows(ctx, x, scanLines, leaveLines, seqs)
	if err != nil {
		return fmt.Errorf("leave lines: %w", err)
	}
	for _, l := range left {
		t.look(l)
	}
	for _, statement := range removals {
		if _, err := x.ExecContext(ctx, statement, seqs); err != nil {
			return err
		}
	}
	for _, job := range jobs {
		if job.letter.IsZero() {
			continue
		}
		if err := redriveEnded(ctx, x, job.letter, pawl.RedriveCancelled, pawl.ID{}, at); err != nil {
			return err
		}
	}
	ready, err := t.give(ctx)
	if w, ok := x.(*writer); ok && ready {
		w.ready = true
	}
	return err
}
