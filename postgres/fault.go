package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawljobs/pawl"
)

// Conditions by their SQLSTATE.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	uniqueViolation      = "23505"
	divisionByZero       = "22012"
	undefinedTable       = "42P01"
	insufficientRights   = "42501"
)

// state is the SQLSTATE of an error that the server sent, or "".
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// connectError is a failure to connect, in one line: pgx has one for each address and once more for each way to try it.
type connectError struct{ err error }

func (e *connectError) Error() string {
	var parts []string
	for line := range strings.Lines(e.err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.ContainsFunc(parts, func(said string) bool { return strings.HasSuffix(said, line) }) {
			parts = append(parts, line)
		}
	}
	text := parts[0]
	if len(parts) > 1 {
		text += " " + strings.Join(parts[1:], "; ")
	}
	return text
}

func (e *connectError) Unwrap() error { return e.err }

// collided reports that PostgreSQL undid a transaction for the sake of another: it can be run again at once.
func collided(err error) bool {
	code := state(err)
	return code == serializationFailure || code == deadlockDetected
}

// mostTries is how often a transaction that collides is run in all.
const mostTries = 5

func collisionWait(try int) time.Duration {
	return time.Duration(rand.Int64N(int64(5*time.Millisecond) << try))
}

// affectsAll reports whether an error says nothing about the jobs of a batch: smaller batches would fail with it too.
// All but what the server, or the store itself, says about data is of that sort: the connection, the server's own state, its resources.
func affectsAll(err error) bool {
	code := state(err)
	switch {
	case errors.Is(err, pawl.ErrConflict), errors.Is(err, pawl.ErrBatchEnded): // an id that is another job's, a job that comes too late
		return false
	case len(code) < 2:
		return true
	}
	switch code[:2] {
	case "22", "23", "42", "54", "P0", "XX":
		return false
	}
	return code != lockNotAvailable && !collided(err)
}

// explain says what a failure means to the caller.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.background.Err() != nil:
		return errors.Join(pawl.ErrClosed, err)
	case state(err) == lockNotAvailable:
		return fmt.Errorf("%w: %w", pawl.ErrBusy, err)
	case state(err) == insufficientRights:
		return &deniedError{err}
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// deniedError is the server's refusal of what this principal has no right to. errors.Is(err, fs.ErrPermission) holds.
type deniedError struct{ err error }

func (e *deniedError) Error() string {
	return e.err.Error() + ": `pawl migrate grants` prints what gives rights; the owner of the tables runs it"
}

func (e *deniedError) Unwrap() []error { return []error{e.err, fs.ErrPermission} }

// denied is deniedError where the server refused for want of a right.
func denied(err error) error {
	if state(err) == insufficientRights {
		return &deniedError{err}
	}
	return err
}

// missing names the relation that an undefined table error is about.
func missing(err error, part string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == undefinedTable && strings.Contains(e.Message, part)
}
