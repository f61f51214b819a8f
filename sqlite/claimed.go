package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	// What was reserved, in the order of the tokens. What most jobs have alike is left out: the kind where there is only
	// one, and facts that are still as they were at the enqueue.
	selectTaken = `select id, iif(?3, null, kind), attempt, enqueued_at, iif(crashes + requeues + started = 0 and letter is null and ready_at = enqueued_at, null,
  json_array(crashes, requeues, started, ready_at, hex(letter))), envelope
from pawl_job where session = ?1 and token > ?2 order by token`

	selectAttempts = `select a.job_id, a.record from pawl_job j join pawl_attempt a on a.job_id = j.id
where j.session = ?1 and j.token > ?2 and j.token <= ?3 order by j.token, a.n`

	anyVerdict     = `select 1 from pawl_verdict limit 1`
	selectVerdicts = `select v.job_id, v.letter from pawl_job j join pawl_verdict v on v.job_id = j.id
where j.session = ?1 and j.token > ?2 and j.token <= ?3`
)

// read reads the jobs that were taken.
func (c *claim) read(ctx context.Context) error {
	kind := ""
	if kinds := slices.Compact(slices.Sorted(slices.Values(c.kinds))); len(kinds) == 1 {
		kind = kinds[0]
	}
	c.jobs = make([]pawl.ClaimedJob, 0, len(c.queues))
	rows, err := c.x.QueryContext(ctx, selectTaken, int64(c.request.Session), c.base, kind != "")
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next() && n < len(c.queues); n++ {
		job := pawl.ClaimedJob{Kind: kind, Queue: c.queues[n]}
		job.Token = pawl.Token(c.base + int64(n) + 1)
		if err := scanTaken(rows, &job); err != nil {
			return err
		}
		c.jobs = append(c.jobs, job)
	}
	return rows.Err()
}

func scanTaken(rows *sql.Rows, job *pawl.ClaimedJob) error {
	var id, facts sql.RawBytes
	var kind sql.NullString
	var attempt, enqueuedAt int64
	if err := rows.Scan(&id, &kind, &attempt, &enqueuedAt, &facts, &job.Envelope); err != nil {
		return err
	}
	if copy(job.ID[:], id) != len(job.ID) {
		return fmt.Errorf("stored id %x has not 16 bytes", []byte(id))
	}
	if kind.Valid {
		job.Kind = kind.String
	}
	job.Attempt, job.EnqueuedAt = int(attempt), time.UnixMilli(enqueuedAt).UTC()
	job.ReadyAt = job.EnqueuedAt
	if facts == nil {
		return nil
	}
	return setFacts(job, facts)
}

// setFacts reads the list of what is not as it was at the enqueue.
func setFacts(job *pawl.ClaimedJob, facts []byte) error {
	var started, readyAt int64
	var letter string
	if err := json.Unmarshal(facts, &[]any{&job.Crashes, &job.Requeues, &started, &readyAt, &letter}); err != nil {
		return fmt.Errorf("read facts of job %s: %w", job.ID, err)
	}
	job.Started, job.ReadyAt = started != 0, time.UnixMilli(readyAt).UTC()
	_, err := hex.Decode(job.Letter[:], []byte(letter))
	return err
}

// addPast adds what is kept of the earlier life of the claimed jobs that have one.
func (c *claim) addPast(ctx context.Context) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob)
	for i := range c.jobs {
		if j := &c.jobs[i]; j.Attempt > 1 || j.Requeues > 0 || j.Crashes > 0 {
			index[j.ID] = j
		}
	}
	args := []any{int64(c.request.Session), c.base, c.base + int64(len(c.jobs))}
	if len(index) > 0 {
		if err := c.addHistory(ctx, index, args); err != nil {
			return fmt.Errorf("read history: %w", err)
		}
	}
	if _, any, err := selectOne(ctx, c.x, scanValue[int64], anyVerdict); err != nil || !any {
		return err
	}
	if err := c.addVerdicts(ctx, args); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	return nil
}

func (c *claim) addHistory(ctx context.Context, index map[pawl.ID]*pawl.ClaimedJob, args []any) error {
	_, err := selectRows(ctx, c.x, func(rows *sql.Rows) (struct{}, error) {
		var id pawl.ID
		var record pawl.AttemptRecord
		err := rows.Scan((*idColumn)(&id), jsonColumn{&record})
		if j := index[id]; j != nil {
			j.History = append(j.History, record)
		}
		return struct{}{}, err
	}, selectAttempts, args...)
	return err
}

func (c *claim) addVerdicts(ctx context.Context, args []any) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob, len(c.jobs))
	for i := range c.jobs {
		index[c.jobs[i].ID] = &c.jobs[i]
	}
	_, err := selectRows(ctx, c.x, func(rows *sql.Rows) (struct{}, error) {
		var id pawl.ID
		letter := new(pawl.DeadLetter)
		err := rows.Scan((*idColumn)(&id), jsonColumn{letter})
		if j := index[id]; j != nil && err == nil {
			letter.Envelope = j.Envelope
			j.Verdict = letter
		}
		return struct{}{}, err
	}, selectVerdicts, args...)
	return err
}
