package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// An operation is a frozen set of letters and what is to become of them; anybody may pause, resume and stop it.
func operationPromises() []promise {
	return []promise{
		{name: "the set is frozen when it begins, the oldest death first", check: operationFreezes},
		{name: "every field of the filter picks its letters", check: operationPicks},
		{name: "letters can be named", check: operationNamed},
		{name: "it keeps what it was asked", check: operationKeeps},
		{name: "an unexpected count changes nothing", check: operationExpects},
		{name: "a cap takes the oldest", check: operationCap},
		{name: "none that match is not found", check: operationOfNone},
		{name: "a repeat is the same operation", check: operationRepeated},
		{name: "what makes no sense is refused", check: operationRefused},
		{name: "listed newest first, by filter and page", check: operationsListed},
		{name: "items are listed in order, by filter and page", check: itemsListed},
		{name: "pause, resume and stop lead from state to state", check: operationControlled},
		{name: "every control is in the audit trail, and a refused one is not", check: controlsAudited},
		{name: "one refused control does not stop the others", check: controlsApart},
		{name: "two who begin the same at once begin it once", check: operationBegunTwice},
	}
}

// lettersFor records n letters of jobs that are not there, each a second after the one before.
func (f *fixture) lettersFor(n int) []pawl.DeadLetter {
	f.Helper()
	letters := make([]pawl.DeadLetter, n)
	for i := range letters {
		job := f.job()
		letters[i] = *f.letterOf(pawl.ClaimedJob{
			Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 6, Envelope: job.Envelope,
		})
	}
	for i := range letters {
		if i > 0 {
			f.pass(time.Second)
		}
		f.record(letters[i])
	}
	return letters
}

func openFailures() pawl.LetterFilter {
	return pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
}

func redriveAll() pawl.NewOperation {
	return pawl.NewOperation{ID: pawl.NewID(), Action: pawl.ActionRedrive, Filter: openFailures(), By: operator("mended")}
}

func (f *fixture) begun(o pawl.NewOperation) pawl.Operation {
	f.Helper()
	operation, err := f.store.CreateOperation(f.ctx, o)
	f.ok("create operation", err)
	return operation
}

// notStarted tries to begin what must be refused, with nothing kept.
func (f *fixture) notStarted(what string, o pawl.NewOperation, with error) {
	f.Helper()
	before := f.everything()
	_, err := f.store.CreateOperation(f.ctx, o)
	f.fails(what, err, with)
	f.equal(what+": jobs, letters and audit trail", f.everything(), before)
	_, err = f.store.Operation(f.ctx, o.ID)
	f.fails(what+": the operation", err, pawl.ErrNotFound)
}

func (f *fixture) operation(id pawl.ID) pawl.Operation {
	f.Helper()
	operation, err := f.store.Operation(f.ctx, id)
	f.ok("operation", err)
	return operation
}

func (f *fixture) items(id pawl.ID, filter pawl.ItemFilter) []pawl.OperationItem {
	f.Helper()
	page, err := f.store.OperationItems(f.ctx, id, filter, pawl.Page{Limit: 1000})
	f.ok("items", err)
	f.equal("next page", page.Next, "")
	return page.Items
}

func itemLetters(items []pawl.OperationItem) []pawl.ID {
	var out []pawl.ID
	for _, item := range items {
		out = append(out, item.Letter)
	}
	return out
}

func operationFreezes(f *fixture) {
	letters := f.lettersFor(5)
	o := f.begun(redriveAll())
	f.equal("letters", o.Letters, 5)
	f.lettersFor(2)
	f.move(pawl.Move{Letter: letters[1].ID, Action: pawl.ActionResolve})
	items := f.items(o.ID, pawl.ItemFilter{})
	f.equal("items", itemLetters(items), letterIDs(letters))
	for i, item := range items {
		f.equal("item", item, pawl.OperationItem{Position: i + 1, Letter: letters[i].ID, State: pawl.ItemWaiting})
	}
	f.equal("letters, later", f.operation(o.ID).Letters, 5)
	f.equal("the status of one", f.letter(letters[0].ID).Status, pawl.StatusDead)
}

