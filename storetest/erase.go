package storetest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/pawljobs/pawl"
)

// What a person's jobs carried is erased; that there were such jobs stays.
func erasePromises() []promise {
	return []promise{
		{name: "a request must pick something, and say who acts", check: eraseChecked},
		{name: "args are erased from history and letters, and the rest stays", check: erased},
		{name: "texts are erased where that is asked, also later", check: erasedTexts},
		{name: "ids, correlation id, tag, kind and text pick, all together", check: erasedBy},
		{name: "what is erased cannot run again", check: erasedNotRun},
		{name: "what has not ended is left, or removed where that is asked", check: erasedUnfinished},
		{name: "a dry run changes nothing, nor does another number than was expected", check: erasedDry},
		{name: "an erase is one line in the trail, which does not say what was looked for", check: eraseAudited},
		{name: "what several erase at once is counted by one", check: erasedAtOnce},
		{name: "what does not decode is erased too", check: erasedUndecodable},
		{name: "an erased job holds its key no more", check: erasedKey},
	}
}

const secret = `{"name":"Ada Person","n":3889108265204450030}`

func (f *fixture) erase(e pawl.Erase) pawl.Erased {
	f.Helper()
	if e.By.Who == "" {
		e.By = operator("request 7")
	}
	done, err := f.store.EraseArgs(f.ctx, e)
	f.ok("erase", err)
	done.Residue = ""
	return done
}

// person makes a job of hers that is done, and one that died, which is its letter's.
func (f *fixture) person(session pawl.SessionID, options ...pawl.Option) (done pawl.ID, dead pawl.DeadLetter) {
	f.Helper()
	options = append([]pawl.Option{pawl.CorrelationID("request-1"), pawl.Tags("ada")}, options...)
	first := f.jobOf(workKind, pawl.Policy{}, secret, options...)
	f.enqueue(first)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.enqueue(f.jobOf(workKind, pawl.Policy{}, secret, options...))
	return first.ID, f.die(session, f.claimOne(session))
}

func (f *fixture) isErased(what string, stored []byte) {
	f.Helper()
	e, err := pawl.DecodeEnvelope(stored)
	f.ok(what, err)
	f.holds(what+" is erased", !e.Erased.IsZero() && len(e.Args) == 0 && !bytes.Contains(stored, []byte("Ada")))
}

func eraseChecked(f *fixture) {
	session := f.host("a")
	f.person(session)
	before := f.everything()
	for name, e := range map[string]pawl.Erase{
		"nothing": {By: operator("")}, "nobody": {Tag: "ada"}, "a zero id": {IDs: []pawl.ID{{}}, By: operator("")},
		"many ids": {IDs: make([]pawl.ID, pawl.MaxErase+1), By: operator("")}, "a bad text": {Text: "\x00", By: operator("")},
		"a negative number": {Tag: "ada", Expect: -1, By: operator("")},
	} {
		_, err := f.store.EraseArgs(f.ctx, e)
		f.fails(name, err, pawl.ErrInvalid)
	}
	f.equal("all that there was", f.everything(), before)
}

func erased(f *fixture) {
	session := f.host("a")
	done, letter := f.person(session)
	f.enqueue(f.job())
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	before := f.letter(letter.ID)
	got := f.erase(pawl.Erase{Tag: "ada"})
	f.equal("sample", len(got.Sample), 3)
	got.Sample = nil
	f.equal("counts", got, pawl.Erased{Letters: 1, History: 2})
	after := f.letter(letter.ID)
	f.isErased("the letter", after.Envelope)
	f.isErased("the finished job", f.view(done).Envelope)
	f.isErased("the dead job", f.view(letter.JobID).Envelope)
	f.holds("the letter says when", after.ErasedAt.Sub(after.DeadAt).Abs() < patience)
	f.equal("listed", f.letters(pawl.LetterFilter{})[0].ErasedAt, after.ErasedAt)
	after.Envelope, after.ErasedAt, before.Envelope = nil, before.ErasedAt, nil
	f.equal("the rest of the letter", after, before)
	again := f.erase(pawl.Erase{Tag: "ada"})
	f.equal("again", again, pawl.Erased{Before: 3})
	f.equal("by what is not there any more", f.erase(pawl.Erase{Text: "Person"}), pawl.Erased{})
}

