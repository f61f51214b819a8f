package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// The database is away for six seconds, twice as long as it takes to declare a host dead: refused at once, or without a
// word. Nobody is declared dead, also by the host that reaches it first again, nothing is charged, attempts that end
// meanwhile are recorded afterwards, the log stays short, attempts to connect are few, and all goes on by itself.
func TestOutage(t *testing.T) {
	for name, begin := range map[string]func(*relay){"connections refused": (*relay).cut, "no answers": (*relay).stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(newWorld(t), begin)
		})
	}
}

func outage(w *world, begin func(*relay)) {
	const jobs = 30
	links := []*relay{startRelay(w, w.url), startRelay(w, w.url)}
	runs := newLedger()
	gates := make([]chan struct{}, jobs+1)
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	mux := muxOf(func(ctx context.Context, job *pawl.Job, args workArgs) error {
		runs.add(job)
		if job.Kind == once.Name() {
			return nil
		}
		select {
		case <-gates[args.N]:
		case <-ctx.Done():
			w.Errorf("job %d was cancelled: %v", args.N, context.Cause(ctx))
		}
		return nil
	})
	intervals := quick()
	intervals.DeadAfter = 3 * time.Second
	hosts := []*running{
		w.start(w.by(links[0].url), mux, w.config("a", jobs/2, intervals)),
		w.start(w.by(links[1].url), mux, w.config("b", jobs/2, intervals)),
	}
	ids := w.put(work, jobs)
	w.until(patience, "all jobs running", func() bool { return hosts[0].Stats().Running+hosts[1].Stats().Running == jobs })
	sessions := []pawl.SessionID{hosts[0].Stats().Session, hosts[1].Stats().Session}
	dials, lines := links[0].dials.Load()+links[1].dials.Load(), len(w.lines.at(slog.LevelWarn))

	begin(links[1]) // first, so that the other host has seen its last beat
	look := func() {
		beat := hosts[0].Stats().LastBeat
		w.until(10*time.Second, "a look of one host at the other", func() bool { return hosts[0].Stats().LastBeat.After(beat) })
	}
	look()
	look()
	begin(links[0])
	for i := range jobs / 2 { // some end before their hosts know, some long after, and half of them after it is over
		if i == jobs/4 {
			w.until(patience, "hosts that notice", func() bool { return !hosts[0].Ready() && !hosts[1].Ready() })
		}
		close(gates[i])
	}
	late := w.put(once, 2)
	<-time.After(6 * time.Second) // the outage
	if n := links[0].dials.Load() + links[1].dials.Load() - dials; n > 150 {
		w.Errorf("%d attempts to connect in six seconds", n)
	}
	links[0].heal()
	w.until(10*time.Second, "the first host ready", hosts[0].Ready)
	look()
	links[1].heal()
	w.until(10*time.Second, "both hosts ready", func() bool { return hosts[0].Ready() && hosts[1].Ready() })
	w.until(10*time.Second, "what came meanwhile", func() bool {
		return hosts[0].Stats().Succeeded+hosts[1].Stats().Succeeded == jobs/2+int64(len(late))
	})
	for _, gate := range gates[jobs/2:] {
		close(gate)
	}
	w.until(10*time.Second, "the end of all jobs", func() bool { return w.counts() == pawl.QueueView{} })

	w.equal("sessions", []pawl.SessionID{hosts[0].Stats().Session, hosts[1].Stats().Session}, sessions)
	w.equal("jobs recovered", hosts[0].Stats().Recovered+hosts[1].Stats().Recovered, 0)
	w.equal("leases lost", hosts[0].Stats().LeasesLost+hosts[1].Stats().LeasesLost, 0)
	ids = slices.Concat(ids, late)
	runs.ran(w, ids, 1)
	w.ends(ids, pawl.JobDone, 1, 0)
	if n := len(w.lines.at(slog.LevelWarn)) - lines; n == 0 || n > 25 {
		w.Errorf("%d warnings:\n%s", n, w.lines)
	}
	w.equal("errors", w.lines.at(slog.LevelError), []string{})
}

// A claim that the network delivers when its host has given it up long since takes no job: nobody would know of it.
func TestLateClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := startRelay(t, w.url)
	runs, open := newLedger(), make(chan struct{})
	intervals := quick()
	intervals.Call = time.Second
	h := w.start(w.by(link.url), muxOf(func(_ context.Context, job *pawl.Job, args workArgs) error {
		runs.add(job)
		if job.Kind == once.Name() {
			<-open
		}
		return nil
	}), w.config("a", 1, intervals))
	w.until(patience, "a ready host", h.Ready)
	first := w.put(work, 1) // it has claimed before
	w.until(patience, "the first job", func() bool { return h.Stats().Succeeded == 1 })

	link.hold()
	w.until(patience, "a claim that is given up", func() bool { return w.saying(slog.LevelWarn, "jobs cannot be claimed") > 0 })
	given := time.Now()
	w.until(patience, "claims that work again, by other connections", func() bool { return w.saying(slog.LevelInfo, "over: jobs cannot be claimed") > 0 })
	w.until(patience, "a beat long after", func() bool { return h.Stats().LastBeat.After(given.Add(intervals.Call + 2*intervals.Beat)) })
	busy := w.put(once, 1)
	w.until(patience, "a busy host", func() bool { return h.Stats().Running == 1 })
	next := w.put(work, 1)
	link.heal()
	healed := time.Now()
	w.until(patience, "a beat after what was late has arrived", func() bool { return h.Stats().LastBeat.After(healed.Add(2 * intervals.Beat)) })
	close(open)
	w.until(10*time.Second, "the end of all jobs", func() bool { return h.Stats().Succeeded == 3 })
	runs.ran(w, slices.Concat(first, busy, next), 1)
}