func operationPicks(f *fixture) {
	letters := f.lettersFor(2)
	odd := letters[1]
	odd.ID, odd.JobID, odd.Kind, odd.Queue, odd.Connection, odd.Class, odd.Reason = pawl.NewID(), pawl.NewID(), otherKind, critical, "elsewhere", pawl.DeathPoison, pawl.ReasonSignature
	odd.Message, odd.Tags, odd.CorrelationID, odd.Fingerprint = "a needle", []string{"vip"}, "request-7", "1-needle"
	f.pass(time.Hour)
	f.record(odd)
	stored := f.letter(odd.ID)
	for name, filter := range map[string]pawl.LetterFilter{
		"kind": {Kind: odd.Kind}, "queue": {Queue: odd.Queue}, "connection": {Connection: odd.Connection}, "class": {Class: []pawl.DeathClass{odd.Class}},
		"reason": {Reason: odd.Reason}, "text": {Text: "Needle"}, "tag": {Tag: "vip"}, "correlation": {CorrelationID: "request-7"},
		"group": {Fingerprint: odd.Fingerprint}, "job": {JobID: odd.JobID}, "since": {Since: stored.DeadAt},
		"several": {Status: []pawl.Status{pawl.StatusDead, pawl.StatusRedriven}, Kind: odd.Kind, Until: stored.DeadAt.Add(time.Second)},
	} {
		o := redriveAll()
		o.Filter = filter
		f.equal("by "+name, itemLetters(f.items(f.begun(o).ID, pawl.ItemFilter{})), []pawl.ID{odd.ID})
	}
}

func operationNamed(f *fixture) {
	letters := f.lettersFor(3)
	o := redriveAll()
	o.Filter, o.Letters = pawl.LetterFilter{}, []pawl.ID{letters[2].ID, pawl.NewID(), letters[0].ID}
	made := f.begun(o)
	f.equal("named", made.Named, true)
	f.equal("items", itemLetters(f.items(o.ID, pawl.ItemFilter{})), o.Letters)
	f.equal("letters", made.Letters, 3)
}

func operationKeeps(f *fixture) {
	f.lettersFor(1)
	now := time.Now().UTC().Truncate(time.Second)
	o := redriveAll()
	o.By = pawl.By{Who: "grace", Door: "api", Why: "the mail server is back, é"}
	o.Filter.Kind, o.Filter.Since = workKind, now.Add(-time.Hour)
	o.Options = pawl.OperationOptions{
		Expect: 1, Cap: 7, Rate: 2.5, Note: "n", Probe: true, ProbeWait: time.Minute, StopAfter: 3, RetryUntil: now.Add(time.Hour), Confirmed: true,
	}
	made := f.begun(o)
	f.holds("it began just now", made.CreatedAt.Sub(f.beat(f.host("a"), pawl.Beat{}).Now).Abs() < patience)
	f.equal("changed at", made.ChangedAt, made.CreatedAt)
	f.equal("read again", f.operation(o.ID), made)
	made.CreatedAt, made.ChangedAt = time.Time{}, time.Time{}
	f.equal("operation", made, pawl.Operation{
		ID: o.ID, Action: pawl.ActionRedrive, Filter: o.Filter, Who: "grace", Door: "api", Why: o.By.Why, Options: o.Options,
		State: pawl.OperationProbing, Letters: 1,
	})
	entry := f.audit(pawl.AuditFilter{Subject: "operation " + o.ID.String()})[0]
	entry.ID, entry.At = 0, time.Time{}
	f.equal("entry", entry, pawl.AuditEntry{
		Who: "grace", Door: "api", Why: o.By.Why, Action: pawl.ActionStart, Subject: "operation " + o.ID.String(), To: "probing", Outcome: "redrive of 1 letter",
	})
}