func erasedTexts(f *fixture) {
	session := f.host("a")
	f.enqueue(f.jobOf(workKind, pawl.Policy{}, secret, pawl.Tags("ada")))
	job := f.claimOne(session)
	letter := f.fullLetter(job)
	letter.Message, letter.Detail = "no mailbox for Ada", "stack of Ada"
	letter.History = []pawl.AttemptRecord{{Attempt: 1, Type: "*t", Message: "Ada again"}}
	f.settle(session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{Class: letter.Class, Reason: letter.Reason}, Letter: letter})
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionNote, Note: "Ada called"})
	f.erase(pawl.Erase{IDs: []pawl.ID{letter.ID}})
	f.equal("message", f.letter(letter.ID).Message, "no mailbox for Ada")
	got := f.erase(pawl.Erase{IDs: []pawl.ID{letter.ID}, Texts: true})
	f.equal("letters", got.Letters, 1)
	after := f.letter(letter.ID)
	f.equal("texts", [4]string{after.Message, after.Detail, after.Note, after.History[0].Message}, [4]string{"(erased)", "", "", "(erased)"})
	f.equal("tags", after.Tags, []string(nil))
	f.equal("types", [2]string{after.ExceptionType, after.History[0].Type}, [2]string{letter.ExceptionType, "*t"})
	f.equal("by tag", f.erase(pawl.Erase{Tag: "ada"}).All(), 0)
	f.equal("once more", f.erase(pawl.Erase{IDs: []pawl.ID{letter.ID}, Texts: true}).All(), 0)
}

func erasedBy(f *fixture) {
	session := f.host("a")
	done, letter := f.person(session)
	for name, c := range map[string]struct {
		e    pawl.Erase
		want int
	}{
		"a job":                {pawl.Erase{IDs: []pawl.ID{done}}, 1},
		"a letter":             {pawl.Erase{IDs: []pawl.ID{letter.ID}}, 2},
		"a dead job":           {pawl.Erase{IDs: []pawl.ID{letter.JobID}}, 2},
		"no such id":           {pawl.Erase{IDs: []pawl.ID{pawl.NewID()}}, 0},
		"correlation id":       {pawl.Erase{CorrelationID: "request-1"}, 3},
		"tag":                  {pawl.Erase{Tag: "ada"}, 3},
		"part of a tag":        {pawl.Erase{Tag: "ad"}, 0},
		"kind":                 {pawl.Erase{Kind: workKind}, 3},
		"kind and another tag": {pawl.Erase{Kind: workKind, Tag: "eve"}, 0},
		"text":                 {pawl.Erase{Text: "ada person"}, 3},
		"number":               {pawl.Erase{Text: "3889108265204450030"}, 3},
		"text of the envelope": {pawl.Erase{Text: normal}, 0},
	} {
		c.e.DryRun = true
		f.equal(name, f.erase(c.e).All(), c.want)
	}
	f.enqueue(f.jobOf(workKind, pawl.Policy{}, `{"name":"\u0041d\u0061"}`))
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("a text that is written with escapes", f.erase(pawl.Erase{Text: "ada", DryRun: true}).All(), 4)
}

func erasedNotRun(f *fixture) {
	session := f.host("a")
	_, letter := f.person(session)
	push := f.pushOf(letter, pawl.ActionRedrive)
	f.erase(pawl.Erase{IDs: []pawl.ID{letter.ID}})
	for _, m := range []pawl.Move{
		{Letter: letter.ID, Action: pawl.ActionRedrive, Push: push}, {Letter: letter.ID, Action: pawl.ActionRetry, NewJob: letter.JobID},
	} {
		err := f.tryMove(m)
		f.fails(string(m.Action), err, pawl.ErrRedriveRefused)
		f.holds("the refusal says why", strings.Contains(err.Error(), "erased"))
	}
	f.claimNone("a job that was refused", session)
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionResolve})
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionReopen})
}

