// Package side reduces each system of jobs to what is measured of it: storing jobs, and running handlers.
package side

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
)

// Names of the sides.
const (
	Pawl  = "pawl"
	River = "river"
	Raw   = "raw"   // bare statements that do only the database's work
	Empty = "empty" // a program that has a connection pool and nothing to do
)

// Engines.
const (
	Postgres = "postgres"
	SQLite   = "sqlite"
)

// Client is one side.
type Client interface {
	// Insert stores jobs with one call and returns when they are durable.
	Insert(ctx context.Context, jobs []Job) error
	// Work calls handle for each job, until ctx is done; it returns when the ends of all of them are recorded.
	Work(ctx context.Context, handle Handler) error
	// Close lets go of the database.
	Close()
}

// Job is one to be stored. Zero fields ask for nothing special.
type Job struct {
	N       int64 // its number, which comes back in its Run
	Queue   int
	Key     string // unique among the unfinished
	RunAt   time.Time
	Foreign bool // of a kind that nobody handles
	Payload string
}

// Run is one attempt of a job.
type Run struct {
	N       int64
	Attempt int // counted from 1
}

// Handler is called by several goroutines.
type Handler func(ctx context.Context, run Run) error

// Open connects a side, with its tables in place.
func Open(ctx context.Context, task child.Task) (Client, error) {
	switch task.Side + " " + task.Engine {
	case Pawl + " " + Postgres, Pawl + " " + SQLite:
		return openPawl(ctx, task)
	case River + " " + Postgres:
		return openRiver(ctx, task)
	case River + " " + SQLite:
		return openRiverSQLite(ctx, task)
	case Raw + " " + Postgres:
		return openRaw(ctx, task)
	case Empty + " " + Postgres:
		return openEmpty(ctx, task)
	}
	return nil, fmt.Errorf("there is no side %q on %q", task.Side, task.Engine)
}

// errUnsupported answers for what a side is not measured with.
var errUnsupported = errors.New("this side is not measured with that")

// args are those of a small job, and of a large one.
type args struct {
	N       int64  `json:"n"`
	Email   string `json:"email"`
	Payload string `json:"payload,omitempty"`
}

const (
	kindName    = "bench.work.v1"
	foreignName = "bench.foreign.v1"
	email       = "someone@example.org"
)

func argsOf(job Job) args { return args{N: job.N, Email: email, Payload: job.Payload} }

// queueName is bytewise in the order of the numbers.
func queueName(n int) string {
	if n == 0 {
		return "2-default"
	}
	return fmt.Sprintf("2-queue-%02d", n)
}

func queueNames(task child.Task) []string {
	names := make([]string, max(1, task.Queues))
	for i := range names {
		names[i] = queueName(i)
	}
	return names
}
