package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	takeSeq = `update pawl_counter set value = value + ?1 where name = 'seq' returning value`

	insertInto = `insert into pawl_job (seq, id, kind, queue, once, starts_off, lane, turn, run_at, ready_at, enqueued_at, letter, unique_key, envelope`
	insertPick = `)
select column1, column2, column3, column4, column5 & 1, (column5 >> 1) & 1, (column5 >> 1) & 1, column5 >> 2, column6, coalesce(nullif(column6, ` + parked + `), ?1), coalesce(column7, ?1), column8, column9, column10`
	insertFrom = `
from (values `

	insertHead    = insertInto + insertPick + insertFrom
	insertRow     = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertMembers = insertInto + `, batch` + insertPick + `, column11` + insertFrom
	insertMember  = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertTail = `) where not exists (select 1 from pawl_done where id = column2)
on conflict (id) do nothing`

	selectInserted = `select seq from pawl_job where seq > ?1 and seq <= ?2`
)

// Enqueue stores the jobs, all or none, and returns when they are on disk. Callers at the same time share commits.
func (s *Store) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if err := checkJobs(jobs); err != nil || len(jobs) == 0 {
		return nil, err
	}
	c := &call{jobs: jobs}
	if err := s.writer.do(ctx, c); err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return c.enqueued, nil
}

