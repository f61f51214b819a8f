package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// Jobs with one ordering key run one at a time, in the order of their enqueue. One keeps its place until it has ended.
func linePromises() []promise {
	return []promise{
		{name: "jobs with one key are claimed one at a time, in order", check: oneAtATime},
		{name: "other keys, and jobs without one, do not wait", check: keysApart},
		{name: "a key holds over kinds and queues", check: keyOverKinds},
		{name: "keys are compared bytewise", check: orderingKeysBytewise},
		{name: "a batch is a line in its order", check: lineOfBatch},
		{name: "a retry keeps its place through its backoff", check: retryKeepsPlace},
		{name: "a released job keeps its place", check: releaseKeepsPlace},
		{name: "a given-back job keeps its place", check: giveBackKeepsPlace},
		{name: "a crash keeps the place", check: crashKeepsPlace},
		{name: "a closed session keeps the places of what it held", check: closeKeepsPlace},
		{name: "a delayed job keeps its place, and those behind it wait", check: delayKeepsPlace},
		{name: "a job behind whose own delay is over goes when its turn comes", check: delayPassesInLine},
		{name: "a switch and a pause hold the line", check: switchHoldsLine},
		{name: "a death lets the next one go on", check: deathLetsGo},
		{name: "a job that is cancelled, deleted or cleared lets the next one go on", check: removalLetsGo},
		{name: "a running job that is cancelled lets the next one go on when it ends", check: cancelledRunnerLetsGo},
		{name: "one that is removed from the middle is passed over", check: removedFromMiddle},
		{name: "a redriven job joins at the end", check: redriveJoinsAtEnd},
		{name: "a letter retried under its id joins at the end", check: retriedLetterJoinsAtEnd},
		{name: "an acknowledgement that is refused moves nobody", check: refusedAckMovesNobody},
		{name: "a transaction's jobs stand in line with its commit", check: lineInTransaction},
		{name: "jobs enqueued by a settlement stand in line", check: lineOfFollowUps},
		{name: "a job that waits for its turn is shown as waiting", check: lineIsShown},
		{name: "run now does not let a job pass those before it", check: runNowKeepsOrder},
		{name: "of claims at the same time none gets two of a line", check: concurrentLines},
		{name: "a wake-up comes when the next one may go", check: lineWakes},
	}
}

func (f *fixture) orders(what string, session pawl.SessionID, want ...pawl.ID) []pawl.ClaimedJob {
	f.Helper()
	f.sweep(session)
	jobs := f.claim(session, 20)
	f.equal(what, ids(jobs), want)
	return jobs
}

func oneAtATime(f *fixture) {
	session := f.host("a")
	line := f.puts(4, pawl.OrderingKey("k"))
	for _, id := range line {
		job := f.orders("claimed", session, id)[0]
		f.claimNone("while it runs", session)
		f.settle(session, end(job, pawl.Done{}))
	}
	f.claimNone("after the last", session)
}

func keysApart(f *fixture) {
	session := f.host("a")
	first, _ := f.put(pawl.OrderingKey("k")), f.put(pawl.OrderingKey("k"))
	other, plain := f.put(pawl.OrderingKey("l")), f.put()
	f.orders("claimed", session, first, other, plain)
}

