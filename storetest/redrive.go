package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A letter is run again as a new job (redrive) or under its old id (retry). The letter and the push are one
// transaction, and when the job ends the letter hears of it.
func redrivePromises() []promise {
	return []promise{
		{name: "the push and the letter's move are one", check: redriven},
		{name: "three redrives at the same time make one job", check: threeRedrives},
		{name: "success is written back and resolves the letter", check: redriveSucceeds},
		{name: "success is written back without history too", options: Options{NoHistory: true}, check: redriveSucceeds},
		{name: "another death is written back and linked both ways", check: redriveDiesAgain},
		{name: "only the newest of a lineage can be redriven", check: newestOfLineage},
		{name: "a redriven job that is cleared is cancelled, and its letter can be reopened", check: redriveCancelled},
		{name: "a push that a unique key keeps out is refused", check: redriveKeptOut},
		{name: "a push of a unique job takes the key again", check: redriveTakesKey},
		{name: "a retry goes back under its own id", check: retryKeepsID},
		{name: "a retry keeps its enqueue time", check: retryKeepsTime},
		{name: "a retry is refused while the job is there", check: retryRefused},
		{name: "a retried job's outcome is written back", check: retryOutcome},
		{name: "a reopened letter can be retried again, however its job ended", check: retryAgain},
		{name: "a redrive needs the job that it makes", check: redriveNeedsJob},
		{name: "a job that goes on elsewhere is named by its id", check: redriveElsewhere},
	}
}

// push is an envelope as a job on its way in.
func push(e pawl.Envelope) *pawl.NewJob {
	job := pawl.NewJobFrom(e)
	return &job
}

// pushOf is the job that a letter is redriven or retried as.
func (f *fixture) pushOf(letter pawl.DeadLetter, action pawl.Action) *pawl.NewJob {
	f.Helper()
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	f.ok("decode letter", err)
	if action == pawl.ActionRedrive {
		envelope.ID = pawl.NewID()
		envelope.Origin = pawl.Origin{Source: pawl.OriginRedrive, Ref: letter.ID.String()}
	}
	job := push(envelope)
	job.Letter = letter.ID
	return job
}

func (f *fixture) redrive(letter pawl.DeadLetter) pawl.ID {
	f.Helper()
	job := f.pushOf(letter, pawl.ActionRedrive)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, Push: job})
	return job.ID
}

func (f *fixture) retry(letter pawl.DeadLetter) {
	f.Helper()
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRetry, Push: f.pushOf(letter, pawl.ActionRetry)})
}

func is(err, target error) bool { return errors.Is(err, target) }

func redriven(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	job := f.pushOf(letter, pawl.ActionRedrive)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, By: pawl.By{Who: "grace", Door: "api"}, Push: job})
	got := f.letter(letter.ID)
	now := f.beat(session, pawl.Beat{}).Now
	f.holds("it was redriven just now", now.Sub(got.RedrivenAt).Abs() < patience)
	f.equal("since when", got.StatusAt, got.RedrivenAt)
	got.RedrivenAt, got.StatusAt = time.Time{}, letter.StatusAt
	want := letter
	want.Status, want.RedrivenBy, want.NewJobID, want.Outcome = pawl.StatusRedriven, "grace", job.ID, pawl.RedrivePending
	f.equal("letter", got, want)
	claimed := f.claimOne(session)
	f.equal("job", claimed.ID, job.ID)
	f.equal("letter of the job", claimed.Letter, letter.ID)
	f.equal("attempt", claimed.Attempt, 1)
	f.equal("history", claimed.History, []pawl.AttemptRecord(nil))
	f.equal("letter in the job's view", f.view(job.ID).Letter, letter.ID)
}

func threeRedrives(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	const callers = 3
	moves, answers, errs := make([]pawl.Move, callers), make([][]error, callers), make([]error, callers)
	for n := range callers {
		moves[n] = pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, By: operator("x"), Push: f.pushOf(letter, pawl.ActionRedrive)}
	}
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() { answers[n], errs[n] = f.store.MoveLetters(f.ctx, moves[n:n+1]) })
	}
	group.Wait()
	f.allOK("move letters", errs, nil)
	var winners []pawl.ID
	for n, answer := range answers {
		if answer[0] == nil {
			winners = append(winners, moves[n].Push.ID)
			continue
		}
		f.fails("a redrive that lost", answer[0], pawl.ErrAlreadyRedriven)
	}
	f.equal("winners", len(winners), 1)
	f.equal("new jobs", ids(f.claim(session, 9)), winners)
	f.equal("job that the letter names", f.letter(letter.ID).NewJobID, winners[0])
	f.equal("audit entries", len(f.audit(pawl.AuditFilter{Action: pawl.ActionRedrive})), 1)
}

