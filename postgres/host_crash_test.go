package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// A host process is killed with all its workers busy. Its jobs run again within seconds on the two hosts that are left,
// each once, and all the workers of these are free afterwards.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	const jobs = 20
	w := newWorld(t)
	ids := w.put(work, jobs)
	victim := w.process("victim", jobs)
	starts := victim.await(jobs)
	slices.Sort(starts)
	var want []string
	for _, id := range ids {
		want = append(want, fmt.Sprint(id, " 1"))
	}
	slices.Sort(want)
	w.equal("jobs that the victim runs", starts, want)

	runs := newLedger()
	open := map[string]chan struct{}{work.Name(): make(chan struct{}), once.Name(): make(chan struct{})}
	mux := muxOf(func(_ context.Context, job *pawl.Job, _ workArgs) error {
		runs.add(job)
		<-open[job.Kind]
		return nil
	})
	hosts := []*running{
		w.start(w.another(), mux, w.config("left-1", jobs/2, quick())),
		w.start(w.another(), mux, w.config("left-2", jobs/2, quick())),
	}
	busy := func() int { return hosts[0].Stats().Running + hosts[1].Stats().Running }
	w.until(patience, "both hosts ready", func() bool { return hosts[0].Ready() && hosts[1].Ready() })

	victim.kill()
	killed := time.Now()
	w.until(10*time.Second, "every job running again", func() bool { return busy() == jobs })
	t.Logf("all %d jobs run again %s after the kill", jobs, time.Since(killed).Round(time.Millisecond))
	w.equal("reserved", w.counts().Reserved, jobs)
	close(open[work.Name()])
	w.until(patience, "the end of all jobs", func() bool { return hosts[0].Stats().Succeeded+hosts[1].Stats().Succeeded == jobs })
	runs.ran(w, ids, 2)
	w.ends(ids, pawl.JobDone, 2, 1)
	for _, id := range ids {
		history := w.view(id).History
		if len(history) != 1 || history[0].Ending != pawl.EndCrashed || history[0].Host != "victim" {
			t.Errorf("history of job %s: %+v", id, history)
		}
	}
	w.equal("jobs recovered", hosts[0].Stats().Recovered+hosts[1].Stats().Recovered, jobs)

	more := w.put(once, jobs)
	w.until(patience, "all workers busy again", func() bool { return busy() == jobs })
	close(open[once.Name()])
	w.until(patience, "the end of the second round", func() bool { return w.counts().Reserved == 0 })
	w.ends(more, pawl.JobDone, 1, 0)
}

// A host loses its store and is replaced by one of the same name and the same process id, as in a container that was
// restarted. The orphans run again, each once. What the old one still does is refused when it comes back, and it works
// on under a new session.
func TestRestartUnderTheSameIdentity(t *testing.T) {
	t.Parallel()
	const jobs = 10
	w := newWorld(t)
	ids := w.put(work, jobs)
	link := startRelay(t, w.url)
	runs, open := newLedger(), make(chan struct{})
	var told atomic.Int64
	old := w.start(w.by(link.url), muxOf(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
		runs.add(job)
		if job.Kind == once.Name() {
			return nil
		}
		<-ctx.Done()
		if context.Cause(ctx) == pawl.ErrLeaseLost {
			told.Add(1)
		}
		return nil // the work was done all the same
	}), w.config("twin", jobs, quick()))
	w.until(patience, "the first host at work", func() bool { return old.Stats().Running == jobs })
	session := old.Stats().Session
	link.cut()

	restarted := w.start(w.another(), muxOf(func(_ context.Context, job *pawl.Job, _ workArgs) error {
		runs.add(job)
		<-open
		return nil
	}), w.config("twin", jobs, quick()))
	w.until(10*time.Second, "the orphans running again", func() bool { return restarted.Stats().Running == jobs })
	if again := restarted.Stats().Session; again == session {
		t.Errorf("both hosts have session %d", session)
	}
	link.heal()
	w.until(patience, "the old host's attempts refused", func() bool { return old.Stats().LeasesLost == jobs })
	w.until(patience, "its handlers told", func() bool { return told.Load() == jobs })
	close(open)
	w.until(patience, "the end of all jobs", func() bool { return restarted.Stats().Succeeded == jobs })
	runs.ran(w, ids, 1, 2)
	w.ends(ids, pawl.JobDone, 2, 1)
	w.equal("acknowledged by the old host", old.Stats().Succeeded, 0)

	restarted.stop()
	w.until(patience, "the old host ready again", old.Ready)
	more := w.put(once, 1)
	w.until(patience, "a job that it runs", func() bool { return old.Stats().Succeeded == 1 })
	w.ends(more, pawl.JobDone, 1, 0)
}
