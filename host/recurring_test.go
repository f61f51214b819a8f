package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/schedule"
	"github.com/pawljobs/pawl/sqlite"
)

func declared(t testing.TB, change func(s *pawl.Schedule)) pawl.Schedule {
	t.Helper()
	s := pawl.Schedule{Name: "nightly", Spec: "0 2 * * *", Zone: "America/New_York"}
	change(&s)
	s, err := schedule.New(work, workArgs{N: 7}, s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recurring is a store on which hosts run whose handlers note which ticks they have seen.
type recurring struct {
	testing.TB
	path  string
	store *sqlite.Store
	lines *lines

	mu    sync.Mutex
	ticks []string
	late  time.Duration // the latest start after its tick
}

func newRecurring(t testing.TB) *recurring {
	r := &recurring{TB: t, path: filepath.Join(t.TempDir(), "jobs.db"), lines: &lines{}}
	r.open()
	return r
}

func (r *recurring) open() {
	r.Helper()
	store, err := sqlite.Open(context.Background(), r.path, sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.Fatal(err)
	}
	r.store = store
}

// run runs hosts for a while.
func (r *recurring) run(hosts int, span time.Duration, schedules ...pawl.Schedule) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range hosts {
		mux := pawl.NewMux()
		pawl.Handle(mux, work, r.handle)
		h, err := host.New(r.store, mux, host.Config{Name: fmt.Sprintf("host-%d", i), Schedules: schedules, Logger: slog.New(slog.NewJSONHandler(r.lines, nil))})
		if err != nil {
			r.Fatal(err)
		}
		running.Go(func() {
			if err := h.Run(ctx); err != nil {
				r.Errorf("run: %v", err)
			}
		})
	}
	time.Sleep(span)
	cancel()
	running.Wait()
}

func (r *recurring) handle(ctx context.Context, args workArgs) error {
	_, tick, _, ok := schedule.Origin(pawl.FromContext(ctx).Origin)
	if !ok || args.N != 7 {
		return errors.New("not the job of a tick")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, tick.Format(time.RFC3339))
	r.late = max(r.late, time.Since(tick))
	return nil
}

// Two hosts over a day on which clocks change, by virtual time: one job a tick, at its time.
func TestScheduleOnTwoHostsOverAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecurring(t)
		time.Sleep(time.Until(time.Date(2000, 4, 2, 6, 50, 0, 0, time.UTC))) // ten minutes before the change in New York
		r.run(2, 30*time.Minute, declared(t, func(s *pawl.Schedule) { s.Spec = "30 2 * * *" }),
			declared(t, func(s *pawl.Schedule) { s.Name, s.Spec = "hourly", "15 5-7 * * *"; s.Zone = "UTC" }))
		want := []string{"2000-04-02T07:00:00Z", "2000-04-02T07:15:00Z"}
		if !slices.Equal(r.ticks, want) {
			t.Errorf("ticks %v, want %v", r.ticks, want)
		}
		if r.late > 5*time.Millisecond {
			t.Errorf("a job has started %s after its tick", r.late)
		}
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Case 33: a process that is restarted every day runs its weekly schedule once a week.
func TestCase33WeeklyWithARestartEveryDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecurring(t)
		weekly := declared(t, func(s *pawl.Schedule) { s.Name, s.Spec, s.Zone = "weekly", "0 9 * * MON", "" })
		for range 22 {
			r.run(1, 20*time.Second, weekly) // at midnight
			time.Sleep(23 * time.Hour)
			if err := r.store.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour - 20*time.Second)
			r.open()
		}
		want := []string{"2000-01-03T09:00:00Z", "2000-01-10T09:00:00Z", "2000-01-17T09:00:00Z"}
		if !slices.Equal(r.ticks, want) {
			t.Errorf("ticks %v, want %v", r.ticks, want)
		}
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Case 31: five minutes without any host.
func TestCase31NoHostForFiveMinutes(t *testing.T) {
	t.Parallel()
	for rule, want := range map[pawl.MissedRule][]string{
		pawl.MissedOnce: {"00:01", "00:02", "00:07", "00:08"},
		pawl.MissedSkip: {"00:01", "00:02", "00:07", "00:08"}, // 00:07 was half a minute ago: it is on time
		pawl.MissedAll:  {"00:01", "00:02", "00:05", "00:06", "00:07", "00:08"},
	} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecurring(t)
				s := declared(t, func(s *pawl.Schedule) {
					s.Spec, s.Missed = "* * * * *", rule
					if rule == pawl.MissedAll {
						s.MaxMissed, s.Overlap = 3, pawl.OverlapAllow
					}
				})
				r.run(2, 150*time.Second, s)
				time.Sleep(5 * time.Minute)
				r.run(2, 60*time.Second, s)
				var got []string
				for _, tick := range r.ticks {
					got = append(got, tick[11:16])
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("ticks %v, want %v", got, want)
				}
				if err := r.store.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Two versions side by side: the newer one's declaration stays, whoever restarts, until it is gone.
func TestDeclarationsOfTwoVersions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecurring(t)
		before, after := declared(t, func(*pawl.Schedule) {}), declared(t, func(s *pawl.Schedule) { s.Spec = "0 3 * * *" })
		spec := func() string {
			t.Helper()
			view, err := r.store.Schedule(t.Context(), "nightly")
			if err != nil {
				t.Fatal(err)
			}
			return view.Spec
		}
		var versions sync.WaitGroup
		versions.Go(func() { r.run(1, 10*time.Minute, before) })
		time.Sleep(time.Minute)
		versions.Go(func() { r.run(1, 4*time.Minute, after) })
		time.Sleep(30 * time.Second)
		for range 3 {
			r.run(1, 30*time.Second, before)
			if got := spec(); got != "0 3 * * *" {
				t.Fatalf("after a restart of the old version: %s", got)
			}
		}
		if len(r.lines.at(slog.LevelWarn, "schedule stays as another live host declares it: this host's code says something older")) == 0 {
			t.Error("the log does not say that the old version is outdated")
		}
		versions.Wait() // the new one has gone, and the old one is alone: that was a rollback
		if got := spec(); got != "0 2 * * *" {
			t.Errorf("after the rollback: %s", got)
		}
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeclarationsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRecurring(t)
	defer r.store.Close()
	mux := pawl.NewMux()
	pawl.Handle(mux, work, r.handle)
	good := declared(t, func(*pawl.Schedule) {})
	wrong := good
	wrong.Spec = "0 0 30 2 *"
	for name, c := range map[string]struct {
		store     pawl.Store
		schedules []pawl.Schedule
		text      string
	}{
		"a wrong one":             {r.store, []pawl.Schedule{wrong}, "names no date that ever comes"},
		"one twice":               {r.store, []pawl.Schedule{good, good}, "must declare each name once"},
		"a store that keeps none": {newFake(), []pawl.Schedule{good}, "this store keeps no schedules"},
	} {
		_, err := host.New(c.store, mux, host.Config{Schedules: c.schedules})
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What cannot be declared is said in the log once, and does not stop the host.
func TestRefusedDeclarationIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecurring(t)
		foreign := declared(t, func(*pawl.Schedule) {})
		foreign.Kind = "nobody.v1"
		r.run(1, 5*time.Minute, foreign, schedule.Remove("gone"))
		if n := len(r.lines.at(slog.LevelWarn, "schedule is not declared")); n != 1 {
			t.Errorf("%d lines say that the schedule is refused", n)
		}
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
