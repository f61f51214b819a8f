package host_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// deathsOf counts the deaths that messages tell of.
func deathsOf(alert pawl.Alert) int {
	if alert.Digest == nil {
		return len(alert.Letters)
	}
	return alert.Digest.Deaths
}

// told counts the messages that a sink took, and the deaths in them.
type told struct {
	name             string
	hangs            atomic.Bool
	messages, deaths atomic.Int64
	keys             chan string
}

func newTold(name string) *told { return &told{name: name, keys: make(chan string, 10_000)} }

func (s *told) Name() string { return s.name }

func (s *told) Deliver(ctx context.Context, alert pawl.Alert) error {
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	s.messages.Add(1)
	s.deaths.Add(int64(deathsOf(alert)))
	s.keys <- alert.Key
	return nil
}

// taken are the keys of the messages that the sink took.
func (s *told) taken() map[string]bool {
	keys := map[string]bool{}
	for {
		select {
		case key := <-s.keys:
			keys[key] = true
		default:
			return keys
		}
	}
}

// 2,000 jobs die within a minute while one of two sinks hangs. Work goes on, the other sink hears of all of it in a few
// messages; and so does the one that hangs when it has recovered, though its host was killed in between.
func TestStormWithASinkThatHangs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(context.Background(), path, sqlite.Config{PollInterval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		s := &storm{T: t, store: store, good: newTold("good"), hanging: newTold("hanging"), lines: &lines{}}
		s.hanging.hangs.Store(true)
		s.mux = pawl.NewMux()
		pawl.Handle(s.mux, work, func(_ context.Context, args workArgs) error {
			if args.N < 0 {
				s.late.Store(max(s.late.Load(), time.Now().UnixNano()+int64(args.N)))
				return nil
			}
			return pawl.Permanent(errors.New("550 no such user"))
		})
		s.run()
	})
}

type storm struct {
	*testing.T
	store         *sqlite.Store
	mux           *pawl.Mux
	good, hanging *told
	lines         *lines
	late          atomic.Int64 // how long a good job waited, in nanoseconds at most
}

func (s *storm) run() {
	first := s.start("first")
	s.pass(time.Second)
	for range 20 {
		s.put(100)
		s.pass(3 * time.Second)
	}
	s.pass(2 * time.Minute)
	if late := time.Duration(s.late.Load()); late > time.Second {
		s.Errorf("a job waited for %s", late)
	}
	if n := s.good.messages.Load(); n < 31 || n > 34 {
		s.Errorf("the good sink got %d messages", n)
	}
	s.counts("good", 0, 2000)
	s.counts("hanging", 2000, 0)
	if n := first.Stats().AlertsUndelivered; n != 2000 {
		s.Errorf("%d undelivered in the stats", n)
	}
	first.Abort() // in the middle of a delivery
	if err := <-first.err; !errors.Is(err, host.ErrAborted) {
		s.Errorf("Run returned %v", err)
	}
	second := s.start("second")
	s.pass(30 * time.Minute)
	s.counts("hanging", 2000, 0)
	s.hanging.hangs.Store(false)
	s.pass(3 * time.Hour)
	s.counts("hanging", 0, 2000)
	if n, deaths := s.hanging.messages.Load(), s.hanging.deaths.Load(); n > 40 || deaths != 2000 {
		s.Errorf("the sink that hung got %d messages about %d deaths", n, deaths)
	}
	s.marked(map[string]map[string]bool{"good": s.good.taken(), "hanging": s.hanging.taken()})
	if lines := len(s.lines.at(slog.LevelError, "job dead-lettered")); lines != 2000 || len(s.lines.at(slog.LevelError, "")) != lines {
		s.Errorf("%d error lines", lines)
	}
	second.cancel()
	if err := <-second.err; err != nil {
		s.Errorf("Run returned %v", err)
	}
}

func (s *storm) start(name string) *running {
	s.Helper()
	h, err := host.New(s.store, s.mux, host.Config{
		Name: name, Logger: slog.New(slog.NewJSONHandler(s.lines, nil)), Sinks: []pawl.Sink{s.good, s.hanging},
		Intervals: host.Intervals{Poll: time.Minute, Sweep: time.Minute},
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Host: h, cancel: cancel, err: make(chan error, 1)}
	go func() { r.err <- h.Run(ctx) }()
	return r
}

func (s *storm) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// put enqueues n jobs that will die and a few that say when they ran.
func (s *storm) put(n int) {
	s.Helper()
	var jobs []pawl.NewJob
	for i := range n + 5 {
		number := i
		if i >= n {
			number = -int(time.Now().UnixNano())
		}
		job, err := work.New(context.Background(), s.store.Connection(), workArgs{number})
		if err != nil {
			s.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	if _, err := s.store.Enqueue(context.Background(), jobs); err != nil {
		s.Fatal(err)
	}
}

func (s *storm) counts(sink string, pending, delivered int) {
	s.Helper()
	sinks, err := s.store.Sinks(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	for _, view := range sinks {
		if view.Name == sink && (view.Pending != pending || view.Delivered != delivered) {
			s.Errorf("sink %s: %d pending, %d delivered, want %d and %d", sink, view.Pending, view.Delivered, pending, delivered)
		}
	}
}

// marked checks that every letter says by which message each sink was told of it, and that the sink took that message.
func (s *storm) marked(taken map[string]map[string]bool) {
	s.Helper()
	letters, after := 0, ""
	for {
		page, err := s.store.Letters(context.Background(), pawl.LetterFilter{}, pawl.Page{Limit: 1000, After: after})
		if err != nil {
			s.Fatal(err)
		}
		for _, letter := range page.Letters {
			letters++
			alerts, err := s.store.AlertsOf(context.Background(), letter.ID)
			if err != nil || len(alerts) != 2 {
				s.Fatalf("alerts of %s: %+v, %v", letter.ID, alerts, err)
			}
			for _, a := range alerts {
				if a.Pending || a.DeliveredAt.IsZero() || !taken[a.Sink][a.Key] {
					s.Fatalf("letter %s is not marked: %+v", letter.ID, a)
				}
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if letters != 2000 {
		s.Errorf("%d letters", letters)
	}
}
