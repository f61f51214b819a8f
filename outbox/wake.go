package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawljobs/pawl/internal/guest"
)

// bell tells the dispatchers of this process that a message was written in it, in a transaction that may commit soon.
type bell struct {
	mu   sync.Mutex
	ears map[chan struct{}]bool
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ear := range b.ears {
		poke(ear)
	}
}

// hear makes the bell poke a channel until the function that it returns is called.
func (b *bell) hear(ear chan struct{}) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ears == nil {
		b.ears = map[chan struct{}]bool{}
	}
	b.ears[ear] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.ears, ear)
	}
}

// poke leaves a value in a channel of capacity 1, unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait pauses; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff is the pause after so many failures in a row: 250 ms, doubled to at most 10 s, less a random half.
func backoff(failures int) time.Duration {
	d := min(250*time.Millisecond<<min(max(failures-1, 0), 10), 10*time.Second)
	return d/2 + rand.N(d/2+1)
}

const (
	silentAfter = 10 * time.Second // without a word from the server it is asked for one
	answerTime  = 5 * time.Second  // that it has for it
)

// errDeaf says that this database cannot tell of commits.
var errDeaf = errors.New("the driver is not that of pgx, or a pooler is in between")

// listen wakes for every commit that a PostgreSQL database tells of, on a connection of its own, until ctx is done. Where
// that cannot be, the lanes look for themselves, as they do meanwhile.
func (d *Dispatcher) listen(ctx context.Context) {
	if d.source.home.Dialect != guest.Postgres {
		return
	}
	for failures := 1; ctx.Err() == nil; failures++ {
		err := d.hear(ctx, func() { failures = 0; d.deaf.Over() })
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errDeaf):
			d.config.Logger.Info("commits are not heard of; looking for messages every "+d.config.Poll.String()+" instead", "reason", err)
			return
		}
		d.deaf.Report(err)
		wait(ctx, backoff(failures))
	}
}

// hear listens until that fails.
func (d *Dispatcher) hear(ctx context.Context, connected func()) error {
	config, err := d.connConfig(ctx)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := within(ctx, answerTime, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "listen "+pgx.Identifier{d.source.channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol)
		return err
	}); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	connected()
	d.wake() // for whatever was missed
	for {
		err := within(ctx, silentAfter, func(ctx context.Context) error {
			_, err := conn.WaitForNotification(ctx)
			return err
		})
		switch {
		case err == nil:
			d.wake()
		case ctx.Err() != nil || conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("wait for a notification: %w", err)
		default:
			if err := within(ctx, answerTime, conn.Ping); err != nil {
				return fmt.Errorf("the server does not answer: %w", err)
			}
		}
	}
}

func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

// connConfig is how the box's own connections are made, as one of them says.
func (d *Dispatcher) connConfig(ctx context.Context) (config *pgx.ConnConfig, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	conn, err := d.source.home.DB.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at a connection: %w", err)
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return errDeaf
		}
		var backend uint32
		if err := c.Conn().QueryRow(ctx, `select pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&backend); err != nil {
			return err
		}
		if backend != c.Conn().PgConn().PID() {
			return errDeaf
		}
		config = c.Conn().Config()
		return nil
	})
	return config, err
}