func redriveSucceeds(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	id := f.redrive(letter)
	job := f.claimOne(session)
	f.settle(session, end(job, pawl.Retry{}))
	f.equal("outcome while it is retried", f.letter(letter.ID).Outcome, pawl.RedrivePending)
	f.sweep(session)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	got := f.letter(letter.ID)
	f.equal("outcome", got.Outcome, pawl.RedriveSucceeded)
	f.equal("status", got.Status, pawl.StatusResolved)
	f.equal("new job", got.NewJobID, id)
	entries := f.audit(pawl.AuditFilter{Subject: letter.ID.String(), Action: pawl.ActionOutcome})
	f.equal("audit entries", len(entries), 1)
	f.equal("from", entries[0].From, pawl.StatusRedriven.String())
	f.equal("to", entries[0].To, pawl.StatusResolved.String())
}

func redriveDiesAgain(f *fixture) {
	session := f.host("a", "mail")
	first := f.dead(session)
	f.redrive(first)
	second := f.die(session, f.claimOne(session))
	got := f.letter(first.ID)
	f.equal("outcome", got.Outcome, pawl.RedriveDiedAgain)
	f.equal("status", got.Status, pawl.StatusRedriven)
	f.equal("next letter", got.NextLetter, second.ID)
	f.equal("previous letter", second.Previous, first.ID)
	f.equal("status of the new letter", second.Status, pawl.StatusDead)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 2)
}

func newestOfLineage(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	var old []pawl.DeadLetter
	for range 3 {
		f.redrive(letter)
		old = append(old, letter)
		letter = f.die(session, f.claimOne(session))
	}
	for _, o := range old {
		f.fails("redrive an old one", f.tryMove(pawl.Move{Letter: o.ID, Action: pawl.ActionRedrive, Push: f.pushOf(o, pawl.ActionRedrive)}), pawl.ErrAlreadyRedriven)
	}
	f.claimNone("jobs pushed by refused moves", session)
	f.redrive(letter)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("status of the newest", f.letter(letter.ID).Status, pawl.StatusResolved)
}

func redriveCancelled(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	f.redrive(letter)
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	got := f.letter(letter.ID)
	f.equal("outcome", got.Outcome, pawl.RedriveCancelled)
	f.equal("status", got.Status, pawl.StatusRedriven)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionReopen})
	f.equal("status", f.letter(letter.ID).Status, pawl.StatusDead)
	f.redrive(letter)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("outcome", f.letter(letter.ID).Outcome, pawl.RedriveSucceeded)
}

func redriveKeptOut(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileUnfinished("k")
	letter := f.dead(session, key)
	holder := f.put(key)
	before := f.everything()
	for _, action := range []pawl.Action{pawl.ActionRedrive, pawl.ActionRetry} {
		f.fails(string(action), f.tryMove(pawl.Move{Letter: letter.ID, Action: action, Push: f.pushOf(letter, action)}), pawl.ErrConflict)
	}
	f.equal("jobs, letters and audit trail", f.everything(), before)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("state of the holder", f.view(holder).State, pawl.JobDone)
	f.redrive(letter)
}

// The period that began with the dead job itself does not keep its own redrive out.
func redriveTakesKey(f *fixture) {
	session := f.host("a")
	for _, key := range []pawl.Option{
		pawl.UniqueWhileWaiting("w"), pawl.UniqueWhileUnfinished("u"), pawl.UniqueFor("p", time.Hour),
	} {
		letter := f.dead(session, key)
		job := f.redrive(letter)
		f.duplicates("while the redriven job waits", job, key)
		f.settle(session, end(f.claimOne(session), pawl.Done{}))
	}
}

