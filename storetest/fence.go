package storetest

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// The token is the fence of a reservation. Once the reservation has ended, whatever its old holder says is refused
// with ErrLeaseLost and changes nothing.
func fencePromises() []promise {
	out := []promise{
		{name: "tokens never repeat", check: tokensNeverRepeat},
		{name: "tokens never repeat over a reopened store", check: tokensNeverRepeatElsewhere},
		{name: "a made-up reservation is refused", check: madeUp},
		{name: "a reservation is its session's alone", check: foreignSession},
		{name: "an ended session's reservations are refused", check: endedSession},
	}
	for name, lose := range losses() {
		out = append(out, promise{name: "an old token is refused by every verb, " + name, check: func(f *fixture) { refusedByAll(f, lose) }})
	}
	return out
}

// losses are the ways in which a host's reservation passes from it, while the host still believes to hold it. Each
// leaves the job reserved by somebody else, waiting, or ended.
func losses() map[string]func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) {
	type losing = func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob)
	settled := func(outcome pawl.Outcome) losing {
		return func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) { f.settle(holder, end(job, outcome)) }
	}
	again := func(lose losing) losing {
		return func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) {
			lose(f, holder, job)
			f.sweep(holder)
			f.equal("job claimed again", f.claimOne(holder).ID, job.ID)
		}
	}
	return map[string]losing{
		"the job given back":               settled(pawl.GiveBack{}),
		"given back and claimed again":     again(settled(pawl.GiveBack{})),
		"the job waiting for a retry":      settled(pawl.Retry{After: time.Hour}),
		"retried and claimed again":        again(settled(pawl.Retry{})),
		"released and claimed again":       again(settled(pawl.Release{})),
		"the job done":                     settled(pawl.Done{}),
		"the job dead":                     func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) { f.die(holder, job) },
		"retried under its id and claimed": retriedUnderItsID,
		"recovered and claimed by another": func(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) {
			observer := f.host("observer")
			f.kill(observer, holder)
			f.equal("recovered job", f.claimOne(observer).ID, job.ID)
		},
		"the queue cleared": func(f *fixture, _ pawl.SessionID, _ pawl.ClaimedJob) {
			_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
			f.ok("clear queue", err)
		},
	}
}

func retriedUnderItsID(f *fixture, holder pawl.SessionID, job pawl.ClaimedJob) {
	letter := f.die(holder, job)
	f.retry(letter)
	f.equal("retried job", f.claimOne(holder).ID, job.ID)
}

func refusedByAll(f *fixture, lose func(*fixture, pawl.SessionID, pawl.ClaimedJob)) {
	session := f.host("zombie", "mail")
	f.put(pawl.MaxTries(1))
	job := f.claimOne(session)
	lose(f, session, job)
	before := f.everything()
	f.refusesAll(session, job)
	if !f.ended(session) {
		reply := f.beat(session, pawl.Beat{
			Held:     []pawl.Reservation{job.Reservation},
			Progress: []pawl.Progress{{Reservation: job.Reservation, Percent: 50, Note: "half"}},
		})
		f.equal("lost by the beat's reply", reply.Lost, []pawl.Reservation{job.Reservation})
	}
	f.equal("jobs, letters and audit trail", f.everything(), before)
}

func (f *fixture) ended(session pawl.SessionID) bool {
	f.Helper()
	hosts, err := f.store.Hosts(f.ctx)
	f.ok("hosts", err)
	for _, host := range hosts {
		if host.Session == session {
			return false
		}
	}
	return true
}

