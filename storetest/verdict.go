package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

// A verdict is a death that was decided and could not be recorded. It waits on the job for whoever holds it next.
func verdictPromises() []promise {
	return []promise{
		{name: "a verdict keeps the reservation", check: verdictKeeps},
		{name: "the next holder finds the verdict, whole", check: verdictFound},
		{name: "the next holder buries the job from the verdict", check: verdictBuried},
		{name: "a verdict by an old reservation is refused and leaves none", check: staleVerdict},
		{name: "the latest verdict stands", check: verdictTwice},
		{name: "a verdict does not outlive the job", check: verdictEnds},
	}
}

func (f *fixture) condemn(session pawl.SessionID, settlement pawl.Settlement) {
	f.Helper()
	errs, err := f.store.Condemn(f.ctx, session, []pawl.Settlement{settlement})
	f.failsOne("condemn", errs, err, nil)
}

// fullLetter has something in every field.
func (f *fixture) fullLetter(job pawl.ClaimedJob) *pawl.DeadLetter {
	letter := f.letterOf(job)
	letter.SourceMessageID = "message-7"
	letter.Detail = "chain\nstack é \U0001F600\n\ttab"
	letter.Class, letter.Reason = pawl.DeathPoison, pawl.ReasonCrashLoop
	letter.CorrelationID, letter.Tags = "req-7", []string{"a", "b,c", `d"e`}
	letter.StartedAt = time.Date(2024, 5, 6, 7, 8, 9, 123e6, time.UTC)
	letter.History = []pawl.AttemptRecord{*record(1), *record(2)}
	letter.Previous = pawl.NewID()
	return letter
}

// sameLetter compares an open letter with what was recorded, but for the time of death, which is the store's, and the envelope, which may be
// left out where the store has it.
func (f *fixture) sameLetter(what string, got, want pawl.DeadLetter) {
	f.Helper()
	got.DeadAt, want.DeadAt, got.StatusAt, want.StatusAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if len(got.Envelope) == 0 || len(want.Envelope) == 0 {
		got.Envelope, want.Envelope = nil, nil
	}
	f.equal(what, got, want)
}

func verdictKeeps(f *fixture) {
	session := f.host("a")
	id := f.put()
	job := f.claimOne(session)
	f.condemn(session, f.death(job))
	f.equal("state", f.view(id).State, pawl.JobReserved)
	f.equal("lost", f.beat(session, pawl.Beat{Held: []pawl.Reservation{job.Reservation}}).Lost, []pawl.Reservation(nil))
	f.equal("letters", f.letters(pawl.LetterFilter{}), []pawl.DeadLetter(nil))
	f.die(session, job)
}

func verdictFound(f *fixture) {
	observer, victim, closing := f.host("observer"), f.host("victim"), f.host("closing")
	f.put()
	job := f.claimOne(victim)
	f.equal("verdict at the first claim", job.Verdict, (*pawl.DeadLetter)(nil))
	want := f.fullLetter(job)
	f.condemn(victim, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{Class: want.Class, Reason: want.Reason}, Letter: want})
	f.kill(observer, victim)
	for _, session := range []pawl.SessionID{closing, observer} { // it stays until the job is buried
		job = f.claimOne(session)
		f.holds("there is a verdict", job.Verdict != nil)
		f.sameLetter("verdict", *job.Verdict, *want)
		if session == closing {
			f.closeSession(closing)
		}
	}
}

func verdictBuried(f *fixture) {
	observer, victim := f.host("observer", "mail"), f.host("victim")
	f.put()
	job := f.claimOne(victim)
	want := f.fullLetter(job)
	f.condemn(victim, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{}, Letter: want})
	f.kill(observer, victim)
	job = f.claimOne(observer)
	f.settle(observer, pawl.Settlement{
		Reservation: job.Reservation, Outcome: pawl.Dead{Class: job.Verdict.Class, Reason: job.Verdict.Reason}, Letter: job.Verdict,
	})
	letter := f.letter(want.ID)
	f.sameLetter("letter", letter, *want)
	f.same("envelope", letter.Envelope, job.Envelope)
	f.equal("letters", len(f.letters(pawl.LetterFilter{})), 1)
	f.equal("alerts", len(f.claimAlerts(observer, "mail")), 1)
}

func staleVerdict(f *fixture) {
	session := f.host("a")
	f.put()
	old := f.claimOne(session)
	f.settle(session, end(old, pawl.GiveBack{}))
	job := f.claimOne(session)
	errs, err := f.store.Condemn(f.ctx, session, []pawl.Settlement{f.death(old)})
	f.failsOne("condemn", errs, err, pawl.ErrLeaseLost)
	f.settle(session, end(job, pawl.GiveBack{}))
	f.equal("verdict", f.claimOne(session).Verdict, (*pawl.DeadLetter)(nil))
}

func verdictTwice(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	f.condemn(session, f.death(job))
	second := f.death(job)
	second.Letter.Message = "second"
	f.condemn(session, second)
	f.settle(session, end(job, pawl.GiveBack{}))
	f.equal("message", f.claimOne(session).Verdict.Message, "second")
}

func verdictEnds(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	f.condemn(session, f.death(job))
	f.retry(f.die(session, job))
	f.equal("verdict of the job retried under its id", f.claimOne(session).Verdict, (*pawl.DeadLetter)(nil))
}