func erasedUnfinished(f *fixture) {
	session := f.host("a")
	running := f.jobOf(workKind, pawl.Policy{}, secret)
	f.enqueue(running)
	job := f.claimOne(session)
	waiting, scheduled := f.jobOf(workKind, pawl.Policy{}, secret), f.jobOf(workKind, pawl.Policy{}, secret, pawl.Delay(1e12))
	f.enqueue(waiting, scheduled)
	f.equal("left", f.erase(pawl.Erase{Text: "Person"}), pawl.Erased{Left: 3})
	f.equal("waiting", f.view(waiting.ID).State, pawl.JobWaiting)
	got := f.erase(pawl.Erase{Text: "Person", Unfinished: true})
	f.equal("sample", len(got.Sample), 3)
	got.Sample = nil
	f.equal("removed", got, pawl.Erased{Removed: 2, Stopping: 1})
	for _, id := range []pawl.ID{waiting.ID, scheduled.ID} {
		f.equal("state", f.view(id).State, pawl.JobRemoved)
		f.isErased("a removed job", f.view(id).Envelope)
	}
	f.settle(session, end(job, pawl.Retry{}))
	f.equal("when it has stopped", f.erase(pawl.Erase{Text: "Person", Unfinished: true}).History, 1)
	f.isErased("the one that ran", f.view(running.ID).Envelope)
}

func erasedDry(f *fixture) {
	session := f.host("a")
	f.person(session)
	before := f.everything()
	f.equal("dry run", f.erase(pawl.Erase{Tag: "ada", DryRun: true}).All(), 3)
	_, err := f.store.EraseArgs(f.ctx, pawl.Erase{Tag: "ada", Expect: 2, By: operator("")})
	f.fails("another number", err, pawl.ErrConflict)
	f.equal("all that there was", f.everything(), before)
	f.equal("the number", f.erase(pawl.Erase{Tag: "ada", Expect: 3}).All(), 3)
}

func eraseAudited(f *fixture) {
	session := f.host("a")
	f.person(session)
	f.erase(pawl.Erase{Tag: "ada", Text: "Person", Kind: workKind})
	entries := f.audit(pawl.AuditFilter{Action: pawl.ActionErase})
	f.equal("entries", len(entries), 1)
	e := entries[0]
	f.equal("who", [2]string{e.Who, e.Why}, [2]string{"ada", "request 7"})
	f.equal("what", [4]string{e.Subject, e.From, e.To, e.Outcome}, [4]string{
		"args", "by kind " + workKind + ", a tag, a text", "erased",
		"letters 1, finished jobs 2, removed 0, stopping 0, left 0, erased before 0",
	})
}

func erasedUndecodable(f *fixture) {
	letter := f.looseLetter(func(l *pawl.DeadLetter) { l.Envelope = []byte(`no envelope of Ada Person`) })
	none := f.looseLetter(func(l *pawl.DeadLetter) {
		l.JobID, l.Kind, l.Envelope = pawl.ID{}, pawl.UndecodableKind, []byte("Ada Person")
	})
	f.record(letter, none)
	f.equal("letters", f.erase(pawl.Erase{Text: "ada person"}).Letters, 2)
	f.isErased("the first", f.letter(letter.ID).Envelope)
	f.equal("the second", f.letter(none.ID).Envelope, []byte(nil))
	f.holds("it says so", !f.letter(none.ID).ErasedAt.IsZero())
}

func erasedKey(f *fixture) {
	session := f.host("a")
	key := pawl.UniqueFor("key of ada", 1e15)
	f.enqueue(f.jobOf(workKind, pawl.Policy{}, secret, key))
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.erase(pawl.Erase{Text: "Person"})
	f.enqueue(f.jobOf(workKind, pawl.Policy{}, `{}`, key))
	f.claimOne(session)
}

func erasedAtOnce(f *fixture) {
	const each, erasers = 30, 4
	session, other := f.host("a"), f.elsewhere()
	for _, texts := range []bool{false, true} {
		for range each {
			f.person(session)
		}
		counts := make([]pawl.Erased, erasers)
		errs := make([]error, erasers)
		var group sync.WaitGroup
		for i := range erasers {
			s := []Store{f.store, other.store}[i%2]
			group.Go(func() {
				counts[i], errs[i] = s.EraseArgs(f.ctx, pawl.Erase{Kind: workKind, Texts: texts, By: operator("request 7")})
			})
		}
		group.Wait()
		f.allOK("erase", errs, nil)
		var sum pawl.Erased
		for _, one := range counts {
			sum.Letters, sum.History = sum.Letters+one.Letters, sum.History+one.History
		}
		want := each
		if texts {
			want = 2 * each // the texts of those before too
		}
		f.equal("counted", sum, pawl.Erased{Letters: want, History: 2 * want}) // dead jobs are history too
	}
}
