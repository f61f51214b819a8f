package storetest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
)

// Bounds of a run against the model.
const (
	modelSessions = 4
	modelTime     = 15 * time.Second // after which no new sequence begins
	modelHours    = 12               // with the 10 of the end less than ids and ended jobs are remembered for
)

// RunModel compares a store with the reference model: random sequences of everything that happens to jobs, and after
// each step every job must be in the state, and have the counts, that the model says. At the end all that is left is
// claimed, in the model's order. The flags of rapid (-rapid.checks, -rapid.steps, -rapid.seed) say how much, and which;
// a slow machine gets through fewer.
func RunModel(t *testing.T, h Harness) {
	until, failed := time.Now().Add(modelTime), false
	rapid.Check(t, func(rt *rapid.T) {
		if !failed && time.Now().After(until) {
			return
		}
		passed := false // a failure leaves by a panic; what rapid then repeats to find the shortest one has no limit
		defer func() { failed = failed || !passed }()
		run := &modelRun{fixture: newFixture(&modelTB{TB: t, rt: rt}, h, Options{}), rt: rt, model: newModel(), last: map[pawl.ID]pawl.DeadLetter{}}
		run.ok("set limit", run.store.SetLimit(run.ctx, otherKind, &pawl.Limit{Concurrency: 2, PerKey: 1}, operator("model")))
		run.model.limit = pawl.Limit{Concurrency: 2, PerKey: 1}
		run.open()
		rt.Repeat(map[string]func(*rapid.T){
			"":               run.check,
			"enqueue":        run.enqueueSome,
			"enqueue again":  run.enqueueAgain,
			"open session":   func(*rapid.T) { run.open() },
			"claim":          run.claimSome,
			"claim more":     run.claimSome,
			"start":          run.startOne,
			"settle":         run.settleSome,
			"settle more":    run.settleSome,
			"settle stale":   run.settleStale,
			"an hour passes": run.hour,
			"sweep":          func(*rapid.T) { run.sweepAll() },
			"host dies":      run.hostDies,
			"one more dies":  run.hostDies,
			"close session":  run.closeOne,
			"switch a kind":  run.switchOne,
			"pause a queue":  run.pauseOne,
			"clear a queue":  run.clearOne,
			"cancel":         run.cancelOne,
			"retry a letter": run.retryOne,
			"limit a kind":   run.limitOne,
		})
		run.drain()
		passed = true
	})
}

// modelRun does one thing to the store and to the model at a time.
type modelRun struct {
	*fixture
	rt    *rapid.T
	model *model
	made  int                         // jobs, sessions and delays so far
	last  map[pawl.ID]pawl.DeadLetter // the newest letter of each dead job
}

func (r *modelRun) next() int {
	r.made++
	return r.made
}

// delay is some hours and ten minutes, and no two are alike: so no two jobs are due at once, and a step that takes a
// while changes nothing.
func (r *modelRun) delay(rt *rapid.T, label string) time.Duration {
	hours := rapid.IntRange(0, 3).Draw(rt, label)
	if hours == 0 {
		return 0
	}
	return time.Duration(hours)*time.Hour + 10*time.Minute + time.Duration(r.next())*time.Second
}

func (r *modelRun) enqueueSome(rt *rapid.T) {
	jobs := make([]pawl.NewJob, rapid.IntRange(1, 5).Draw(rt, "jobs"))
	var want []pawl.Enqueued
	for i := range jobs {
		var id pawl.ID
		binary.BigEndian.PutUint64(id[8:], uint64(r.next()))
		options := []pawl.Option{
			pawl.WithID(id), pawl.Delay(r.delay(rt, "delay in hours")),
			pawl.InQueue(rapid.SampledFrom([]string{critical, normal, bulk}).Draw(rt, "queue")),
		}
		if rapid.IntRange(0, 3).Draw(rt, "once") == 0 {
			options = append(options, pawl.MaxTries(1))
		}
		if key := rapid.SampledFrom([]string{"", "", "", "k", "l"}).Draw(rt, "key"); key != "" {
			options = append(options, pawl.UniqueWhileUnfinished(key))
		}
		if key := rapid.SampledFrom([]string{"", "", "", "m", "n"}).Draw(rt, "ordering key"); key != "" {
			options = append(options, pawl.OrderingKey(key))
		}
		if key := rapid.SampledFrom([]string{"", "o", "p"}).Draw(rt, "limit key"); key != "" {
			options = append(options, pawl.LimitKey(key))
		}
		kind := rapid.SampledFrom([]string{workKind, otherKind}).Draw(rt, "kind")
		policy := pawl.Policy{}
		if kind == otherKind {
			policy.Limit.Concurrency = 9 // what counts is set by the operator
		}
		jobs[i] = r.jobOf(kind, policy, `1`, options...)
		want = append(want, r.model.enqueue(jobs[i]))
	}
	r.model.give()
	r.equal("enqueued", r.try(jobs...), want)
}