func checkJobs(jobs []pawl.NewJob) error {
	for i := range jobs {
		if err := jobs[i].Check(); err != nil {
			return fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	return nil
}

// insertJobs stores jobs that were checked. Result i belongs to job i; those whose id or unique key is taken are left
// out.
func insertJobs(ctx context.Context, x execer, jobs []pawl.NewJob, at int64) ([]pawl.Enqueued, error) {
	return newInsertion(x, jobs, at).store(ctx)
}

func newInsertion(x execer, jobs []pawl.NewJob, at int64) *insertion {
	return &insertion{x: x, at: at, jobs: jobs, results: make([]pawl.Enqueued, len(jobs)), rows: make([]int, 0, len(jobs))}
}

func (in *insertion) store(ctx context.Context) ([]pawl.Enqueued, error) {
	if err := in.admit(ctx); err != nil {
		return nil, err
	}
	if len(in.rows) == 0 {
		return in.results, in.checkRepeats(ctx, 0)
	}
	base, err := in.takeSeq(ctx)
	if err != nil {
		return nil, err
	}
	stored := int64(0)
	for start := 0; start < len(in.rows); {
		n := rowsAtOnce(len(in.rows) - start)
		some, err := change(ctx, in.x, insertText(n, in.batched), in.args(start, n, base)...)
		if err != nil {
			return nil, fmt.Errorf("insert jobs: %w", err)
		}
		stored, start = stored+some, start+n
	}
	if stored < int64(len(in.rows)) {
		if err := in.markRepeated(ctx, base); err != nil {
			return nil, err
		}
	}
	if stored < int64(len(in.jobs)) {
		if err := in.checkRepeats(ctx, base); err != nil {
			return nil, err
		}
	}
	if in.batched {
		if err := in.join(ctx); err != nil {
			return nil, err
		}
	}
	if in.lined {
		return in.results, in.lineUp(ctx, base)
	}
	return in.results, nil
}

// insertText is the statement that inserts n jobs.
func insertText(n int, batched bool) string {
	head, row := insertHead, insertRow
	if batched {
		head, row = insertMembers, insertMember
	}
	return head + strings.Repeat(row+",", n-1) + row + insertTail
}

// insertion is one multi-row insert under way.
type insertion struct {
	x       execer
	at      int64
	jobs    []pawl.NewJob
	results []pawl.Enqueued
	rows    []int // indices of the jobs that are to be inserted
	lined   bool  // some of them stand in line
	strict  bool  // an id that was accepted for another job is refused
	batched bool  // some of them are members of batches
}

// admit picks the jobs to insert: all but those whose unique key is held. Ids that are taken show when inserting.
func (in *insertion) admit(ctx context.Context) error {
	var special []int
	batches := false
	for i := range in.jobs {
		in.results[i].ID = in.jobs[i].ID
		if in.jobs[i].Opens {
			batches = true
			continue
		}
		batches = batches || !in.jobs[i].Member().IsZero()
		in.lined = in.lined || in.jobs[i].OrderingKey != "" || in.jobs[i].Limited
		if in.jobs[i].Unique.Key != "" || !in.jobs[i].Letter.IsZero() {
			special = append(special, i)
		}
	}
	if batches {
		if err := in.openBatches(ctx); err != nil {
			return err
		}
	}
	if len(special) > 0 {
		if err := in.admitSpecial(ctx, special); err != nil {
			return err
		}
	}
	for i := range in.results {
		if in.results[i].Status == pawl.Accepted && !in.jobs[i].Opens {
			in.rows = append(in.rows, i)
		}
	}
	return nil
}

// takeSeq draws a number for each row and returns the one before the first.
func (in *insertion) takeSeq(ctx context.Context) (int64, error) {
	last, _, err := selectOne(ctx, in.x, scanValue[int64], takeSeq, len(in.rows))
	if err != nil {
		return 0, fmt.Errorf("draw numbers: %w", err)
	}
	return last - int64(len(in.rows)), nil
}

// rowsAtOnce bounds a statement, and how many texts of statements there are to be prepared.
func rowsAtOnce(left int) int {
	const most, step = 128, 16
	if left < step {
		return left
	}
	return min(left-left%step, most)
}

// args are those of a statement for n rows from start on.
func (in *insertion) args(start, n int, base int64) []any {
	args := make([]any, 1, 1+11*n)
	args[0] = in.at
	for r := start; r < start+n; r++ {
		job := &in.jobs[in.rows[r]]
		flags := 0
		if job.Once {
			flags |= 1
		}
		if job.StartsOff {
			flags |= 2
		}
		runAt := in.runAt(job)
		if l, lined := linesOf(job); lined {
			flags |= 4
			if l.kind.Valid {
				flags |= 8
			}
			if runAt == nil {
				runAt = int64(math.MaxInt64)
			}
		}
		var key any
		if job.Unique.Key != "" {
			key = job.Unique.Key
		}
		args = append(args, base+int64(r)+1, job.ID[:], job.Kind, job.Queue, flags,
			runAt, timeValue(job.EnqueuedAt), idValue(job.Letter), key, job.Envelope)
		if in.batched {
			args = append(args, idValue(job.Member()))
		}
	}
	return args
}

// lineUp puts the jobs that were stored into their lines, and gives turns.
func (in *insertion) lineUp(ctx context.Context, base int64) error {
	t := newTurns(in.x, in.at)
	stated := map[string]bool{}
	for r, i := range in.rows {
		job := &in.jobs[i]
		l, lined := linesOf(job)
		if !lined || in.results[i].Status != pawl.Accepted {
			continue
		}
		if !job.Limit.IsZero() && !stated[job.Kind] {
			stated[job.Kind] = true
			if err := in.stateLimit(ctx, job); err != nil {
				return err
			}
		}
		if err := t.enter(ctx, job.ID, base+int64(r)+1, l, in.runAt(job) == nil); err != nil {
			return fmt.Errorf("put job %s into line: %w", job.ID, err)
		}
	}
	_, err := t.give(ctx)
	return err
}

// stateLimit notes what the job's kind states.
func (in *insertion) stateLimit(ctx context.Context, job *pawl.NewJob) error {
	text, err := json.Marshal(job.Limit)
	if err == nil {
		_, err = in.x.ExecContext(ctx, stateLimit, job.Kind, string(text))
	}
	if err != nil {
		return fmt.Errorf("note limit of kind %s: %w", job.Kind, err)
	}
	return nil
}

// runAt is when the job becomes due, or nil when it is ready at once.
func (in *insertion) runAt(job *pawl.NewJob) any {
	due := in.at + wholeMillis(job.Delay)
	if !job.RunAt.IsZero() {
		due = ceilMilli(job.RunAt)
	}
	if due <= in.at {
		return nil
	}
	return due
}

// wholeMillis rounds up: a wait is never shortened.
func wholeMillis(d time.Duration) int64 {
	d = max(d, 0)
	whole := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		whole++
	}
	return whole
}

// longMillis is a wait of so many milliseconds. One that is longer than a Duration can be (292 years) is as long as it
// can be, and one that is over is none.
func longMillis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// markRepeated finds the rows that were left out because their ids are taken.
func (in *insertion) markRepeated(ctx context.Context, base int64) error {
	seqs, err := selectRows(ctx, in.x, scanValue[int64], selectInserted, base, base+int64(len(in.rows)))
	if err != nil {
		return fmt.Errorf("find repeated jobs: %w", err)
	}
	there := make(map[int64]bool, len(seqs))
	for _, seq := range seqs {
		there[seq-base-1] = true
	}
	for r, i := range in.rows {
		if !there[int64(r)] {
			in.results[i].Status = pawl.Repeated
		}
	}
	return nil
}
