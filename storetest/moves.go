package storetest

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// A letter's evidence never changes; its status does, by moves, each of which is in the audit trail.
func movePromises() []promise {
	return []promise{
		{name: "every move is allowed or refused as Move.Allowed says", check: movesAllowed},
		{name: "every move is in the audit trail", check: movesAudited},
		{name: "a refused move is no entry and changes nothing", check: refusedMove},
		{name: "a note replaces the one before unless it is empty", check: notes},
		{name: "one refused move does not stop the others", check: moveBatch},
		{name: "evidence is untouched by moves", check: movesKeepEvidence},
		{name: "forgetting removes the letter only", check: forget},
		{name: "a note changes nothing else, and may be put on any letter", check: notesPut},
		{name: "forgetting is audited, and false when there was none", check: forgetAudited},
		{name: "the audit trail is listed newest first, by filter and page", check: auditListed},
	}
}

func operator(why string) pawl.By { return pawl.By{Who: "ada", Door: "cli", Why: why} }

// move makes one move, which must be allowed.
func (f *fixture) move(m pawl.Move) {
	f.Helper()
	f.ok(string(m.Action)+" "+m.Letter.String(), f.tryMove(m))
}

func (f *fixture) tryMove(m pawl.Move) error {
	f.Helper()
	if m.By.Who == "" {
		m.By = operator("test")
	}
	errs, err := f.store.MoveLetters(f.ctx, []pawl.Move{m})
	f.ok("move letters", err)
	f.equal("results", len(errs), 1)
	return errs[0]
}

// letterIn makes a letter in a state, by the moves that lead there.
func (f *fixture) letterIn(session pawl.SessionID, state string) pawl.DeadLetter {
	f.Helper()
	letter := f.dead(session)
	switch state {
	case "resolved":
		f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionResolve})
	case "discarded":
		f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionDiscard})
	case "pending":
		f.redrive(letter)
	case "succeeded":
		f.redrive(letter)
		f.settle(session, end(f.claimOne(session), pawl.Done{}))
	case "died again":
		f.redrive(letter)
		f.die(session, f.claimOne(session))
	case "cancelled":
		f.redrive(letter)
		_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
		f.ok("clear queue", err)
	}
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clean up")) // a pending redrive's job would be claimed by others
	f.ok("clear queue", err)
	return f.letter(letter.ID)
}

func movesAllowed(f *fixture) {
	session := f.host("a")
	for _, state := range []string{"dead", "resolved", "discarded", "succeeded", "died again", "cancelled"} {
		for _, action := range []pawl.Action{
			pawl.ActionRedrive, pawl.ActionRetry, pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen,
		} {
			letter := f.letterIn(session, state)
			f.moveAllowed(fmt.Sprintf("%s a letter that is %s", action, state), letter, pawl.Move{Letter: letter.ID, Action: action})
			_, err := f.store.ClearQueue(f.ctx, normal, operator("clean up"))
			f.ok("clear queue", err)
		}
	}
	f.fails("a letter that is not there", f.tryMove(pawl.Move{Letter: pawl.NewID(), Action: pawl.ActionResolve}), pawl.ErrNotFound)
}

func (f *fixture) moveAllowed(what string, letter pawl.DeadLetter, move pawl.Move) {
	f.Helper()
	if move.Action == pawl.ActionRedrive || move.Action == pawl.ActionRetry {
		move.Push = f.pushOf(letter, move.Action)
	}
	want := move.Allowed(letter.Status, letter.Outcome, letter.NewJobID)
	got := f.tryMove(move)
	after := f.letter(letter.ID)
	if want == nil {
		f.ok(what, got)
		f.equal(what+": status", after.Status, move.To())
		return
	}
	for _, sentinel := range []error{pawl.ErrConflict, pawl.ErrAlreadyRedriven} {
		f.equal(fmt.Sprintf("%s: error %v is %v", what, got, sentinel), is(got, sentinel), is(want, sentinel))
	}
	f.equal(what+": letter", after, letter)
}

