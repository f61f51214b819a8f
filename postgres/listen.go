package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl/internal/trouble"
)

const (
	pollEvery   = 200 * time.Millisecond // where nothing is heard
	silentAfter = 3 * time.Second        // without a word from the server it is asked for one
	answerTime  = 3 * time.Second        // that it has for it
)

// startWaking starts what tells this process of commits elsewhere, and what tells others of its own.
func (s *Store) startWaking() {
	s.workers.Go(s.notifyOthers)
	if s.pooler {
		s.config.Logger.Info("behind a connection pooler nobody can listen for new jobs: looking every 200 ms instead")
		s.workers.Go(func() { s.pollUntil(s.background) })
		return
	}
	config := s.pool.Config().ConnConfig // without what a URL says to a pool, which the server refuses
	config.ConnectTimeout = 5 * time.Second
	config.RuntimeParams["application_name"] = "pawl listen " + s.schema.channel
	s.workers.Go(func() { s.listen(config) })
}

// listen keeps a connection that hears notifications, a fresh one whenever it was lost, until the store is closed.
// While there is none, whoever waits is woken to look.
func (s *Store) listen(config *pgx.ConnConfig) {
	silence := trouble.New(s.config.Logger, "notifications of new jobs are not heard; looking for them until they are")
	for failures := 1; s.background.Err() == nil; failures++ {
		deaf, heard := context.WithCancel(s.background)
		polls := make(chan struct{})
		go func() {
			defer close(polls)
			s.pollUntil(deaf)
		}()
		err := s.hear(config, func() {
			heard()
			failures = 0
			silence.Over()
		})
		heard()
		<-polls
		if s.background.Err() != nil {
			return
		}
		silence.Report(err)
		wait(s.background, reconnectWait(failures))
	}
}

// reconnectWait is the pause after so many failures in a row: 50 ms, doubled to at most 5 s, less a random half.
func reconnectWait(failures int) time.Duration {
	d := min(50*time.Millisecond<<min(max(failures-1, 0), 10), 5*time.Second)
	return d/2 + rand.N(d/2+1)
}

// hear listens on a connection of its own until that fails.
func (s *Store) hear(config *pgx.ConnConfig, connected func()) error {
	conn, err := pgx.ConnectConfig(s.background, config.Copy())
	if err != nil {
		return &connectError{err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := s.within(answerTime, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "listen "+pgx.Identifier{s.schema.channel}.Sanitize())
		return err
	}); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	connected()
	s.waker.signal() // whatever was missed
	for {
		var sender uint32
		err := s.within(silentAfter, func(ctx context.Context) error {
			n, err := conn.WaitForNotification(ctx)
			if err == nil {
				sender = n.PID
			}
			return err
		})
		switch {
		case err == nil:
			if _, own := s.own.Load(sender); !own { // of its own commits this process knows
				s.waker.signal()
			}
		case s.background.Err() != nil || conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("wait for a notification: %w", err)
		default:
			if err := s.within(answerTime, conn.Ping); err != nil {
				return fmt.Errorf("the server does not answer: %w", err)
			}
		}
	}
}

func (s *Store) within(d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.background, d)
	defer cancel()
	return f(ctx)
}

// pollUntil wakes whoever waits again and again, so that they look for themselves.
func (s *Store) pollUntil(ctx context.Context) {
	for wait(ctx, pollEvery/2+rand.N(pollEvery)) {
		if !s.waker.idle() {
			s.waker.signal()
		}
	}
}