func operationExpects(f *fixture) {
	f.lettersFor(3)
	o := redriveAll()
	o.Options.Expect = 4
	f.notStarted("one too few", o, pawl.ErrConflict)
	o.Options.Expect, o.Options.Cap = 3, 2
	f.notStarted("as a cap leaves", o, pawl.ErrConflict)
	o.Options.Cap = 0
	f.equal("letters", f.begun(o).Letters, 3)
}

func operationCap(f *fixture) {
	letters := f.lettersFor(4)
	o := redriveAll()
	o.Options.Cap, o.Options.Expect = 3, 3
	f.begun(o)
	f.equal("items", itemLetters(f.items(o.ID, pawl.ItemFilter{})), letterIDs(letters[:3]))
}

func operationOfNone(f *fixture) {
	f.notStarted("no letter", redriveAll(), pawl.ErrNotFound)
}

func operationRepeated(f *fixture) {
	f.lettersFor(2)
	o := redriveAll()
	first := f.begun(o)
	f.lettersFor(1)
	o.Options.Expect = 9
	f.equal("again", f.begun(o), first)
	f.equal("entries", len(f.audit(pawl.AuditFilter{Action: pawl.ActionStart})), 1)
}

func operationRefused(f *fixture) {
	letters := f.lettersFor(2)
	for name, change := range map[string]func(o *pawl.NewOperation){
		"no action":           func(o *pawl.NewOperation) { o.Action = "" },
		"an action of others": func(o *pawl.NewOperation) { o.Action = pawl.ActionForget },
		"nobody":              func(o *pawl.NewOperation) { o.By.Who = "" },
		"no UTF-8":            func(o *pawl.NewOperation) { o.By.Why = "\xff" },
		"a rate below 0":      func(o *pawl.NewOperation) { o.Options.Rate = -1 },
		"a cap below 0":       func(o *pawl.NewOperation) { o.Options.Cap = -1 },
		"expecting below 0":   func(o *pawl.NewOperation) { o.Options.Expect = -1 },
		"a wait below 0":      func(o *pawl.NewOperation) { o.Options.ProbeWait = -1 },
		"many to stop after":  func(o *pawl.NewOperation) { o.Options.StopAfter = 101 },
		"two deadlines":       func(o *pawl.NewOperation) { o.Options.RetryFor, o.Options.RetryUntil = 1, time.Now() },
		"a long note":         func(o *pawl.NewOperation) { o.Options.Note = strings.Repeat("n", 5000) },
		"a probe of closing":  func(o *pawl.NewOperation) { o.Action, o.Options.Probe = pawl.ActionResolve, true },
		"a class of none":     func(o *pawl.NewOperation) { o.Filter.Class = []pawl.DeathClass{9} },
		"names and a filter":  func(o *pawl.NewOperation) { o.Letters = []pawl.ID{letters[0].ID} },
		"a name twice": func(o *pawl.NewOperation) {
			o.Filter, o.Letters = pawl.LetterFilter{}, []pawl.ID{letters[0].ID, letters[0].ID}
		},
	} {
		o := redriveAll()
		change(&o)
		f.notStarted(name, o, pawl.ErrInvalid)
	}
	o := redriveAll()
	o.ID = pawl.ID{}
	_, err := f.store.CreateOperation(f.ctx, o)
	f.fails("no id", err, pawl.ErrInvalid)
}