func (r *modelRun) enqueueAgain(rt *rapid.T) {
	j := r.draw(rt, "job", r.model.jobs)
	r.equal("enqueued again", r.try(j.new), []pawl.Enqueued{{ID: j.new.ID, Status: pawl.Repeated}})
}

// draw picks a job, or skips the step when there is none.
func (r *modelRun) draw(rt *rapid.T, label string, from []*modelJob) *modelJob {
	if len(from) == 0 {
		rt.Skip("no such job")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(rt, label)]
}

func (r *modelRun) session(rt *rapid.T) *modelSession {
	if len(r.model.sessions) == 0 {
		rt.Skip("no session")
	}
	return r.model.sessions[rapid.IntRange(0, len(r.model.sessions)-1).Draw(rt, "session")]
}

func (r *modelRun) open() {
	if len(r.model.sessions) == modelSessions {
		r.rt.Skip("sessions enough")
	}
	name := fmt.Sprint("host-", r.next())
	r.model.sessions = append(r.model.sessions, &modelSession{r.host(name), name})
}

func (r *modelRun) claimSome(rt *rapid.T) {
	s := r.session(rt)
	request := request(s.id, rapid.IntRange(1, 8).Draw(rt, "max"))
	request.Queues = rapid.Permutation(request.Queues).Draw(rt, "queues")
	request.Queues = request.Queues[:rapid.IntRange(1, 3).Draw(rt, "number of queues")]
	request.Kinds = request.Kinds[rapid.IntRange(0, 1).Draw(rt, "kinds"):]
	// A host runs one suspect at a time.
	holds := slices.ContainsFunc(r.model.held(s), func(j *modelJob) bool { return j.crashes >= pawl.CrashSuspect })
	request.Suspect = !holds && rapid.Bool().Draw(rt, "suspect")
	r.claimAndCompare(s, request)
}

func (r *modelRun) claimAndCompare(s *modelSession, request pawl.ClaimRequest) {
	r.Helper()
	jobs, err := claimAll(r.ctx, r.store, request)
	r.ok("claim", err)
	for i, j := range r.compareClaimed(request, jobs) {
		j.state, j.holder, j.claimed, j.marked = pawl.JobReserved, s, jobs[i], false
		j.attempt++
		got := jobs[i]
		r.equal("claimed job's attempt, crashes, requeues and mark",
			[]any{got.Attempt, got.Crashes, got.Requeues, got.Started}, []any{j.attempt, j.crashes, j.requeues, j.started})
	}
}

func (r *modelRun) startOne(rt *rapid.T) {
	j := r.draw(rt, "job", slices.DeleteFunc(r.model.in(pawl.JobReserved), func(j *modelJob) bool { return !j.new.Once }))
	r.start(j.holder.id, j.claimed)
	j.marked = j.marked || !j.started
	j.started = true
}

