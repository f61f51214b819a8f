package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// waker tells those who wait that the file has changed. Commits of this process tell it at once; those of other
// connections and processes are noticed by data_version, a counter that SQLite keeps for each connection, which costs
// some microseconds to read.
type waker struct {
	db       *sql.DB
	interval time.Duration
	logger   *slog.Logger
	quit     chan struct{}
	ended    chan struct{}
	troubled bool          // it cannot look, and that was logged
	wanted   chan struct{} // has a value when the first waiter has come

	mu      sync.Mutex
	waiters map[chan struct{}]struct{}
}

func startWaker(path string, config Config) (*waker, error) {
	db, err := openFile(path, config, true, 1)
	if err != nil {
		return nil, err
	}
	k := &waker{
		db: db, interval: config.PollInterval, logger: config.Logger,
		quit: make(chan struct{}), ended: make(chan struct{}), wanted: make(chan struct{}, 1),
		waiters: map[chan struct{}]struct{}{},
	}
	go k.loop()
	return k, nil
}

func (k *waker) close() error {
	close(k.quit)
	<-k.ended
	return k.db.Close()
}

// wait returns a channel that gets a value at each change until ctx is done; values coalesce.
func (k *waker) wait(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{} // whatever came before
	k.mu.Lock()
	k.waiters[c] = struct{}{}
	k.mu.Unlock()
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiters, c)
	})
	select {
	case k.wanted <- struct{}{}:
	default:
	}
	return c
}

// signal wakes everybody who waits.
func (k *waker) signal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.waiters {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (k *waker) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiters) == 0
}

// loop watches while somebody waits.
func (k *waker) loop() {
	defer close(k.ended)
	ticker := time.NewTicker(k.interval)
	defer ticker.Stop()
	seen := int64(-1)
	for {
		if k.idle() {
			select {
			case <-k.wanted:
			case <-k.quit:
				return
			}
		}
		select {
		case <-ticker.C:
			seen = k.look(seen)
		case <-k.quit:
			return
		}
	}
}

func (k *waker) look(seen int64) int64 {
	var version int64
	err := k.db.QueryRowContext(context.Background(), "pragma data_version").Scan(&version)
	switch {
	case errors.Is(err, sql.ErrConnDone):
		return seen
	case err != nil:
		if !k.troubled {
			k.logger.Warn("watch for changes of other processes", "error", err)
		}
		k.troubled = true
		return seen
	case version != seen:
		k.signal()
	}
	k.troubled = false
	return version
}

// Wake returns a channel that gets a value whenever the file has changed.
func (s *Store) Wake(ctx context.Context) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.waker.quit:
		return nil, pawl.ErrClosed
	default:
	}
	return s.waker.wait(ctx), nil
}
