package storetest

import (
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// A death is recorded once, before its job is gone: letter, alert rows and removal are one transaction.
func deathPromises() []promise {
	return []promise{
		{name: "letter, alerts and removal come together", check: deathIsOne},
		{name: "a refused death leaves no letter and no alert", check: refusedDeath},
		{name: "every field of a letter comes back", check: letterFields},
		{name: "the time of death is the store's", check: deathTime},
		{name: "recording a death again changes nothing", check: recordAgain},
		{name: "settling a death that is recorded already removes the job", check: settleRecorded},
		{name: "letters of one batch are recorded one by one", check: recordBatch},
		{name: "enormous evidence and odd text are kept as given", check: bigEvidence},
		{name: "many deaths settle in one call", check: manyDeaths},
		{name: "the same job's second death is a second record", check: secondDeath},
		{name: "a death without a job is recorded", check: deathWithoutJob},
	}
}

func deathIsOne(f *fixture) {
	session := f.host("a", "mail", "hook")
	id := f.put()
	letter := f.die(session, f.claimOne(session))
	f.equal("status", letter.Status, pawl.StatusDead)
	f.equal("job", letter.JobID, id)
	f.equal("state", f.view(id).State, pawl.JobDead)
	f.claimNone("the dead job", session)
	for _, sink := range []string{"mail", "hook"} {
		tasks := f.claimAlerts(session, sink)
		f.equal("alerts", len(tasks), 1)
		f.equal("letter of the alert", tasks[0].Letters[0].ID, letter.ID)
	}
}

func refusedDeath(f *fixture) {
	session := f.host("a", "mail")
	f.put()
	old := f.claimOne(session)
	f.settle(session, end(old, pawl.GiveBack{}))
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{f.death(old)})
	f.failsOne("settle", errs, err, pawl.ErrLeaseLost)
	f.equal("letters", f.letters(pawl.LetterFilter{}), []pawl.DeadLetter(nil))
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 0)
}

func letterFields(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	want := f.fullLetter(job)
	f.settle(session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{Class: want.Class, Reason: want.Reason}, Letter: want})
	got := f.letter(want.ID)
	f.sameLetter("letter", got, *want)
	f.same("envelope", got.Envelope, job.Envelope)
	for name, at := range map[string]time.Time{"enqueued": got.EnqueuedAt, "started": got.StartedAt, "dead": got.DeadAt} {
		f.equal("zone of "+name, at.Location().String(), "UTC")
	}
	f.equal("listed", letterIDs(f.letters(pawl.LetterFilter{})), []pawl.ID{want.ID})
	_, err := f.store.Letter(f.ctx, pawl.NewID())
	f.fails("a letter that is not there", err, pawl.ErrNotFound)
}

func deathTime(f *fixture) {
	session := f.host("a")
	f.put()
	settlement := f.death(f.claimOne(session))
	settlement.Letter.DeadAt = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	f.settle(session, settlement)
	now := f.beat(session, pawl.Beat{}).Now
	f.holds("it died just now", now.Sub(f.letter(settlement.Letter.ID).DeadAt).Abs() < patience)
}

// looseLetter is a death elsewhere, such as on a store without a database of its own.
func (f *fixture) looseLetter(changes ...func(*pawl.DeadLetter)) pawl.DeadLetter {
	job := f.job()
	letter := *f.letterOf(pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID, Token: 7}, Kind: job.Kind, Queue: job.Queue, Attempt: 6, Envelope: job.Envelope,
		EnqueuedAt: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), ReadyAt: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC),
	})
	for _, change := range changes {
		change(&letter)
	}
	return letter
}

func (f *fixture) record(letters ...pawl.DeadLetter) []pawl.Recorded {
	f.Helper()
	recorded, err := f.store.RecordDeaths(f.ctx, letters)
	f.ok("record deaths", err)
	f.equal("results", len(recorded), len(letters))
	return recorded
}