// settleSome ends some of a session's reservations in one batch. At most one becomes ready at once, and nothing else
// is due then, so that their order is no matter of chance.
func (r *modelRun) settleSome(rt *rapid.T) {
	s := r.session(rt)
	held := r.model.held(s)
	r.draw(rt, "any", held)
	held = rapid.Permutation(held).Draw(rt, "jobs")[:rapid.IntRange(1, len(held)).Draw(rt, "number")]
	r.sweepAll()
	var settlements []pawl.Settlement
	atOnce := false
	for _, j := range held {
		settlement := r.outcome(rt, j, &atOnce)
		settlements = append(settlements, settlement)
	}
	r.settle(s.id, settlements...)
	for i, j := range held {
		var letter pawl.ID
		if l := settlements[i].Letter; l != nil {
			letter = l.ID
		}
		r.model.settle(j, settlements[i].Outcome, letter)
		if j.state == pawl.JobDead {
			r.last[j.new.ID] = r.letter(letter)
		}
	}
	r.model.give()
	r.sweep(s.id)
}

func (r *modelRun) outcome(rt *rapid.T, j *modelJob, atOnce *bool) pawl.Settlement {
	after := func() time.Duration {
		d := r.delay(rt, "wait in hours")
		if d == 0 && *atOnce {
			d = time.Hour + 10*time.Minute + time.Duration(r.next())*time.Second
		}
		*atOnce = *atOnce || d == 0
		return d
	}
	switch rapid.SampledFrom([]string{"done", "retry", "release", "give back", "interrupted", "dead"}).Draw(rt, "outcome") {
	case "done":
		return end(j.claimed, pawl.Done{})
	case "retry":
		settlement := end(j.claimed, pawl.Retry{After: after()})
		settlement.Record = record(j.attempt)
		return settlement
	case "release":
		return end(j.claimed, pawl.Release{After: after()})
	case "give back":
		return end(j.claimed, pawl.GiveBack{})
	case "interrupted":
		return end(j.claimed, pawl.GiveBack{Interrupted: true})
	}
	return r.death(j.claimed)
}

func (r *modelRun) settleStale(rt *rapid.T) {
	if len(r.model.stale) == 0 {
		rt.Skip("no old reservation")
	}
	old := r.model.stale[rapid.IntRange(0, len(r.model.stale)-1).Draw(rt, "reservation")]
	settlement := rapid.SampledFrom([]pawl.Settlement{
		end(old.job, pawl.Done{}), end(old.job, pawl.Retry{}), end(old.job, pawl.GiveBack{}), r.death(old.job),
	}).Draw(rt, "settlement")
	errs, err := r.store.Settle(r.ctx, old.session, []pawl.Settlement{settlement})
	r.failsOne("settle an old reservation", errs, err, pawl.ErrLeaseLost)
}

func (r *modelRun) hour(rt *rapid.T) {
	if r.model.now >= modelHours*time.Hour {
		rt.Skip("hours enough")
	}
	r.pass(time.Hour)
	r.model.now += time.Hour
}

func (r *modelRun) sweepAll() {
	if len(r.model.sessions) == 0 {
		r.open()
	}
	r.equal("due", r.sweep(r.model.sessions[0].id).Due, r.model.sweep())
}

// hostDies kills a session. What a host only buries, since it was started before, is buried first: whether that is a
// run which a crash takes down the contract does not say.
func (r *modelRun) hostDies(rt *rapid.T) {
	victim := r.session(rt)
	i := slices.IndexFunc(r.model.sessions, func(s *modelSession) bool { return s != victim })
	if i < 0 {
		rt.Skip("no observer")
	}
	observer := r.model.sessions[i]
	for _, j := range r.model.held(victim) {
		if j.claimed.Started {
			r.settle(victim.id, end(j.claimed, pawl.Done{}))
			r.model.settle(j, pawl.Done{}, pawl.ID{})
			r.model.give()
		}
	}
	r.sweepAll() // what is due joins the queue before
	held := len(slices.DeleteFunc(r.model.held(victim), func(j *modelJob) bool { return j.cancel }))
	r.model.die(victim)
	report := r.sweep(observer.id, r.see(observer.id, victim.id))
	r.equal("ended", report.Ended, []pawl.SessionID{victim.id})
	r.equal("recovered", report.Recovered, held)
}

func (r *modelRun) closeOne(rt *rapid.T) {
	s := r.session(rt)
	r.closeSession(s.id)
	r.model.leave(s)
}

