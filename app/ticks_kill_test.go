//go:build unix

package app

import (
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/schedule"
	"github.com/pawljobs/pawl/sqlite"
)

// ticking are two serves that tick one schedule, every second.
type ticking struct {
	*testing.T
	url    string
	store  ownStore
	serves [2]*served
}

const (
	tickKills = 6
	heartbeat = "heartbeat" // the schedule
)

// Two processes tick one schedule and are killed again and again, one or both: each tick has one job, or, of those that
// nobody was there for, is counted as missed while the latest has one.
func TestTicksOfKilledServes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (string, ownStore, error){
		"sqlite": func(t *testing.T) (string, ownStore, error) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			s, err := sqlite.Open(t.Context(), path, sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
			return "sqlite:" + path, s, err
		},
		"postgres": func(t *testing.T) (string, ownStore, error) {
			url := database(t)
			s, err := postgres.Open(t.Context(), url, postgres.Config{Logger: slog.New(slog.DiscardHandler)})
			return url, s, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			w := &ticking{T: t, url: url, store: store}
			w.killAgainAndAgain()
		})
	}
}

func (w *ticking) killAgainAndAgain() {
	session, err := w.store.OpenSession(w.Context(), pawl.HostInfo{Name: "desk", Kinds: []string{"heartbeat.v1"}}) // for its kind to be known
	if err == nil {
		err = w.store.CloseSession(w.Context(), session)
	}
	if err != nil {
		w.Fatal(err)
	}
	pawlOn(w.T, w.url, "schedule", "add", heartbeat, "--spec", "1s", "--kind", "heartbeat.v1", "--missed", "once", "--overlap", "allow")
	w.start(0)
	w.start(1)
	w.fires(2)
	seed := uint64(time.Now().UnixNano())
	w.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for kill := range tickKills {
		time.Sleep(time.Duration(random.IntN(1100)) * time.Millisecond) // the moment in a second: before, while and after a tick is made
		missed := w.look().MissedTicks
		if one := random.IntN(2); kill%3 < 2 {
			w.kill(one)
			w.fires(2) // by the other one
			w.start(one)
		} else {
			w.kill(0)
			w.kill(1)
			time.Sleep(time.Until(w.look().Next.Add(2500 * time.Millisecond))) // until two more have passed
			w.start(0)
			w.start(1)
			w.fires(2)
			if now := w.look().MissedTicks; now < missed+1 {
				w.Errorf("%d ticks were missed while nobody was there, want one more than %d at least", now, missed)
			}
			continue
		}
		w.fires(1)
	}
	pawlOn(w.T, w.url, "schedule", "pause", heartbeat, "--reason", "to count them")
	for _, p := range w.serves {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range w.serves {
		p.ends("0", patience)
	}
	w.count()
}

// count compares the jobs that there are with the ticks that there were.
func (w *ticking) count() {
	ticks := map[time.Time]int{}
	first, last := time.Time{}, time.Time{}
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := w.store.Jobs(w.Context(), pawl.JobFilter{Kind: "heartbeat.v1"}, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, job := range found.Jobs {
			tick := w.tickOf(job.ID)
			ticks[tick]++
			if first.IsZero() || tick.Before(first) {
				first = tick
			}
			if tick.After(last) {
				last = tick
			}
		}
		if page.After = found.Next; found.Next == "" {
			break
		}
	}
	for tick, jobs := range ticks {
		if jobs != 1 {
			w.Errorf("%d jobs of the tick at %s", jobs, tick)
		}
	}
	view := w.look()
	all := int(last.Sub(first)/time.Second) + 1
	if len(ticks)+view.MissedTicks != all || view.Fired != len(ticks) || view.SkippedTicks != 0 {
		w.Errorf("of %d ticks, %d have a job; it says that %d have, %d were missed and %d skipped",
			all, len(ticks), view.Fired, view.MissedTicks, view.SkippedTicks)
	}
	w.Logf("%d ticks, %d with a job, %d missed", all, len(ticks), view.MissedTicks)
}

func (w *ticking) tickOf(id pawl.ID) time.Time {
	job, err := w.store.Job(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		w.Fatal(err)
	}
	name, tick, byHand, ok := schedule.Origin(envelope.Origin)
	if !ok || byHand || name != heartbeat {
		w.Fatalf("job %s is of no tick: %+v", id, envelope.Origin)
	}
	return tick
}

func (w *ticking) start(i int) {
	w.serves[i] = serveBy(w.T, "", nil, "--store", w.url)
}

func (w *ticking) kill(i int) {
	w.serves[i].signal(syscall.SIGKILL)
	<-w.serves[i].ended
}

func (w *ticking) look() pawl.ScheduleView {
	w.Helper()
	view, err := w.store.(pawl.Schedules).Schedule(w.Context(), heartbeat)
	if err != nil {
		w.Fatal(err)
	}
	return view
}

// fires waits until so many more ticks have a job.
func (w *ticking) fires(more int) {
	w.Helper()
	begun := w.look().Fired
	for deadline := time.Now().Add(patience); w.look().Fired < begun+more; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			var said strings.Builder
			for _, p := range w.serves {
				said.WriteString(p.said())
			}
			w.Fatalf("%d of %d ticks after %s\n%s", w.look().Fired-begun, more, patience, said.String())
		}
	}
}