// refusesAll hands a reservation that has passed on to every verb with every outcome.
func (f *fixture) refusesAll(session pawl.SessionID, job pawl.ClaimedJob) {
	f.Helper()
	errs, err := f.store.Start(f.ctx, session, []pawl.Reservation{job.Reservation})
	f.failsOne("start", errs, err, pawl.ErrLeaseLost)
	errs, err = f.store.Condemn(f.ctx, session, []pawl.Settlement{f.death(job)})
	f.failsOne("condemn", errs, err, pawl.ErrLeaseLost)
	settlements := []pawl.Settlement{f.death(job)}
	for _, outcome := range []pawl.Outcome{
		pawl.Done{}, pawl.Retry{}, pawl.Retry{After: time.Hour}, pawl.Release{}, pawl.GiveBack{}, pawl.GiveBack{Interrupted: true},
	} {
		settlement := end(job, outcome)
		settlement.Enqueue = []pawl.NewJob{f.job()}
		settlement.Record = &pawl.AttemptRecord{Attempt: 1, Ending: pawl.EndReturned}
		settlements = append(settlements, settlement)
	}
	for _, settlement := range settlements {
		errs, err = f.store.Settle(f.ctx, session, []pawl.Settlement{settlement})
		f.failsOne(fmt.Sprintf("settle %T", settlement.Outcome), errs, err, pawl.ErrLeaseLost)
	}
}

// tokenWatch fails when a token comes twice.
type tokenWatch struct {
	*fixture
	seen map[pawl.Token]bool
}

func (w tokenWatch) take(f *fixture, session pawl.SessionID) pawl.ClaimedJob {
	w.Helper()
	f.sweep(session)
	job := f.claimOne(session)
	w.holds("the token is new and not 0", job.Token != 0 && !w.seen[job.Token])
	w.seen[job.Token] = true
	return job
}

func tokensNeverRepeat(f *fixture) {
	w := tokenWatch{f, map[pawl.Token]bool{}}
	session, victim := f.host("a"), f.host("b")
	f.put()
	for _, outcome := range []pawl.Outcome{pawl.GiveBack{}, pawl.Retry{}, pawl.Release{}, pawl.GiveBack{Interrupted: true}} {
		f.settle(session, end(w.take(f, session), outcome))
	}
	w.take(f, victim)
	f.kill(session, victim)
	letter := f.die(session, w.take(f, session))
	f.retry(letter)
	f.settle(session, end(w.take(f, session), pawl.Done{}))
	for range 5 {
		f.put()
		f.settle(session, end(w.take(f, session), pawl.Done{}))
	}
}

func tokensNeverRepeatElsewhere(f *fixture) {
	w := tokenWatch{f, map[pawl.Token]bool{}}
	f.put()
	session := f.host("a")
	f.settle(session, end(w.take(f, session), pawl.GiveBack{}))
	for range 3 {
		other := f.elsewhere()
		elsewhere := other.host("b")
		other.settle(elsewhere, end(w.take(other, elsewhere), pawl.GiveBack{}))
		f.settle(session, end(w.take(f, session), pawl.GiveBack{}))
	}
}

func madeUp(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	before := f.everything()
	for _, reservation := range []pawl.Reservation{
		{ID: job.ID, Token: job.Token + 1}, {ID: job.ID}, {ID: job.ID, Token: -job.Token}, {ID: pawl.NewID(), Token: job.Token}, {},
	} {
		stranger := job
		stranger.Reservation = reservation
		f.refusesAll(session, stranger)
	}
	f.equal("jobs, letters and audit trail", f.everything(), before)
	f.settle(session, end(job, pawl.Done{}))
}

// The contract names the reservation as the fence; that a session may not end another's is the natural reading of
// "no longer its caller's".
func foreignSession(f *fixture) {
	session, other := f.host("a"), f.host("b")
	f.put()
	job := f.claimOne(session)
	before := f.everything()
	f.refusesAll(other, job)
	f.equal("lost", f.beat(other, pawl.Beat{Held: []pawl.Reservation{job.Reservation}}).Lost, []pawl.Reservation{job.Reservation})
	f.equal("jobs, letters and audit trail", f.everything(), before)
	f.settle(session, end(job, pawl.Done{}))
}

// The refusal is each reservation's own, also when the session has ended.
func endedSession(f *fixture) {
	session, closing := f.host("a"), f.host("b")
	f.put()
	job := f.claimOne(closing)
	f.closeSession(closing)
	f.refusesAll(closing, job)
	f.equal("job", f.claimOne(session).ID, job.ID)
	f.refusesAll(closing, job)
}