func recordAgain(f *fixture) {
	session := f.host("a", "mail")
	letter := f.looseLetter()
	f.equal("first", f.record(letter), []pawl.Recorded{{ID: letter.ID, New: true}})
	first := f.letter(letter.ID)
	f.sameLetter("letter", first, letter)
	again := letter
	again.Message, again.Host, again.Status = "other", "other", pawl.StatusResolved
	f.equal("again", f.record(again), []pawl.Recorded{{ID: letter.ID}})
	f.equal("letter", f.letter(letter.ID), first)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 1)
}

func settleRecorded(f *fixture) {
	session := f.host("a", "mail")
	id := f.put()
	settlement := f.death(f.claimOne(session))
	f.record(*settlement.Letter)
	first := f.letter(settlement.Letter.ID)
	settlement.Letter.Message = "other"
	f.settle(session, settlement)
	f.equal("letter", f.letter(settlement.Letter.ID), first)
	f.equal("state", f.view(id).State, pawl.JobDead)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 1)
}

func recordBatch(f *fixture) {
	session := f.host("a", "mail")
	known := f.looseLetter()
	f.record(known)
	fresh, twice := f.looseLetter(), f.looseLetter()
	f.equal("recorded", f.record(known, fresh, twice, twice), []pawl.Recorded{
		{ID: known.ID}, {ID: fresh.ID, New: true}, {ID: twice.ID, New: true}, {ID: twice.ID},
	})
	f.equal("letters", len(f.letters(pawl.LetterFilter{})), 3)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 3)
}

// What a host hands in has been through pawl.NewEvidence, which makes it storable.
func bigEvidence(f *fixture) {
	letter := f.looseLetter(func(l *pawl.DeadLetter) {
		l.Message = strings.Repeat("é", 4000)
		l.Detail = strings.Repeat("line\n", (64<<10)/5)
		l.ExceptionType = `*pkg.Error[github.com/x/y."z"]`
		l.Tags = nil
	})
	f.record(letter)
	f.sameLetter("letter", f.letter(letter.ID), letter)
}

func manyDeaths(f *fixture) {
	const n = 300
	session := f.host("a", "mail")
	f.puts(n)
	var settlements []pawl.Settlement
	for _, job := range f.claimExactly(session, n) {
		settlements = append(settlements, f.death(job))
	}
	f.settle(session, settlements...)
	f.equal("letters", len(f.letters(pawl.LetterFilter{})), n)
	sinks, err := f.store.Sinks(f.ctx)
	f.ok("sinks", err)
	f.equal("alerts", sinks[0].Pending, n)
}

func secondDeath(f *fixture) {
	session := f.host("a", "mail")
	first := f.dead(session)
	f.retry(first)
	second := f.die(session, f.claimOne(session))
	f.equal("job", second.JobID, first.JobID)
	f.holds("the record is another", second.ID != first.ID)
	f.equal("letters of the job", len(f.letters(pawl.LetterFilter{JobID: first.JobID})), 2)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 2)
	f.sameLetter("evidence of the first", evidence(f.letter(first.ID)), evidence(first))
}

// evidence is a letter without what operations change.
func evidence(l pawl.DeadLetter) pawl.DeadLetter {
	l.Status, l.RedrivenBy, l.RedrivenAt, l.NewJobID, l.Outcome, l.NextLetter, l.Note = 0, "", time.Time{}, pawl.ID{}, "", pawl.ID{}, ""
	l.StatusAt = time.Time{}
	return l
}

func deathWithoutJob(f *fixture) {
	letter := f.looseLetter(func(l *pawl.DeadLetter) {
		l.JobID, l.SourceMessageID, l.EnqueuedAt, l.StartedAt = pawl.ID{}, "message-9", time.Time{}, time.Time{}
		l.Kind, l.Envelope = pawl.UndecodableKind, []byte("\x00not an envelope\xff")
	})
	f.record(letter)
	got := f.letter(letter.ID)
	f.sameLetter("letter", got, letter)
	f.same("envelope", got.Envelope, letter.Envelope)
}