func notesPut(f *fixture) {
	session := f.host("a")
	for _, state := range []string{"dead", "resolved", "discarded", "succeeded", "died again", "cancelled"} {
		letter := f.letterIn(session, state)
		f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionNote, Note: "asked the bank"})
		letter.Note = "asked the bank"
		f.equal("a letter that is "+state, f.letter(letter.ID), letter)
		entry := f.audit(pawl.AuditFilter{Subject: letter.ID.String()})[0]
		f.equal("action", entry.Action, pawl.ActionNote)
		f.equal("to", entry.To, letter.Status.String())
	}
	letter := f.dead(session)
	f.fails("no note", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionNote}), pawl.ErrInvalid)
	f.fails("no letter", f.tryMove(pawl.Move{Letter: pawl.NewID(), Action: pawl.ActionNote, Note: "x"}), pawl.ErrNotFound)
}

func movesAudited(f *fixture) {
	session := f.host("a")
	letter := f.dead(session)
	for _, step := range []struct {
		action   pawl.Action
		from, to pawl.Status
	}{
		{pawl.ActionResolve, pawl.StatusDead, pawl.StatusResolved},
		{pawl.ActionReopen, pawl.StatusResolved, pawl.StatusDead},
		{pawl.ActionDiscard, pawl.StatusDead, pawl.StatusDiscarded},
		{pawl.ActionReopen, pawl.StatusDiscarded, pawl.StatusDead},
		{pawl.ActionRedrive, pawl.StatusDead, pawl.StatusRedriven},
	} {
		move := pawl.Move{Letter: letter.ID, Action: step.action, By: pawl.By{Who: "grace", Door: "api", Why: "because " + string(step.action)}}
		if step.action == pawl.ActionRedrive {
			move.Push = f.pushOf(letter, step.action)
		}
		before := len(f.audit(pawl.AuditFilter{}))
		f.move(move)
		entries := f.audit(pawl.AuditFilter{})
		f.equal("entries", len(entries), before+1)
		entry := entries[0]
		now := f.beat(session, pawl.Beat{}).Now
		f.holds("the entry is of now", now.Sub(entry.At).Abs() < patience)
		if move.Push != nil {
			f.equal("outcome", entry.Outcome, move.Push.ID.String())
		}
		entry.ID, entry.At, entry.Outcome = 0, time.Time{}, ""
		f.equal("entry", entry, pawl.AuditEntry{
			Who: "grace", Door: "api", Why: "because " + string(step.action), Action: step.action,
			Subject: letter.ID.String(), From: step.from.String(), To: step.to.String(),
		})
	}
}

func refusedMove(f *fixture) {
	session := f.host("a")
	letter := f.letterIn(session, "resolved")
	before := f.everything()
	f.fails("resolve again", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionResolve, Note: "n"}), pawl.ErrConflict)
	f.fails("redrive", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, Push: f.pushOf(letter, pawl.ActionRedrive)}), pawl.ErrConflict)
	f.equal("jobs, letters and audit trail", f.everything(), before)
	f.claimNone("pushed jobs", session)
}

func notes(f *fixture) {
	letter := f.dead(f.host("a"))
	for _, step := range []struct {
		action     pawl.Action
		note, want string
	}{
		{pawl.ActionResolve, "fixed in v2, é", "fixed in v2, é"}, {pawl.ActionReopen, "", "fixed in v2, é"}, {pawl.ActionDiscard, "dup", "dup"},
	} {
		f.move(pawl.Move{Letter: letter.ID, Action: step.action, Note: step.note})
		f.equal("note", f.letter(letter.ID).Note, step.want)
	}
}

func moveBatch(f *fixture) {
	session := f.host("a")
	var moves []pawl.Move
	for range 5 {
		moves = append(moves, pawl.Move{Letter: f.dead(session).ID, Action: pawl.ActionResolve, By: operator("all")})
	}
	moves[1].Letter = pawl.NewID()
	moves[3].Letter = moves[0].Letter // twice in one batch: the second finds it resolved
	errs, err := f.store.MoveLetters(f.ctx, moves)
	f.ok("move letters", err)
	f.equal("results", len(errs), len(moves))
	for i, want := range []error{nil, pawl.ErrNotFound, nil, pawl.ErrConflict, nil} {
		f.fails(fmt.Sprint("move ", i), errs[i], want)
	}
	f.equal("resolved", len(f.letters(pawl.LetterFilter{Status: []pawl.Status{pawl.StatusResolved}})), 3)
}

