package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Letters are pruned by status and age, and by nothing else alone.
func prunePromises() []promise {
	return []promise{
		{name: "statuses and an age must be named, and who acts", check: pruneChecked},
		{name: "what has had the statuses for so long is pruned, and nothing else", check: pruned},
		{name: "open failures are pruned where that is said", check: prunedOpen},
		{name: "the rest of the filter narrows it", check: prunedByFilter},
		{name: "a prune is one line in the trail, with its filter and number", check: pruneAudited},
		{name: "letters whose redrive is pending, or that an operation has before it, are kept", check: prunedUnlessNeeded},
		{name: "more letters than fit into a batch are pruned, and doing it again finds the rest", check: pruneMany},
		{name: "a retention prunes what was closed long ago, and nothing else", options: Options{Retention: 48 * time.Hour}, check: retention},
		{name: "without a retention nothing is pruned", check: noRetention},
		{name: "nothing of a pruned letter is left, and its alerts are not delivered", check: prunedWhole},
	}
}

// soon is a time behind all that has happened.
func (f *fixture) soon() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }

func (f *fixture) prune(filter pawl.LetterFilter) pawl.Pruned {
	f.Helper()
	if filter.StatusBefore.IsZero() {
		filter.StatusBefore = f.soon()
	}
	done, err := f.store.PruneLetters(f.ctx, filter, operator("old"))
	f.ok("prune", err)
	return done
}

var closed = []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded}

// closedLetters are letters of which every other is resolved, and the others discarded.
func (f *fixture) closedLetters(n int, changes ...func(*pawl.DeadLetter)) []pawl.DeadLetter {
	f.Helper()
	letters := make([]pawl.DeadLetter, n)
	moves := make([]pawl.Move, n)
	for i := range letters {
		letters[i] = f.looseLetter(changes...)
		moves[i] = pawl.Move{Letter: letters[i].ID, Action: []pawl.Action{pawl.ActionResolve, pawl.ActionDiscard}[i%2], By: operator("done")}
	}
	f.record(letters...)
	errs, err := f.store.MoveLetters(f.ctx, moves)
	f.allOK("close", errs, err)
	return letters
}

func pruneChecked(f *fixture) {
	f.closedLetters(2)
	before := f.everything()
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		by     pawl.By
	}{
		"no status":      {pawl.LetterFilter{StatusBefore: f.soon()}, operator("")},
		"no age":         {pawl.LetterFilter{Status: closed}, operator("")},
		"nobody":         {pawl.LetterFilter{Status: closed, StatusBefore: f.soon()}, pawl.By{}},
		"no such status": {pawl.LetterFilter{Status: []pawl.Status{9}, StatusBefore: f.soon()}, operator("")},
		"a bad text":     {pawl.LetterFilter{Status: closed, StatusBefore: f.soon(), Kind: "\x00"}, operator("")},
	} {
		done, err := f.store.PruneLetters(f.ctx, c.filter, c.by)
		f.fails(name, err, pawl.ErrInvalid)
		f.equal(name, done, pawl.Pruned{})
	}
	f.equal("all that there was", f.everything(), before)
}

func pruned(f *fixture) {
	old, open := f.closedLetters(3), f.looseLetter()
	f.record(open)
	f.pass(10 * time.Hour)
	young := f.closedLetters(2)
	at := f.letter(young[0].ID).StatusAt
	f.equal("of an age that none has", f.prune(pawl.LetterFilter{Status: closed, StatusBefore: at.Add(-20 * time.Hour)}), pawl.Pruned{})
	f.equal("older ones", f.prune(pawl.LetterFilter{Status: closed, StatusBefore: at.Add(-time.Hour)}), pawl.Pruned{Removed: 3})
	for _, l := range old {
		_, err := f.store.Letter(f.ctx, l.ID)
		f.fails("a pruned letter", err, pawl.ErrNotFound)
	}
	f.equal("letters", len(f.letters(pawl.LetterFilter{})), 3)
	// What was closed lately is young, however long ago its job died.
	f.move(pawl.Move{Letter: open.ID, Action: pawl.ActionResolve})
	f.equal("again", f.prune(pawl.LetterFilter{Status: closed, StatusBefore: at.Add(-time.Hour)}), pawl.Pruned{})
	f.equal("the rest", f.prune(pawl.LetterFilter{Status: closed}), pawl.Pruned{Removed: 3})
}

func prunedOpen(f *fixture) {
	f.record(f.looseLetter(), f.looseLetter())
	f.closedLetters(2)
	f.equal("closed ones", f.prune(pawl.LetterFilter{Status: closed}), pawl.Pruned{Removed: 2})
	f.equal("open ones", f.prune(pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}), pawl.Pruned{Removed: 2})
}