func operationsListed(f *fixture) {
	f.lettersFor(1)
	var all []pawl.Operation
	for i, action := range []pawl.Action{pawl.ActionRedrive, pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen} {
		o := redriveAll()
		o.Action = action
		if i == 2 {
			o.By.Who = "grace"
		}
		f.begun(o)
		f.control(o.ID, map[bool]pawl.Action{true: pawl.ActionPause, false: pawl.ActionStop}[i == 1])
		f.pass(time.Second)
		all = append([]pawl.Operation{{ID: o.ID}}, all...)
	}
	for i := range all {
		all[i] = f.operation(all[i].ID)
	}
	for name, c := range map[string]struct {
		filter pawl.OperationFilter
		want   []pawl.Operation
	}{
		"all":    {pawl.OperationFilter{}, all},
		"state":  {pawl.OperationFilter{State: []pawl.OperationState{pawl.OperationPaused, pawl.OperationRunning}}, all[2:3]},
		"action": {pawl.OperationFilter{Action: pawl.ActionReopen}, all[:1]},
		"who":    {pawl.OperationFilter{Who: "grace"}, all[1:2]},
	} {
		page, err := f.store.Operations(f.ctx, c.filter, pawl.Page{})
		f.ok("list operations", err)
		f.equal("by "+name, page.Operations, c.want)
	}
	var paged []pawl.Operation
	for page := (pawl.Page{Limit: 3}); ; {
		part, err := f.store.Operations(f.ctx, pawl.OperationFilter{}, page)
		f.ok("list operations", err)
		paged = append(paged, part.Operations...)
		if page.After = part.Next; part.Next == "" {
			break
		}
	}
	f.equal("in pages", paged, all)
	_, err := f.store.Operations(f.ctx, pawl.OperationFilter{State: []pawl.OperationState{"lost"}}, pawl.Page{})
	f.fails("a state of none", err, pawl.ErrInvalid)
}

func itemsListed(f *fixture) {
	letters := f.lettersFor(5)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: []pawl.ItemStep{
		{Position: 1, Letter: letters[0].ID, Refused: "no"}, f.redriveStep(2, letters[1]),
	}})
	for name, c := range map[string]struct {
		filter pawl.ItemFilter
		want   []pawl.DeadLetter
	}{
		"all": {pawl.ItemFilter{}, letters}, "refused": {pawl.ItemFilter{State: pawl.ItemRefused}, letters[:1]},
		"done": {pawl.ItemFilter{State: pawl.ItemDone}, letters[1:2]}, "waiting": {pawl.ItemFilter{State: pawl.ItemWaiting}, letters[2:]},
		"pending": {pawl.ItemFilter{Outcome: pawl.RedrivePending}, letters[1:2]},
	} {
		f.equal(name, itemLetters(f.items(o.ID, c.filter)), letterIDs(c.want))
	}
	var paged []pawl.OperationItem
	for page := (pawl.Page{Limit: 2}); ; {
		part, err := f.store.OperationItems(f.ctx, o.ID, pawl.ItemFilter{}, page)
		f.ok("items", err)
		paged = append(paged, part.Items...)
		if page.After = part.Next; part.Next == "" {
			break
		}
	}
	f.equal("in pages", paged, f.items(o.ID, pawl.ItemFilter{}))
	_, err := f.store.OperationItems(f.ctx, pawl.NewID(), pawl.ItemFilter{}, pawl.Page{})
	f.fails("of none", err, pawl.ErrNotFound)
	_, err = f.store.OperationItems(f.ctx, o.ID, pawl.ItemFilter{State: "odd"}, pawl.Page{})
	f.fails("a state of none", err, pawl.ErrInvalid)
}

func operationBegunTwice(f *fixture) {
	f.lettersFor(3)
	o := redriveAll()
	got, errs := make([]pawl.Operation, 4), make([]error, 4)
	var group sync.WaitGroup
	for n := range got {
		group.Go(func() { got[n], errs[n] = f.store.CreateOperation(f.ctx, o) })
	}
	group.Wait()
	f.allOK("create operation", errs, nil)
	for n := range got {
		f.equal("operation", got[n], got[0])
	}
	f.equal("items", len(f.items(o.ID, pawl.ItemFilter{})), 3)
	f.equal("entries", len(f.audit(pawl.AuditFilter{Action: pawl.ActionStart})), 1)
}