func keyOverKinds(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.OrderingKey("k"), pawl.InQueue(bulk))
	second := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`, pawl.OrderingKey("k"), pawl.InQueue(critical)))[0]
	job := f.orders("claimed", session, first)[0]
	f.settle(session, end(job, pawl.Done{}))
	f.orders("then", session, second)
}

func orderingKeysBytewise(f *fixture) {
	session := f.host("a")
	var want []pawl.ID
	for _, key := range []string{"k", "K", "k ", "é", "e\u0301", "%", "_"} {
		want = append(want, f.put(pawl.OrderingKey(key)))
	}
	f.orders("claimed", session, want...)
}

func lineOfBatch(f *fixture) {
	session := f.host("a")
	jobs := make([]pawl.NewJob, 30)
	for i := range jobs {
		jobs[i] = f.job(pawl.OrderingKey([]string{"k", "l", "m"}[i%3]))
	}
	all := f.enqueue(jobs...)
	for i := 0; i < len(all); i += 3 {
		three := f.orders("three heads", session, all[i:i+3]...)
		for _, job := range three {
			f.settle(session, end(job, pawl.Done{}))
		}
	}
}

func retryKeepsPlace(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	for range 2 {
		f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Retry{After: time.Hour}))
		f.sweep(session)
		f.claimNone("during its backoff", session)
		f.pass(2 * time.Hour)
	}
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Retry{}))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Done{}))
	f.orders("then", session, line[1])
}

func releaseKeepsPlace(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Release{}))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Release{After: time.Minute}))
	f.sweep(session)
	f.claimNone("while it waits", session)
	f.pass(time.Hour)
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Done{}))
	f.orders("then", session, line[1])
}

func giveBackKeepsPlace(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.GiveBack{}))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.GiveBack{Interrupted: true}))
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Done{}))
	f.orders("then", session, line[1])
}

func crashKeepsPlace(f *fixture) {
	observer := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	victim := f.host("b")
	f.orders("claimed", victim, line[0])
	f.kill(observer, victim)
	f.settle(observer, end(f.orders("claimed", observer, line[0])[0], pawl.Done{}))
	f.orders("then", observer, line[1])
}

func closeKeepsPlace(f *fixture) {
	session, closing := f.host("a"), f.host("b")
	line := f.puts(2, pawl.OrderingKey("k"))
	f.orders("claimed", closing, line[0])
	f.closeSession(closing)
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Done{}))
	f.orders("then", session, line[1])
}

func delayKeepsPlace(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.OrderingKey("k"), pawl.Delay(time.Hour))
	second := f.put(pawl.OrderingKey("k"))
	f.sweep(session)
	f.claimNone("before its time", session)
	f.pass(2 * time.Hour)
	f.settle(session, end(f.orders("claimed", session, first)[0], pawl.Done{}))
	f.orders("then", session, second)
}

func delayPassesInLine(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.OrderingKey("k"))
	second := f.put(pawl.OrderingKey("k"), pawl.Delay(time.Hour))
	third := f.put(pawl.OrderingKey("k"), pawl.Delay(3*time.Hour))
	job := f.orders("claimed", session, first)[0]
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.claimNone("while the first runs", session)
	f.settle(session, end(job, pawl.Done{}))
	job = f.orders("then", session, second)[0]
	f.settle(session, end(job, pawl.Done{}))
	f.sweep(session)
	f.claimNone("before the third's time", session)
	f.pass(2 * time.Hour)
	f.orders("at last", session, third)
}

func switchHoldsLine(f *fixture) {
	session := f.host("a")
	first := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`, pawl.OrderingKey("k")))[0]
	second := f.put(pawl.OrderingKey("k"), pawl.InQueue(critical))
	f.switchKind(otherKind, false)
	f.claimNone("while the first's kind is off", session)
	f.switchKind(otherKind, true)
	f.pauseQueue(normal, true)
	f.claimNone("while the first's queue is paused", session)
	f.pauseQueue(normal, false)
	f.settle(session, end(f.orders("claimed", session, first)[0], pawl.Done{}))
	f.orders("then", session, second)
}

// onlyKinds claims nothing: it is a look that must find nothing to hand out.
func onlyKinds(kinds ...string) func(*pawl.ClaimRequest) {
	return func(r *pawl.ClaimRequest) { r.Kinds = kinds }
}

func lineInTransaction(f *fixture) {
	session := f.host("a")
	tx := f.begin()
	gone, err := tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.OrderingKey("k"))})
	f.ok("enqueue in transaction", err)
	f.ok("rollback", tx.Rollback())
	tx = f.begin()
	jobs := []pawl.NewJob{f.job(pawl.OrderingKey("k")), f.job(pawl.OrderingKey("k")), f.job()}
	_, err = tx.Enqueue(f.ctx, jobs)
	f.ok("enqueue in transaction", err)
	f.ok("commit", tx.Commit())
	last := f.put(pawl.OrderingKey("k"))
	got := f.claim(session, 20)
	f.equal("number claimed", len(got), 2)
	f.holds("the job that was rolled back is not there", !slices.Contains(ids(got), gone[0].ID))
	f.holds("the head and the job without a key are", slices.Contains(ids(got), jobs[0].ID) && slices.Contains(ids(got), jobs[2].ID))
	for _, job := range got {
		f.settle(session, end(job, pawl.Done{}))
	}
	f.settle(session, end(f.orders("then", session, jobs[1].ID)[0], pawl.Done{}))
	f.orders("at last", session, last)
}