func prunedByFilter(f *fixture) {
	f.closedLetters(4, func(l *pawl.DeadLetter) { l.Kind, l.Tags = otherKind, []string{"x"} })
	f.closedLetters(3)
	f.equal("of a kind", f.prune(pawl.LetterFilter{Status: closed, Kind: otherKind, Tag: "x", OldestFirst: true}), pawl.Pruned{Removed: 4})
	f.equal("letters", len(f.letters(pawl.LetterFilter{Status: closed})), 3)
	f.equal("of a status", f.prune(pawl.LetterFilter{Status: closed[:1]}), pawl.Pruned{Removed: 2})
}

func pruneAudited(f *fixture) {
	f.closedLetters(3)
	at := f.soon()
	f.prune(pawl.LetterFilter{Status: closed, StatusBefore: at, Kind: workKind})
	entries := f.audit(pawl.AuditFilter{Action: pawl.ActionPrune})
	f.equal("entries", len(entries), 1)
	e := entries[0]
	f.equal("who", [3]string{e.Who, e.Door, e.Why}, [3]string{"ada", "cli", "old"})
	f.equal("what", [3]string{e.Subject, e.To, e.Outcome}, [3]string{"letters", "pruned", "3 removed, 0 kept"})
	for _, part := range []string{"status resolved or discarded", at.UTC().Format(time.RFC3339), "kind " + workKind} {
		f.holds("the filter is told: "+part, strings.Contains(e.From, part))
	}
	f.equal("entries of the letters themselves", len(f.audit(pawl.AuditFilter{Action: pawl.ActionForget})), 0)
}

func prunedUnlessNeeded(f *fixture) {
	session := f.host("a")
	ended, pending := f.dead(session), f.dead(session)
	f.redrive(pending)
	operation := f.closedLetters(2)
	o, err := f.store.CreateOperation(f.ctx, pawl.NewOperation{
		ID: pawl.NewID(), Action: pawl.ActionReopen, Letters: []pawl.ID{operation[0].ID, operation[1].ID}, By: operator("mistake"),
	})
	f.ok("create operation", err)
	all := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved, pawl.StatusDiscarded}}
	f.equal("while they are needed", f.prune(all), pawl.Pruned{Removed: 1, Kept: 3})
	_, err = f.store.Letter(f.ctx, ended.ID)
	f.fails("the one that is not", err, pawl.ErrNotFound)
	errs, err := f.store.ControlOperations(f.ctx, []pawl.ID{o.ID}, pawl.ActionStop, operator("enough"))
	f.allOK("stop", errs, err)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("when they are not any more", f.prune(all), pawl.Pruned{Removed: 3})
}

func pruneMany(f *fixture) {
	const n = 1200
	f.closedLetters(n)
	f.equal("all", f.prune(pawl.LetterFilter{Status: closed}), pawl.Pruned{Removed: n})
	f.equal("again", f.prune(pawl.LetterFilter{Status: closed}), pawl.Pruned{})
	f.equal("outcome", f.audit(pawl.AuditFilter{Action: pawl.ActionPrune})[1].Outcome, fmt.Sprintf("%d removed, 0 kept", n))
}

func prunedWhole(f *fixture) {
	session := f.host("a", "mail")
	letters := f.closedLetters(2)
	stays := f.looseLetter()
	f.record(stays)
	f.equal("pruned", f.prune(pawl.LetterFilter{Status: closed}), pawl.Pruned{Removed: 2})
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 1)
	views, err := f.store.AlertsOf(f.ctx, letters[0].ID)
	f.ok("alerts of a pruned letter", err)
	f.equal("alerts of a pruned letter", len(views), 0)
	sinks, err := f.store.Sinks(f.ctx)
	f.ok("sinks", err)
	f.equal("undelivered", sinks[0].Pending, 1)
}

func retention(f *fixture) {
	session := f.host("a")
	open := f.looseLetter()
	f.record(open)
	f.closedLetters(3)
	f.pass(30 * time.Hour)
	f.closedLetters(2)
	f.sweep(session)
	f.equal("letters before the time", len(f.letters(pawl.LetterFilter{})), 6)
	f.pass(20 * time.Hour) // 50 in all
	f.sweep(session)
	f.equal("letters after it", len(f.letters(pawl.LetterFilter{})), 3)
	entries := f.audit(pawl.AuditFilter{Action: pawl.ActionPrune})
	f.equal("entries", len(entries), 1)
	f.equal("entry", [4]string{entries[0].Who, entries[0].Why, entries[0].Subject, entries[0].Outcome}, [4]string{"pawl", "retention", "letters", "3 removed, 0 kept"})
	f.move(pawl.Move{Letter: open.ID, Action: pawl.ActionResolve})
	f.sweep(session)
	f.equal("one that was closed just now stays", f.letter(open.ID).Status, pawl.StatusResolved)
	f.pass(30 * time.Hour)
	f.sweep(session)
	f.equal("the last", letterIDs(f.letters(pawl.LetterFilter{})), []pawl.ID{open.ID})
}

func noRetention(f *fixture) {
	session := f.host("a")
	f.closedLetters(2)
	f.pass(10 * 365 * 24 * time.Hour)
	f.sweep(session)
	f.equal("letters", len(f.letters(pawl.LetterFilter{})), 2)
}
