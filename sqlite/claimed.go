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
		id, err := scanTaken(rows, &job)
		if err != nil {
			return err
		}
		if len(id) != len(job.ID) {
			c.damage = append(c.damage, damage{job: hex.EncodeToString(id), what: badID, err: errBadID, token: job.Token})
			continue
		}
		c.jobs = append(c.jobs, job)
	}
	return rows.Err()
}

// scanTaken returns the id as it is stored, until the next row.
func scanTaken(rows *sql.Rows, job *pawl.ClaimedJob) (id sql.RawBytes, err error) {
	var facts sql.RawBytes
	var kind sql.NullString
	var attempt, enqueuedAt int64
	if err := rows.Scan(&id, &kind, &attempt, &enqueuedAt, &facts, &job.Envelope); err != nil {
		return nil, err
	}
	copy(job.ID[:], id)
	if kind.Valid {
		job.Kind = kind.String
	}
	job.Attempt, job.EnqueuedAt = int(attempt), time.UnixMilli(enqueuedAt).UTC()
	job.ReadyAt = job.EnqueuedAt
	if facts == nil {
		return id, nil
	}
	return id, setFacts(job, facts)
}

// setFacts reads the list of what is not as it was at the enqueue.
func setFacts(job *pawl.ClaimedJob, facts []byte) error {
	var started, readyAt int64
	var letter string
	if err := json.Unmarshal(facts, &[]any{&job.Crashes, &job.Requeues, &started, &readyAt, &letter}); err != nil {
		return fmt.Errorf("read facts of job %s: %w", job.ID, err)
	}
	job.Started, job.ReadyAt = started != 0, time.UnixMilli(readyAt).UTC()
	stored, err := hex.DecodeString(letter)
	if err != nil {
		return err
	}
	return (*looseID)(&job.Letter).Scan(stored)
}

// addPast adds what is kept of the earlier life of the claimed jobs that have one.
func (c *claim) addPast(ctx context.Context) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob)
	for i := range c.jobs {
		if j := &c.jobs[i]; j.Attempt > 1 || j.Requeues > 0 || j.Crashes > 0 {
			index[j.ID] = j
		}
	}
	args := []any{int64(c.request.Session), c.base, c.base + int64(len(c.queues))}
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

// pastRow is what is kept of a job in another table, as text.
type pastRow struct {
	id   pawl.ID
	text string
}

func scanPast(rows *sql.Rows) (r pastRow, err error) {
	return r, rows.Scan((*idColumn)(&r.id), &r.text)
}

func (c *claim) addHistory(ctx context.Context, index map[pawl.ID]*pawl.ClaimedJob, args []any) error {
	kept, err := selectRows(ctx, c.x, scanPast, selectAttempts, args...)
	for _, row := range kept {
		j := index[row.id]
		if j == nil {
			continue
		}
		var record pawl.AttemptRecord
		if err := json.Unmarshal([]byte(row.text), &record); err != nil {
			c.noteDamage(row.id, "a job's record of an attempt cannot be read and is passed over", err)
			continue
		}
		j.History = append(j.History, record)
	}
	return err
}

func (c *claim) addVerdicts(ctx context.Context, args []any) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob, len(c.jobs))
	for i := range c.jobs {
		index[c.jobs[i].ID] = &c.jobs[i]
	}
	kept, err := selectRows(ctx, c.x, scanPast, selectVerdicts, args...)
	for _, row := range kept {
		if j := index[row.id]; j != nil {
			j.Verdict = c.verdict(*j, row.text)
		}
	}
	return err
}

// verdict reads the letter that was kept with a job. The job is dead also where it cannot be read.
func (c *claim) verdict(job pawl.ClaimedJob, text string) *pawl.DeadLetter {
	letter := new(pawl.DeadLetter)
	err := json.Unmarshal([]byte(text), letter)
	if err == nil && letter.ID.IsZero() {
		err = errNoLetter
	}
	if err == nil {
		letter.Envelope = job.Envelope
		return letter
	}
	c.noteDamage(job.ID, "the letter that was kept with a dead job cannot be read; the job is buried with one that says so", err)
	return substitute(c.connection, job, text, err)
}
