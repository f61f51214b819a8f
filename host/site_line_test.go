package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	lineKeys  = 6
	lineJobs  = 20 // of each key
	lineLimit = 4  // that may run at once
)

// lineLog is the file in which processes write, in one order for all of them, what they run.
func lineLog(where string) string {
	if filepath.IsAbs(where) {
		return where + ".log"
	}
	return filepath.Join(os.TempDir(), where+".log")
}

func writeLine(where string, words ...any) error {
	file, err := os.OpenFile(lineLog(where), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, words...)
	return errors.Join(err, file.Close())
}

func init() {
	// Handlers say in the log when they begin and end.
	roles["line"] = func(store database, o order) (pawl.Store, func(context.Context, *pawl.Job, workArgs) error) {
		return store, func(_ context.Context, job *pawl.Job, args workArgs) error {
			_ = writeLine(o.Where, "start", args.N, os.Getpid())
			fmt.Println("event", args.N)
			time.Sleep(40 * time.Millisecond)
			_ = writeLine(o.Where, "end", args.N, os.Getpid())
			return nil
		}
	}
}

// Processes are killed, again and again, while they run jobs with ordering keys under a limit: the jobs of each key run in
// order, none beside another of its key, and never more at once than may.
func TestLinesOfKilledProcesses(t *testing.T) {
	onBoth(t, func(s *site) {
		s.Cleanup(func() { _ = os.Remove(lineLog(s.where)) })
		limit := pawl.Limit{Concurrency: lineLimit}
		if err := s.store.SetLimit(s.Context(), work.Name(), &limit, pawl.By{Who: "test"}); err != nil {
			s.Fatal(err)
		}
		var jobs []pawl.NewJob
		var ids []pawl.ID
		for n := range lineKeys * lineJobs {
			job, err := work.New(s.Context(), s.store.Connection(), workArgs{n}, pawl.OrderingKey(fmt.Sprint("key ", n%lineKeys)))
			if err != nil {
				s.Fatal(err)
			}
			jobs, ids = append(jobs, job), append(ids, job.ID)
		}
		if _, err := s.store.Enqueue(s.Context(), jobs); err != nil {
			s.Fatal(err)
		}
		heir := s.process("heir", "line", 1) // which leaves slots to the others
		for n := range 3 {
			victim := s.process(fmt.Sprint("victim-", n), "line", 5)
			for range 6 {
				come(s, "a start", victim.events)
			}
			pid := victim.command.Process.Pid
			victim.kill()
			_ = writeLine(s.where, "killed", 0, pid)
		}
		s.until("all done", func() bool { return s.unfinished() == 0 })
		heir.kill()
		s.checkLines(ids)
	})
}

func (s *site) unfinished() (n int) {
	s.Helper()
	queues, err := s.store.Queues(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, q := range queues {
		n += q.Waiting + q.Scheduled + q.Reserved
	}
	return n
}

// checkLines reads the log: a job may begin when all before it in its line have ended, or again when the process that ran it
// was killed.
func (s *site) checkLines(ids []pawl.ID) {
	s.Helper()
	text, err := os.ReadFile(lineLog(s.where))
	if err != nil {
		s.Fatal(err)
	}
	type run struct {
		pid           int
		ended, killed bool
	}
	runs := map[int]*run{} // the latest of each job
	open, reruns := 0, 0
	for line := range strings.Lines(string(text)) {
		var what string
		var n, pid int
		if _, err := fmt.Sscan(line, &what, &n, &pid); err != nil {
			s.Fatalf("line %q: %v", line, err)
		}
		switch what {
		case "start":
			if before := runs[n]; before != nil {
				if reruns++; !before.killed {
					s.Errorf("job %d of key %d begins again, and the process that ran it was not killed", n/lineKeys, n%lineKeys)
				}
			}
			if previous := runs[n-lineKeys]; n >= lineKeys && (previous == nil || !previous.ended) {
				s.Errorf("job %d of key %d begins before the one before it has ended", n/lineKeys, n%lineKeys)
			}
			if later := runs[n+lineKeys]; later != nil {
				s.Errorf("job %d of key %d begins after the one behind it", n/lineKeys, n%lineKeys)
			}
			runs[n] = &run{pid: pid}
			if open++; open > lineLimit {
				s.Errorf("%d jobs run at once", open)
			}
		case "end":
			runs[n].ended = true
			open--
		case "killed":
			for _, r := range runs {
				if r.pid == pid {
					if !r.ended {
						open--
					}
					r.killed = true
				}
			}
		}
	}
	s.equal("jobs that have run", len(runs), len(ids))
	for n, r := range runs {
		if !r.ended {
			s.Errorf("job %d of key %d has not ended", n/lineKeys, n%lineKeys)
		}
	}
	s.Logf("%d jobs were run again", reruns)
}

// Case 32: a dead unique job leaves its key as its scope says, and its own retries do not collide with it.
func TestCase32DeadUniqueJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key          pawl.Option
		runs, buried pawl.EnqueueStatus // of another with the same key, while it runs and after its death
	}{
		"while waiting":    {pawl.UniqueWhileWaiting("k"), pawl.Accepted, pawl.Duplicate}, // of the one that was accepted
		"while unfinished": {pawl.UniqueWhileUnfinished("k"), pawl.Duplicate, pawl.Accepted},
		"for a period":     {pawl.UniqueFor("k", time.Hour), pawl.Duplicate, pawl.Duplicate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(s *site) {
				another := func() pawl.Enqueued {
					done, err := work.Enqueue(t.Context(), s.store, workArgs{1}, c.key, pawl.InQueue("nobody's"))
					if err != nil {
						t.Error(err)
					}
					return done
				}
				var beside pawl.Enqueued
				s.handle(func(_ context.Context, job *pawl.Job, _ workArgs) error {
					if job.LastAttempt() {
						beside = another()
					}
					return errors.New("no answer")
				})
				ids := s.put(work, 1, c.key, pawl.MaxTries(3), pawl.Backoff(0))
				s.start("a", 2)
				s.ended(ids, pawl.JobDead, 3)
				s.ran(ids, 1, 2, 3)
				s.equal("while it runs", beside.Status, c.runs)
				after := another()
				s.equal("after its death", after.Status, c.buried)
				if c.buried == pawl.Duplicate {
					s.equal("the holder", after.ID, beside.ID)
				}
			})
		})
	}
}
