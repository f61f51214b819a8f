package inline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Config says how an inline connection behaves. The zero value works.
type Config struct {
	Connection  string            // name of the connection, 1-128 bytes. Default "sync"
	Policy      pawl.Policy       // what jobs inherit where neither the call nor the kind says; only the timeout and the redrive rule matter here
	DeadLetters pawl.DeadLetters  // where deaths are recorded. Default: nowhere, the call's error is all there is
	Classifiers []pawl.Classifier // asked in order about an error that says nothing itself
	Logger      *slog.Logger      // default slog.Default()
	Name        string            // of this process, in dead letters. Default: the machine's name in lower case
	Version     string            // of the program, in dead letters
}

// Enqueuer runs what is enqueued. Make one with New. It may be used by several goroutines; each call runs its own jobs,
// with no limit on how many calls run at the same time.
type Enqueuer struct {
	mux         *pawl.Mux
	connection  pawl.Connection
	letters     pawl.DeadLetters
	classifiers []pawl.Classifier
	logger      *slog.Logger
	undertaker  pawl.Undertaker

	mu      sync.Mutex
	closed  bool
	running map[*attempt]bool // true: its handler was given up, a stray
}

var _ pawl.Enqueuer = (*Enqueuer)(nil)

// New returns a connection that runs jobs with the handlers of the mux. Mistakes in the mux's registrations and in the
// configuration are errors.
func New(mux *pawl.Mux, config Config) (*Enqueuer, error) {
	if mux == nil {
		return nil, &pawl.FieldError{Field: "mux", Value: "nil", Rule: "must be made with pawl.NewMux"}
	}
	if err := mux.Err(); err != nil {
		return nil, fmt.Errorf("look at handlers: %w", err)
	}
	name := config.Connection
	if name == "" {
		name = "sync"
	}
	if len(name) > 128 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, &pawl.FieldError{Field: "connection", Value: name, Rule: "must have 1 to 128 bytes of UTF-8 without control characters"}
	}
	host := config.Name
	if host == "" {
		machine, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("read the machine's name: %w", err)
		}
		host = strings.ToLower(machine)
	}
	logger := config.Logger
	if logger == nil {
		logger = slog.Default()
	}
	return &Enqueuer{
		mux: mux, connection: pawl.Connection{Name: name, Policy: config.Policy}, letters: config.DeadLetters,
		classifiers: config.Classifiers, logger: logger, running: map[*attempt]bool{},
		undertaker: pawl.Undertaker{Connection: name, Host: host, Server: "inline", Version: config.Version},
	}, nil
}

// Connection names this connection and what its jobs inherit.
func (q *Enqueuer) Connection() pawl.Connection { return q.connection }

// Enqueue runs the jobs one after the other and returns when the last one has ended. A job that fails does not stop
// those behind it: the error joins what each failed with, and names it. Where jobs cannot be run at once, none of them
// is, and the error says which and why.
//
// The handlers' ctx is derived from the given one. Once it is done, no further job is started; those are in the error
// too, and leave no letter.
func (q *Enqueuer) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	for _, job := range jobs {
		if err := supported(job); err != nil {
			return nil, fmt.Errorf("%s %s: %w", job.Kind, job.ID, err)
		}
	}
	results := make([]pawl.Enqueued, len(jobs))
	var failures []error
	for i, job := range jobs {
		results[i].ID = job.ID
		if err := q.run(ctx, job); err != nil {
			failures = append(failures, fmt.Errorf("run %s %s: %w", job.Kind, job.ID, err))
		}
	}
	return results, errors.Join(failures...)
}

func supported(job pawl.NewJob) error {
	switch err := job.Check(); {
	case err != nil:
		return err
	case job.Delay != 0 || !job.RunAt.IsZero():
		return fmt.Errorf("a delay or run-at on an inline connection, which runs jobs at once: %w", pawl.ErrUnsupported)
	case job.Unique.Scope == pawl.UniqueForPeriod:
		return fmt.Errorf("a unique key for a period on an inline connection, which remembers no keys: %w", pawl.ErrUnsupported)
	case job.Opens || !job.Batch.IsZero():
		return fmt.Errorf("a batch on an inline connection, which keeps no jobs: %w", pawl.ErrUnsupported)
	case job.StartsOff:
		return fmt.Errorf("a kind that starts off on an inline connection, which has no switches: %w", pawl.ErrUnsupported)
	}
	return nil
}

// Strays counts the handlers that were given up because they ignored their cancelled ctx, and have not returned yet.
func (q *Enqueuer) Strays() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	count := 0
	for _, stray := range q.running {
		if stray {
			count++
		}
	}
	return count
}

// enter counts a call in; false once the connection is closed.
func (q *Enqueuer) enter(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	a.parts = 1
	q.running[a] = false
	return true
}

// launch counts the call's handler in.
func (q *Enqueuer) launch(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a.parts++
}

// leave counts a call or its handler out.
func (q *Enqueuer) leave(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.parts--; a.parts == 0 {
		delete(q.running, a)
		close(a.ended)
	}
}

func (q *Enqueuer) giveUp(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.parts > 1 {
		q.running[a] = true
	}
}

// Close makes every further Enqueue return ErrClosed and waits until those under way have ended and all handlers have
// returned, strays too, or until ctx is done; then it returns the cause and they run on. It is not for handlers.
func (q *Enqueuer) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	var ended []<-chan struct{}
	for a := range q.running {
		ended = append(ended, a.ended)
	}
	q.mu.Unlock()
	for _, end := range ended {
		select {
		case <-end:
		case <-ctx.Done():
			return fmt.Errorf("wait for handlers: %w", context.Cause(ctx))
		}
	}
	return nil
}

// RunsAtOnce tells those who hand over jobs that each has ended when Enqueue returns, and that the error is its own.
func (q *Enqueuer) RunsAtOnce() bool { return true }
