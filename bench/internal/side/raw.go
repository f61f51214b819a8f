package side

import (
	"context"
	_ "embed"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl/bench/internal/child"
)

//go:embed raw.sql
var rawSchema string

const (
	rawInsert = `insert into job (id, envelope) select * from unnest($1::uuid[], $2::bytea[])`
	rawNotify = `with i as (insert into job (id, envelope) select * from unnest($1::uuid[], $2::bytea[])) select pg_notify('job', '')`
	rawClaim  = `with s as materialized (
  select ctid from job where run_at is null and queue = 1 and seq >= $1 and holder is null order by seq limit $2 for update skip locked)
update job set holder = 1, claim = nextval('claim_seq'), attempt = attempt + 1 from s where job.ctid = s.ctid
returning id, seq, claim, envelope`
	rawForget = `delete from job using unnest($1::uuid[], $2::bigint[]) t (id, claim) where job.id = t.id and job.claim = t.claim`
	rawSettle = `with d as (
  delete from job using unnest($1::uuid[], $2::bigint[]) t (id, claim) where job.id = t.id and job.claim = t.claim
  returning job.id, queue, kind, attempt, enqueued_at, envelope)
insert into done select id, now(), queue, kind, attempt, enqueued_at, envelope from d`

	rawBatch = 1000
	rawBytes = 166 // of an envelope with small args: Pawl's has as many
)

// rawClient does the database's work and nothing else: batches as large as the moment offers, one connection that
// claims and one that settles; what callers store one by one at the same time shares a statement.
type rawClient struct {
	task    child.Task
	pool    *pgxpool.Pool
	calls   chan rawCall
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

type rawCall struct {
	job    Job
	answer chan error
}

func openRaw(ctx context.Context, task child.Task) (Client, error) {
	config, err := pgxpool.ParseConfig(task.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 8
	for _, setting := range []string{"enable_bitmapscan", "enable_seqscan", "enable_hashjoin", "enable_mergejoin"} { // as Pawl's own
		config.ConnConfig.RuntimeParams[setting] = "off"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &rawClient{task: task, pool: pool, calls: make(chan rawCall)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.makeTables(ctx); err != nil {
		c.Close()
		return nil, err
	}
	for range 2 {
		c.workers.Go(c.share)
	}
	return c, nil
}

// makeTables makes them unless another client of this run has.
func (c *rawClient) makeTables(ctx context.Context) error {
	there := false
	if err := c.pool.QueryRow(ctx, `select to_regclass('job') is not null`).Scan(&there); err != nil || there {
		return err
	}
	_, err := c.pool.Exec(ctx, rawSchema)
	return err
}

func (c *rawClient) Close() {
	c.cancel()
	c.workers.Wait()
	c.pool.Close()
}

func (c *rawClient) Insert(ctx context.Context, jobs []Job) error {
	if len(jobs) > 1 {
		return c.store(ctx, rawInsert, jobs)
	}
	if jobs[0].Key != "" || jobs[0].Foreign || jobs[0].Queue != 0 || !jobs[0].RunAt.IsZero() {
		return errUnsupported
	}
	call := rawCall{job: jobs[0], answer: make(chan error, 1)}
	select {
	case c.calls <- call:
		return <-call.answer
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *rawClient) store(ctx context.Context, statement string, jobs []Job) error {
	ids, envelopes := make([]pgtype.UUID, len(jobs)), make([][]byte, len(jobs))
	for i, job := range jobs {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		ids[i] = pgtype.UUID{Bytes: id, Valid: true}
		envelopes[i] = make([]byte, rawBytes+len(job.Payload))
		binary.LittleEndian.PutUint64(envelopes[i], uint64(job.N))
		copy(envelopes[i][rawBytes:], job.Payload)
	}
	_, err := c.pool.Exec(ctx, statement, ids, envelopes)
	return err
}

// share stores what waits as one statement.
func (c *rawClient) share() {
	for {
		var group []rawCall
		select {
		case call := <-c.calls:
			group = append(group, call)
		case <-c.ctx.Done():
			return
		}
		for more := true; more && len(group) < rawBatch; {
			select {
			case call := <-c.calls:
				group = append(group, call)
			default:
				more = false
			}
		}
		jobs := make([]Job, len(group))
		for i, call := range group {
			jobs[i] = call.job
		}
		err := c.store(c.ctx, c.insertStatement(), jobs)
		for _, call := range group {
			call.answer <- err
		}
	}
}

// insertStatement tells whoever listens where somebody does.
func (c *rawClient) insertStatement() string {
	if c.task.Rate > 0 {
		return rawNotify
	}
	return rawInsert
}

// rawClaimed is a batch on its way from the claim to the settle.
type rawClaimed struct {
	ids    []pgtype.UUID
	claims []int64
	runs   []Run
}

func (c *rawClient) Work(ctx context.Context, handle Handler) error {
	ended := make(chan rawClaimed, 1)
	var settled error
	var group sync.WaitGroup
	group.Go(func() { settled = c.settle(ended) })
	err := c.claim(ctx, handle, ended)
	close(ended)
	group.Wait()
	if err == nil {
		err = settled
	}
	return err
}

// claim takes batches and handles them, until ctx is done.
func (c *rawClient) claim(ctx context.Context, handle Handler, ended chan<- rawClaimed) error {
	woken, err := c.listen(ctx)
	if err != nil {
		return err
	}
	low := int64(0)
	for ctx.Err() == nil {
		batch, next, err := c.claimOnce(low)
		if err != nil {
			return err
		}
		for _, run := range batch.runs {
			if err := handle(ctx, run); err != nil {
				return err
			}
		}
		if len(batch.ids) > 0 {
			low = next
			ended <- batch
			continue
		}
		select {
		case <-woken:
			low = 0
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
			low = 0
		}
	}
	return nil
}

func (c *rawClient) claimOnce(low int64) (batch rawClaimed, next int64, err error) {
	rows, err := c.pool.Query(c.ctx, rawClaim, low, rawBatch)
	if err != nil {
		return batch, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id pgtype.UUID
		var seq, claim int64
		var envelope []byte
		if err := rows.Scan(&id, &seq, &claim, &envelope); err != nil {
			return batch, 0, err
		}
		next = max(next, seq+1)
		batch.ids, batch.claims = append(batch.ids, id), append(batch.claims, claim)
		batch.runs = append(batch.runs, Run{N: int64(binary.LittleEndian.Uint64(envelope)), Attempt: 1})
	}
	return batch, next, rows.Err()
}

func (c *rawClient) settle(ended <-chan rawClaimed) error {
	statement := rawSettle
	if c.task.NoHistory {
		statement = rawForget
	}
	var failed error
	for batch := range ended {
		if failed == nil {
			_, failed = c.pool.Exec(c.ctx, statement, batch.ids, batch.claims)
		}
	}
	return failed
}

// listen returns a channel that gets a value with each notification.
func (c *rawClient) listen(ctx context.Context) (<-chan struct{}, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "listen job"); err != nil {
		conn.Release()
		return nil, err
	}
	woken := make(chan struct{}, 1)
	c.workers.Go(func() {
		defer conn.Release()
		for {
			if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		}
	})
	return woken, nil
}
