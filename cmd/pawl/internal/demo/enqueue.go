package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// enqueueBatch is how many sign-ups share a transaction.
const enqueueBatch = 25

// intake turns sign-ups into jobs: a sign-up and its jobs are one transaction, so there is never one without the
// others. Doing it again, wherever it was cut off, adds only what is missing.
type intake struct {
	ledger    *ledger
	store     *sqlite.Store
	corrupted string        // sign-up whose profile job is to be damaged
	options   []pawl.Option // beside each job's id
	enqueued  atomic.Int64  // jobs that this run has added
}

func (in *intake) enqueue(ctx context.Context, rows []signUp) error {
	for len(rows) > 0 {
		n := min(enqueueBatch, len(rows))
		if err := in.enqueueSome(ctx, rows[:n]); err != nil {
			return fmt.Errorf("enqueue sign-ups: %w", err)
		}
		rows = rows[n:]
	}
	return nil
}

func (in *intake) enqueueSome(ctx context.Context, rows []signUp) error {
	tx, err := in.ledger.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	jobs, damaged, err := in.missing(ctx, tx, rows)
	if err != nil || len(jobs) == 0 {
		return err
	}
	if _, err := in.store.Tx(tx).Enqueue(ctx, jobs); err != nil {
		return err
	}
	if damaged != nil {
		if err := corrupt(ctx, tx, *damaged); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	in.enqueued.Add(int64(len(jobs)))
	return nil
}

// missing stores the sign-ups that are not there yet and makes their jobs; damaged is the one of them, if it is one of
// them, that is to be damaged.
func (in *intake) missing(ctx context.Context, tx *sql.Tx, rows []signUp) (jobs []pawl.NewJob, damaged *pawl.NewJob, err error) {
	for _, row := range rows {
		fresh, err := insertSignUp(ctx, tx, row)
		if err != nil {
			return nil, nil, err
		}
		if !fresh {
			continue
		}
		mail, post, err := in.jobsOf(ctx, row)
		if err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, mail, post)
		if row.ID == in.corrupted {
			damaged = &post
		}
	}
	return jobs, damaged, nil
}

// insertSignUp reports whether the row was new.
func insertSignUp(ctx context.Context, tx *sql.Tx, row signUp) (bool, error) {
	result, err := tx.ExecContext(ctx, `insert into demo_signup (id, email, name, role) values (?, ?, ?, ?) on conflict do nothing`,
		row.ID, row.Email, row.Name, row.Role)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (in *intake) jobsOf(ctx context.Context, row signUp) (mail, post pawl.NewJob, err error) {
	connection := in.store.Connection()
	with := func(kind string) []pawl.Option {
		return append([]pawl.Option{pawl.WithID(jobID(kind, row.ID)), pawl.CorrelationID(row.ID)}, in.options...)
	}
	mail, err = verificationMail.New(ctx, connection, mailArgs{row.ID}, with(verificationMail.Name())...)
	if err != nil {
		return mail, post, err
	}
	post, err = profilePost.New(ctx, connection, profileArgs{row.ID, row.Role}, with(profilePost.Name())...)
	return mail, post, err
}

// corrupt flips one bit in the middle of a stored envelope, as a bad disk or a careless hand would. It is part of the
// transaction that enqueues the job, so no worker can be faster.
func corrupt(ctx context.Context, tx *sql.Tx, job pawl.NewJob) error {
	damaged := append([]byte{}, job.Envelope...)
	damaged[len(damaged)/2] ^= 0x04
	result, err := tx.ExecContext(ctx, `update pawl_job set envelope = ? where id = ?`, damaged, job.ID[:])
	if err != nil {
		return fmt.Errorf("damage an envelope: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("damage an envelope: job %s is not there: %w", job.ID, errors.Join(err, pawl.ErrNotFound))
	}
	return nil
}

// corruptible picks the sign-up whose profile job is damaged: one that would have done well.
func corruptible(rows []signUp) string {
	for i := range rows {
		if row := rows[(i+len(rows)/3)%len(rows)]; isKnown(row.Role) {
			return row.ID
		}
	}
	return rows[0].ID
}