func lineOfFollowUps(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	settlement := end(f.orders("claimed", session, line[0])[0], pawl.Done{})
	next := f.job(pawl.OrderingKey("k"))
	settlement.Enqueue = []pawl.NewJob{next}
	f.settle(session, settlement)
	f.settle(session, end(f.orders("first", session, line[1])[0], pawl.Done{}))
	f.orders("then", session, next.ID)
}

func lineIsShown(f *fixture) {
	session := f.host("a")
	line := f.puts(3, pawl.OrderingKey("k"))
	f.orders("claimed", session, line[0])
	view := f.view(line[1])
	f.equal("state", view.State, pawl.JobWaiting)
	f.equal("held in line", view.HeldInLine, true)
	f.holds("it has no time to run at", view.RunAt.IsZero())
	f.equal("head", f.view(line[0]).HeldInLine, false)
	f.equal("waiting jobs", len(f.jobs(pawl.JobFilter{State: pawl.JobWaiting})), 2)
	f.equal("scheduled jobs", len(f.jobs(pawl.JobFilter{State: pawl.JobScheduled})), 0)
	queues, err := f.store.Queues(f.ctx)
	f.ok("count queues", err)
	f.equal("queues", len(queues), 1)
	f.equal("counts", []int{queues[0].Waiting, queues[0].Scheduled, queues[0].Reserved}, []int{2, 0, 1})
	errs, err := f.store.RunJobsNow(f.ctx, line[1:2], operator("now"))
	f.failsOne("run now", errs, err, pawl.ErrConflict)
	f.holds("nothing is due", f.sweep(session).NextDue < 0)
}

func runNowKeepsOrder(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.OrderingKey("k"))
	second := f.put(pawl.OrderingKey("k"), pawl.Delay(time.Hour))
	third := f.put(pawl.OrderingKey("l"), pawl.Delay(time.Hour))
	errs, err := f.store.RunJobsNow(f.ctx, []pawl.ID{second, third}, operator("now"))
	f.allOK("run now", errs, err)
	jobs := f.orders("claimed", session, first, third)
	f.settle(session, end(jobs[0], pawl.Done{}))
	f.orders("then", session, second)
}

func concurrentLines(f *fixture) {
	const lines, each = 4, 10
	keys := []string{"k", "l", "m", "n"}
	var jobs []pawl.NewJob
	for i := range lines * each {
		jobs = append(jobs, f.job(pawl.OrderingKey(keys[i%lines])))
	}
	order := map[pawl.ID]int{}
	for i, id := range f.enqueue(jobs...) {
		order[id] = i
	}
	var mu sync.Mutex
	running, last, done := map[int]int{}, map[int]int{}, 0
	stores := []*fixture{f, f.elsewhere(), f.elsewhere()}
	var group sync.WaitGroup
	for n, other := range stores {
		session := other.host([]string{"a", "b", "c"}[n])
		group.Go(func() {
			for f.ctx.Err() == nil {
				mu.Lock()
				over := done == lines*each
				mu.Unlock()
				if over {
					return
				}
				claimed, err := other.store.Claim(f.ctx, request(session, 3))
				if err != nil {
					f.Errorf("claim: %v", err)
					return
				}
				for _, job := range claimed.Jobs {
					at := order[job.ID]
					mu.Lock()
					running[at%lines]++
					if running[at%lines] > 1 || at/lines != last[at%lines] {
						f.Errorf("job %d of line %d is claimed beside another, or out of turn: %d were done", at/lines, at%lines, last[at%lines])
					}
					mu.Unlock()
				}
				for _, job := range claimed.Jobs {
					at := order[job.ID]
					mu.Lock()
					running[at%lines]--
					last[at%lines]++
					done++
					mu.Unlock()
					if errs, err := other.store.Settle(f.ctx, session, []pawl.Settlement{end(job, pawl.Done{})}); err != nil || errs[0] != nil {
						f.Errorf("settle: %v, %v", errs, err)
					}
				}
			}
		})
	}
	group.Wait()
	f.equal("jobs done", done, lines*each)
}

func lineWakes(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	job := f.orders("claimed", session, line[0])[0]
	wake, err := f.store.Wake(f.ctx)
	f.ok("wake", err)
	<-wake // whatever came before
	f.settle(session, end(job, pawl.Done{}))
	select {
	case <-wake:
	case <-f.ctx.Done():
		f.Fatal("nobody was woken")
	}
	f.orders("then", session, line[1])
}
