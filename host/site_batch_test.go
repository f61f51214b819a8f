package host_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	batchKills   = 6
	batchOpeners = 6 // jobs before each kill, each of which opens batches
	batchesEach  = 2
	batchMembers = 6 // of each, and those that they add

	// The queue says what a job is there for.
	followers, openers, members = "1-critical", "2-default", "3-bulk"
)

// idOf makes an id that is the same at each try.
func idOf(words ...any) (id pawl.ID) {
	sum := sha256.Sum256([]byte(fmt.Sprint(words...)))
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

func init() {
	// Jobs open batches, members add to theirs, some die, and what follows writes in the log how they ended.
	roles["batches"] = func(store database, o order) (pawl.Store, func(context.Context, *pawl.Job, workArgs) error) {
		return store, func(ctx context.Context, job *pawl.Job, args workArgs) error {
			fmt.Println("event", job.ID)
			switch job.Queue {
			case openers:
				return openSome(ctx, store, job, o.Where)
			case followers:
				return writeLine(o.Where, "followed", job.ID, job.After.Batch, job.After.Done, job.After.Dead, job.After.Removed)
			}
			return beMember(ctx, store, job, args)
		}
	}
}

// openSome opens batches whose ids are the same at each try, and writes in the log what was acknowledged.
func openSome(ctx context.Context, store database, job *pawl.Job, where string) error {
	for n := range batchesEach {
		batch := idOf(job.ID, n)
		jobs := make([]pawl.NewJob, batchMembers)
		for i := range jobs {
			var err error
			jobs[i], err = work.New(ctx, store.Connection(), workArgs{i}, pawl.InQueue(members), pawl.WithID(idOf(batch, i)), pawl.Backoff(20*time.Millisecond))
			if err != nil {
				return err
			}
		}
		_, err := work.EnqueueAfter(ctx, store, jobs, workArgs{}, pawl.InQueue(followers), pawl.WithID(batch), pawl.Backoff(20*time.Millisecond))
		if err == nil {
			err = writeLine(where, "opened", batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func beMember(ctx context.Context, store database, job *pawl.Job, args workArgs) error {
	time.Sleep(10 * time.Millisecond)
	switch {
	case args.N == 1:
		return pawl.Permanent(errors.New("no such photo"))
	case args.N == 2:
		_, err := work.Enqueue(ctx, store, workArgs{0}, pawl.InQueue(members), pawl.InBatch(job.Batch), pawl.WithID(idOf(job.ID)))
		return err
	case args.N == 3 && job.Attempt == 1:
		return errors.New("again")
	}
	return nil
}

// Processes that open batches, run their members and what follows them are killed, again and again: each batch whose enqueue was
// acknowledged is followed by one job, which knows how its members have ended.
func TestBatchesOfKilledProcesses(t *testing.T) {
	onBoth(t, func(s *site) {
		s.Cleanup(func() { _ = os.Remove(lineLog(s.where)) })
		heir := s.process("heir", "batches", 1)
		for n := range batchKills {
			victim := s.process(fmt.Sprint("victim-", n), "batches", 5)
			s.until("the victim", func() bool {
				return slices.ContainsFunc(s.hosts(), func(h pawl.HostView) bool { return h.PID == victim.command.Process.Pid })
			})
			s.put(work, batchOpeners, pawl.InQueue(openers), pawl.Backoff(20*time.Millisecond))
			for range 1 + rand.IntN(30) {
				come(s, "a start", victim.events)
			}
			victim.kill()
		}
		s.until("all done", func() bool { return s.unfinished() == 0 && s.openBatches() == 0 })
		heir.kill()
		s.checkBatches()
	})
}

// batchLog reads what was acknowledged, and how what follows was told that members ended.
func (s *site) batchLog() (opened map[pawl.ID]bool, followed map[pawl.ID][]string) {
	s.Helper()
	text, err := os.ReadFile(lineLog(s.where))
	if err != nil {
		s.Fatal(err)
	}
	opened, followed = map[pawl.ID]bool{}, map[pawl.ID][]string{}
	for line := range strings.Lines(string(text)) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, end, _ := strings.Cut(rest, " ")
		id, err := pawl.ParseID(name)
		if err != nil {
			s.Fatalf("line %q: %v", line, err)
		}
		if what == "opened" {
			opened[id] = true
		} else {
			followed[id] = append(followed[id], end)
		}
	}
	return opened, followed
}

// openBatches counts those that were acknowledged and have not ended.
func (s *site) openBatches() (n int) {
	s.Helper()
	opened, _ := s.batchLog()
	for id := range opened {
		batch, err := s.store.(pawl.Batches).Batch(s.Context(), id)
		if err != nil {
			s.Fatal(err)
		}
		if batch.EndedAt.IsZero() {
			n++
		}
	}
	return n
}

// checkBatches compares what followed with how the members have ended, as their own rows tell it.
func (s *site) checkBatches() {
	s.Helper()
	want, callbacks := map[pawl.ID]*pawl.BatchEnd{}, map[pawl.ID]pawl.JobView{}
	jobs, crashed := 0, 0
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := s.store.Jobs(s.Context(), pawl.JobFilter{}, page)
		if err != nil {
			s.Fatal(err)
		}
		for _, job := range found.Jobs {
			view := s.view(job.ID)
			s.sort(view, want, callbacks)
			if jobs++; slices.ContainsFunc(view.History, func(r pawl.AttemptRecord) bool { return r.Ending == pawl.EndCrashed }) {
				crashed++
			}
		}
		if page.After = found.Next; found.Next == "" {
			break
		}
	}
	opened, followed := s.batchLog()
	for id := range opened {
		if want[id] == nil {
			s.Errorf("batch %s was acknowledged, and has no members", id)
		}
	}
	if s.equal("jobs that follow", len(callbacks), len(want)); len(opened) < batchKills {
		s.Errorf("only %d batches were opened", len(opened))
	}
	reruns := 0
	for id, end := range want { // those too whose acknowledgement was cut off
		job := callbacks[id]
		if job.State != pawl.JobDone || end.Done+end.Dead < batchMembers {
			s.Errorf("batch %s: members %+v, what follows %+v", id, end, job)
			continue
		}
		if len(followed[id]) < 1 || len(followed[id]) > job.Attempt {
			s.Errorf("what follows batch %s was run %d times in %d attempts", id, len(followed[id]), job.Attempt)
		}
		reruns += len(followed[id]) - 1
		for _, got := range followed[id] {
			s.equal("how members ended, as what follows has seen it", got, words(id, end.Done, end.Dead, end.Removed))
		}
		batch, err := s.store.(pawl.Batches).Batch(s.Context(), id)
		if err != nil || batch.BatchEnd != *end || batch.Pending() != 0 {
			s.Errorf("batch %+v, error %v, want %+v", batch, err, *end)
		}
	}
	s.Logf("%d batches; of %d jobs %d were crashed, and what follows was run again %d times", len(want), jobs, crashed, reruns)
}

// sort counts an ended member, or keeps what follows.
func (s *site) sort(job pawl.JobView, ends map[pawl.ID]*pawl.BatchEnd, callbacks map[pawl.ID]pawl.JobView) {
	s.Helper()
	e, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		s.Fatal(err)
	}
	if !e.After.Batch.IsZero() {
		s.equal("the id of what follows", job.ID, e.After.Batch)
		callbacks[job.ID] = job
	}
	if e.Batch.IsZero() {
		return
	}
	if ends[e.Batch] == nil {
		ends[e.Batch] = &pawl.BatchEnd{Batch: e.Batch}
	}
	switch end := ends[e.Batch]; job.State {
	case pawl.JobDone:
		end.Done++
	case pawl.JobDead:
		end.Dead++
	default:
		s.Errorf("member %+v", job)
	}
}