func movesKeepEvidence(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	full := f.fullLetter(job)
	f.settle(session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{Class: full.Class, Reason: full.Reason}, Letter: full})
	before := f.letter(full.ID)
	for _, action := range []pawl.Action{pawl.ActionResolve, pawl.ActionReopen, pawl.ActionDiscard, pawl.ActionReopen} {
		f.move(pawl.Move{Letter: full.ID, Action: action, Note: "note"})
	}
	f.redrive(before)
	f.equal("evidence", evidence(f.letter(full.ID)), evidence(before))
}

func forget(f *fixture) {
	session := f.host("a", "mail")
	letter, other := f.dead(session), f.dead(session)
	job := f.redrive(letter)
	found, err := f.store.ForgetLetter(f.ctx, letter.ID, operator("private"))
	f.ok("forget", err)
	f.holds("there was one", found)
	_, err = f.store.Letter(f.ctx, letter.ID)
	f.fails("the letter", err, pawl.ErrNotFound)
	f.equal("letters", letterIDs(f.letters(pawl.LetterFilter{})), []pawl.ID{other.ID})
	tasks := f.claimAlerts(session, "mail") // an alert has nothing to tell without its letter
	f.equal("alerts", len(tasks), 1)
	f.equal("letter of the alert", tasks[0].Letters[0].ID, other.ID)
	claimed := f.claimOne(session) // the redriven job lives on, and has nobody to tell of its end
	f.equal("job", claimed.ID, job)
	f.settle(session, end(claimed, pawl.Done{}))
}

func forgetAudited(f *fixture) {
	letter := f.dead(f.host("a"))
	_, err := f.store.ForgetLetter(f.ctx, letter.ID, operator("private"))
	f.ok("forget", err)
	entries := f.audit(pawl.AuditFilter{Subject: letter.ID.String()})
	f.equal("entries", len(entries), 1)
	f.equal("action", entries[0].Action, pawl.ActionForget)
	f.equal("who", entries[0].Who, "ada")
	f.equal("why", entries[0].Why, "private")
	f.equal("from", entries[0].From, "dead")
	for _, id := range []pawl.ID{letter.ID, pawl.NewID()} {
		found, err := f.store.ForgetLetter(f.ctx, id, operator("again"))
		f.ok("forget again", err)
		f.equal("found", found, false)
	}
	f.equal("entries", len(f.audit(pawl.AuditFilter{})), 1)
}

func auditListed(f *fixture) {
	session := f.host("a")
	first, second := f.dead(session), f.dead(session)
	f.move(pawl.Move{Letter: first.ID, Action: pawl.ActionResolve, By: pawl.By{Who: "ada", Door: "cli"}})
	f.pass(time.Hour)
	f.move(pawl.Move{Letter: second.ID, Action: pawl.ActionDiscard, By: pawl.By{Who: "grace", Door: "api"}})
	f.move(pawl.Move{Letter: first.ID, Action: pawl.ActionReopen, By: pawl.By{Who: "grace", Door: "api"}})

	all := f.audit(pawl.AuditFilter{})
	actions := func(entries []pawl.AuditEntry) (out []pawl.Action) {
		for _, entry := range entries {
			out = append(out, entry.Action)
		}
		return out
	}
	f.equal("newest first", actions(all), []pawl.Action{pawl.ActionReopen, pawl.ActionDiscard, pawl.ActionResolve})
	for name, picked := range map[string]struct {
		filter pawl.AuditFilter
		want   []pawl.AuditEntry
	}{
		"subject": {pawl.AuditFilter{Subject: first.ID.String()}, []pawl.AuditEntry{all[0], all[2]}},
		"who":     {pawl.AuditFilter{Who: "grace"}, all[:2]},
		"action":  {pawl.AuditFilter{Action: pawl.ActionDiscard}, all[1:2]},
		"since":   {pawl.AuditFilter{Since: all[1].At}, all[:2]},
	} {
		f.equal("by "+name, f.audit(picked.filter), picked.want)
	}
	var paged []pawl.AuditEntry
	page := pawl.Page{Limit: 2}
	for range 5 {
		part, err := f.store.Audit(f.ctx, pawl.AuditFilter{}, page)
		f.ok("list audit", err)
		paged = append(paged, part.Entries...)
		if page.After = part.Next; part.Next == "" {
			break
		}
	}
	f.equal("in pages", paged, all)
}
