package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// The database is away for six seconds, three times as long as it takes to declare a host dead: refused at once, or
// without a word. Nobody is declared dead, nothing is charged, attempts that end meanwhile are recorded afterwards, the
// log stays short, attempts to connect are few, and all goes on by itself.
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
	link := startRelay(w, w.url)
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
	hosts := []*running{
		w.start(w.by(link.url), mux, w.config("a", jobs/2, quick())),
		w.start(w.by(link.url), mux, w.config("b", jobs/2, quick())),
	}
	ids := w.put(work, jobs)
	w.until(patience, "all jobs running", func() bool { return hosts[0].Stats().Running+hosts[1].Stats().Running == jobs })
	sessions := []pawl.SessionID{hosts[0].Stats().Session, hosts[1].Stats().Session}
	dials, lines := link.dials.Load(), len(w.lines.at(slog.LevelWarn))

	begin(link)
	for i := range jobs / 2 { // some end before their hosts know, some long after, and half of them after it is over
		if i == jobs/4 {
			w.until(patience, "hosts that notice", func() bool { return !hosts[0].Ready() && !hosts[1].Ready() })
		}
		close(gates[i])
	}
	late := w.put(once, 2)
	<-time.After(6 * time.Second) // the outage
	if n := link.dials.Load() - dials; n > 150 {
		w.Errorf("%d attempts to connect in six seconds", n)
	}
	link.heal()
	w.until(10*time.Second, "ready hosts", func() bool { return hosts[0].Ready() && hosts[1].Ready() })
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
