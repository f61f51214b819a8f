package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
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
	switch {
	case !in.isPlain() || len(jobs) > groupLimit:
		err = s.insertInTurn(ctx, in)
	case s.enqueues.isLone() && s.startInsert():
		err = s.insertSmall(ctx, in) // a lone call needs nobody else
		s.endInsert()
	default:
		in.jobs = slices.Clone(jobs) // the caller may be gone before its group is stored
		err = s.enqueueInGroup(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if in.lined {
		s.giveTurns(ctx)
	}
	if in.batched {
		s.counts.ask() // one that was opened without members is over
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

// startInsert takes a place among the enqueues under way, if there is one.
func (s *Store) startInsert() bool {
	select {
	case s.inserts <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Store) endInsert() { <-s.inserts }

// insertInTurn waits for a place and stores the jobs.
func (s *Store) insertInTurn(ctx context.Context, in *insertion) error {
	select {
	case s.inserts <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer s.endInsert()
	if err := s.insert(ctx, in); err != nil {
		return err
	}
	s.waker.announce()
	return nil
}

// insertSmall stores few jobs. Where it may, it notifies others in the same transaction.
func (s *Store) insertSmall(ctx context.Context, in *insertion) error {
	in.notify = s.waker.mayNotifyInside()
	began := time.Now()
	if err := s.insert(ctx, in); err != nil {
		return err
	}
	if !in.notify {
		s.waker.announce()
		return nil
	}
	s.waker.notifiedInside(time.Since(began))
	return nil
}

// insert stores the jobs in a transaction of their own.
func (s *Store) insert(ctx context.Context, in *insertion) error {
	apart := in.isApart() && in.isPlain()
	insert := func() error {
		if in.isPlain() && (in.hopeful || apart && !in.special) {
			return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error { return in.run(ctx, execer.OnPgx(conn)) })
		}
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			x := execer.OnPgx(tx)
			if err := in.run(ctx, x); err != nil || apart {
				return err
			}
			return in.checkRepeats(ctx, x) // what is unexpected in a call of several jobs may have to be taken back
		})
	}
	in.hopeful = time.Now().UnixNano() > s.repeats.Load()
	err := insert()
	if in.hopeful && (state(err) == uniqueViolation || state(err) == divisionByZero) {
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
	if err == nil && apart {
		s.checkApart(ctx, in)
		if len(in.jobs) == 1 {
			err = in.refusals[0]
		}
	}
	return err
}