func retryKeepsID(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	f.retry(letter)
	got := f.letter(letter.ID)
	f.equal("status", got.Status, pawl.StatusRedriven)
	f.equal("new job", got.NewJobID, letter.JobID)
	job := f.claimOne(session)
	f.equal("job", job.ID, letter.JobID)
	f.equal("attempt", job.Attempt, 1)
	f.equal("letter of the job", job.Letter, letter.ID)
	f.same("envelope", job.Envelope, letter.Envelope)
	f.equal("open failures", f.letters(pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}), []pawl.DeadLetter(nil))
	f.repeats("an enqueue with this id", *f.pushOf(letter, pawl.ActionRetry))
}

func retryKeepsTime(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	job := f.pushOf(letter, pawl.ActionRetry)
	job.EnqueuedAt = letter.EnqueuedAt.Add(-time.Hour).Truncate(time.Millisecond)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRetry, Push: job})
	claimed := f.claimOne(session)
	f.holds("the enqueue time is the one that was given", claimed.EnqueuedAt.Equal(job.EnqueuedAt))
	f.holds("it became ready just now", claimed.ReadyAt.After(claimed.EnqueuedAt))
}

func retryRefused(f *fixture) {
	session := f.host("a")
	job := f.job()
	f.enqueue(job)
	letter := *f.letterOf(pawl.ClaimedJob{Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Envelope: job.Envelope})
	f.record(letter)
	before := f.everything()
	f.fails("retry", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionRetry, Push: f.pushOf(letter, pawl.ActionRetry)}), pawl.ErrConflict)
	f.equal("jobs, letters and audit trail", f.everything(), before)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.retry(letter)
	f.equal("job", f.claimOne(session).ID, job.ID)
}

func retryOutcome(f *fixture) {
	session := f.host("a")
	first := f.dead(session)
	f.retry(first)
	second := f.die(session, f.claimOne(session))
	got := f.letter(first.ID)
	f.equal("outcome of the first", got.Outcome, pawl.RedriveDiedAgain)
	f.equal("next letter", got.NextLetter, second.ID)
	f.equal("previous letter", second.Previous, first.ID)
	f.retry(second)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("outcome of the second", f.letter(second.ID).Outcome, pawl.RedriveSucceeded)
	f.equal("status of the second", f.letter(second.ID).Status, pawl.StatusResolved)
}

func retryAgain(f *fixture) {
	session := f.host("a")
	for name, finish := range map[string]func(){
		"done": func() { f.settle(session, end(f.claimOne(session), pawl.Done{})) },
		"removed": func() {
			_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
			f.ok("clear queue", err)
		},
	} {
		letter := f.dead(session)
		f.retry(letter)
		finish()
		f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionReopen})
		f.retry(letter)
		job := f.claimOne(session)
		f.equal("job that was "+name, job.ID, letter.JobID)
		f.settle(session, end(job, pawl.Done{}))
	}
}

func redriveNeedsJob(f *fixture) {
	letter := f.dead(f.host("a"))
	for _, action := range []pawl.Action{pawl.ActionRedrive, pawl.ActionRetry} {
		f.fails(string(action), f.tryMove(pawl.Move{Letter: letter.ID, Action: action}), pawl.ErrInvalid)
		f.fails(string(action), f.tryMove(pawl.Move{Letter: letter.ID, Action: action, Push: &pawl.NewJob{}}), pawl.ErrInvalid)
	}
	f.equal("letter", f.letter(letter.ID), letter)
}

func redriveElsewhere(f *fixture) {
	session := f.host("a")
	letter, id := f.dead(session), pawl.NewID()
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, NewJob: id})
	got := f.letter(letter.ID)
	f.equal("status", got.Status, pawl.StatusRedriven)
	f.equal("new job", got.NewJobID, id)
	f.equal("outcome", got.Outcome, pawl.RedrivePending)
	f.claimNone("jobs stored here", session)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionOutcome, Outcome: pawl.RedriveSucceeded})
	got = f.letter(letter.ID)
	f.equal("status", got.Status, pawl.StatusResolved)
	f.equal("outcome", got.Outcome, pawl.RedriveSucceeded)
	f.fails("an outcome after the first", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionOutcome, Outcome: pawl.RedriveDiedAgain}), pawl.ErrConflict)
}