func (r *modelRun) switchOne(rt *rapid.T) {
	kind := rapid.SampledFrom([]string{workKind, otherKind}).Draw(rt, "kind")
	r.model.off[kind] = !r.model.off[kind]
	r.switchKind(kind, !r.model.off[kind])
}

func (r *modelRun) pauseOne(rt *rapid.T) {
	queue := rapid.SampledFrom([]string{critical, normal, bulk}).Draw(rt, "queue")
	r.model.paused[queue] = !r.model.paused[queue]
	r.pauseQueue(queue, r.model.paused[queue])
}

func (r *modelRun) clearOne(rt *rapid.T) {
	queue := rapid.SampledFrom([]string{critical, normal, bulk}).Draw(rt, "queue")
	count, err := r.store.ClearQueue(r.ctx, queue, operator("model"))
	r.ok("clear queue", err)
	r.equal("removed", count, r.model.clear(queue))
}

func (r *modelRun) retryOne(rt *rapid.T) {
	j := r.draw(rt, "dead job", r.model.in(pawl.JobDead))
	letter := r.last[j.new.ID]
	err := r.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionRetry, Push: r.pushOf(letter, pawl.ActionRetry)})
	if r.model.holderOf(j.new.Unique.Key) != nil {
		r.fails("retry of a job whose key is held", err, pawl.ErrConflict)
		return
	}
	r.ok("retry", err)
	r.model.retry(j, r.model.letters[letter.ID])
}

// seen is what the check compares of each job.
type seen struct {
	State                      pawl.JobState
	Attempt, Crashes, Requeues int
}

// check compares every job and every letter with the model's.
func (r *modelRun) check(*rapid.T) {
	got, want := map[pawl.ID]seen{}, map[pawl.ID]seen{}
	for _, view := range r.jobs(pawl.JobFilter{}) {
		_, twice := got[view.ID]
		r.holds("a job is in one state", !twice)
		got[view.ID] = seen{view.State, view.Attempt, view.Crashes, view.Requeues}
	}
	for _, j := range r.model.jobs {
		s := seen{j.state, j.attempt, j.crashes, j.requeues}
		if !j.unfinished() { // of an ended job its end is what matters
			s.Crashes, s.Requeues = got[j.new.ID].Crashes, got[j.new.ID].Requeues
		}
		want[j.new.ID] = s
	}
	r.equal("jobs", got, want)
	letters := map[pawl.ID]modelLetter{}
	for _, letter := range r.fixture.letters(pawl.LetterFilter{}) {
		letters[letter.ID] = modelLetter{letter.Status, letter.Outcome}
	}
	r.equal("number of letters", len(letters), len(r.model.letters))
	for id, letter := range r.model.letters {
		r.holds(fmt.Sprintf("letter %s is %+v: %+v", id, *letter, letters[id]), letters[id] == *letter)
	}
}

// drain opens every gate and claims all that is left, in order.
func (r *modelRun) drain() {
	r.pass(10 * time.Hour)
	r.model.now += 10 * time.Hour
	for _, kind := range []string{workKind, otherKind} {
		r.model.off[kind] = false
		r.switchKind(kind, true)
	}
	for _, queue := range []string{critical, normal, bulk} {
		r.model.paused[queue] = false
		r.pauseQueue(queue, false)
	}
	for _, s := range slices.Clone(r.model.sessions) {
		r.closeSession(s.id)
		r.model.leave(s)
	}
	r.open()
	r.sweepAll()
	last := r.model.sessions[0]
	for rounds := 0; len(r.model.in(pawl.JobWaiting)) > 0; rounds++ {
		r.holds("whatever waits has its turn", rounds < 1000)
		all := request(last.id, 1000)
		all.Suspect = true
		r.claimAndCompare(last, all)
		r.check(nil)
		for _, j := range r.model.held(last) {
			r.settle(last.id, end(j.claimed, pawl.Done{}))
			r.model.settle(j, pawl.Done{}, pawl.ID{})
			r.model.give()
		}
	}
	r.check(nil)
}
