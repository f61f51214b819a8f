package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// Bounds of enqueues.
const (
	insertBatch = 1000 // jobs in one statement
	groupLimit  = 64   // calls with more jobs go by themselves

	repeatsLast = 10 * time.Second // after an id that was there already, others are expected for so long
)

// Enqueue stores the jobs, all or none, and returns when they are durable. Small calls at the same time share a
// statement and its commit. When it fails for another reason than its jobs, they may be stored all the same.
func (s *Store) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if err := checkJobs(jobs); err != nil || len(jobs) == 0 {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	in, err := s.newInsertion(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if in.isPlain() && len(jobs) <= groupLimit {
		err = s.enqueueInGroup(ctx, in)
	} else {
		err = s.insert(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return in.results, nil
}

func checkJobs(jobs []pawl.NewJob) error {
	for i := range jobs {
		if err := jobs[i].Check(); err != nil {
			return fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	return nil
}

// insert stores the jobs in a transaction of their own, and tells of them.
func (s *Store) insert(ctx context.Context, in *insertion) error {
	select {
	case s.inserts <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.inserts }()
	insert := func() error {
		if in.isPlain() {
			return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error { return in.run(ctx, onPgx{conn}) })
		}
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error { return in.run(ctx, onPgx{tx}) })
	}
	in.hopeful = time.Now().UnixNano() > s.repeats.Load()
	err := insert()
	if state(err) == uniqueViolation && in.hopeful {
		s.repeats.Store(time.Now().Add(repeatsLast).UnixNano())
		in.hopeful = false
		err = insert()
	}
	if missing(err, "done_") { // a table that was dropped since this process looked
		s.forgetSlots()
		if in.slots, err = s.currentSlots(ctx); err == nil {
			err = insert()
		}
	}
	if err == nil {
		s.waker.announce()
	}
	return err
}
