package desktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
)

// Of 1,200 redrives in one call some cannot be pushed: each of those says why and has left nothing, the rest go on.
func refusedMovesAmongMany(t *testing.T, open Opener) {
	d := open(t)
	all := Letters(1200)
	d.Record(all...)
	taken := d.jobs(1)[0]
	d.enqueue(taken, d.jobs(1, pawl.UniqueWhileWaiting("held"))[0])
	pushes := d.jobs(len(all))
	moves := make([]pawl.Move, len(all))
	for i := range moves {
		moves[i] = pawl.Move{Letter: all[i].ID, Action: pawl.ActionRedrive, By: Ada(), Push: &pushes[i]}
	}
	rival := d.jobs(1, pawl.UniqueWhileWaiting("held"))[0]
	moves[3].Push, moves[600].Push, moves[900].Push = &taken, &rival, &pawl.NewJob{ID: pawl.NewID()}
	moves[1000].Letter, moves[1001].Letter, moves[1002].By.Who = pawl.NewID(), all[0].ID, ""
	want := map[int]error{
		3: pawl.ErrConflict, 600: pawl.ErrConflict, 900: pawl.ErrInvalid, 1000: pawl.ErrNotFound, 1001: pawl.ErrAlreadyRedriven, 1002: pawl.ErrInvalid,
	}
	errs, err := d.MoveLetters(t.Context(), moves)
	d.OK("move letters", err)
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			t.Errorf("move %d: %v, want %v", i, err, want[i])
		}
	}
	if text := errs[3].Error(); !strings.Contains(text, taken.ID.String()) {
		t.Errorf("the refusal does not name the job: %s", text)
	}
	// Three letters were the aim of no allowed move, and letter 1000 and 1001 of none at all.
	refused := len(want)
	for status, n := range map[pawl.Status]int{pawl.StatusDead: refused, pawl.StatusRedriven: len(all) - refused} {
		count, err := d.CountLetters(t.Context(), pawl.LetterFilter{Status: []pawl.Status{status}})
		d.OK("count", err)
		d.Equal("letters that are "+status.String(), count, n)
	}
	queues, err := d.Queues(t.Context())
	d.OK("queues", err)
	d.Equal("jobs", queues[0].Waiting, 2+len(all)-refused)
	for i := range want {
		trail, err := d.Audit(t.Context(), pawl.AuditFilter{Subject: all[i].ID.String()}, pawl.Page{})
		d.OK("audit", err)
		d.Equal("entries of a refused move", len(trail.Entries), 0)
	}
}

// A refused move leaves the tables as they were, to the byte.
func refusedMoveLeavesNothing(t *testing.T, open Opener) {
	d := open(t)
	dead := Letter()
	d.Record(dead)
	held := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0]
	d.enqueue(held)
	rival, plain := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0], d.jobs(1)[0]
	long := strings.Repeat("x", 5000)
	for name, m := range map[string]pawl.Move{
		"id taken":         {Action: pawl.ActionRedrive, By: Ada(), Push: &held},
		"key held":         {Action: pawl.ActionRedrive, By: Ada(), Push: &rival},
		"retry, key held":  {Action: pawl.ActionRetry, By: Ada(), Push: &rival},
		"no job":           {Action: pawl.ActionRedrive, By: Ada()},
		"job of no kind":   {Action: pawl.ActionRedrive, By: Ada(), Push: &pawl.NewJob{ID: pawl.NewID(), Envelope: []byte("x"), Queue: "q"}},
		"needless job":     {Action: pawl.ActionResolve, By: Ada(), Push: &plain},
		"needless job id":  {Action: pawl.ActionDiscard, By: Ada(), NewJob: plain.ID},
		"nobody":           {Action: pawl.ActionResolve},
		"odd name":         {Action: pawl.ActionResolve, By: pawl.By{Who: "a\x00"}},
		"odd reason":       {Action: pawl.ActionResolve, By: pawl.By{Who: "a", Why: "\xff"}},
		"long note":        {Action: pawl.ActionResolve, By: Ada(), Note: long},
		"no action":        {By: Ada()},
		"other action":     {Action: pawl.ActionForget, By: Ada()},
		"unknown outcome":  {Action: pawl.ActionOutcome, By: Ada(), Outcome: "fine"},
		"pending outcome":  {Action: pawl.ActionOutcome, By: Ada(), Outcome: pawl.RedrivePending},
		"not redriven":     {Action: pawl.ActionOutcome, By: Ada(), Outcome: pawl.RedriveSucceeded},
		"reopen when open": {Action: pawl.ActionReopen, By: Ada()},
	} {
		before := d.Tables.Dump(d)
		m.Letter = dead.ID
		errs, err := d.MoveLetters(t.Context(), []pawl.Move{m})
		d.OK(name, err)
		if !errors.Is(errs[0], pawl.ErrInvalid) && !errors.Is(errs[0], pawl.ErrConflict) {
			t.Errorf("%s: %v", name, errs[0])
		}
		d.Equal(name+": tables", d.Tables.Dump(d), before)
	}
	before := d.Tables.Dump(d)
	_, err := d.ForgetLetter(t.Context(), dead.ID, pawl.By{})
	d.Invalid("forget by nobody", err, "who")
	there, err := d.ForgetLetter(t.Context(), pawl.NewID(), Ada())
	d.OK("forget", err)
	d.Equal("forgotten", there, false)
	d.Invalid("switch by nobody", d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: "k"}, pawl.By{}), "who")
	d.Invalid("pause by nobody", d.PauseQueue(t.Context(), pawl.QueuePause{Queue: "q"}, pawl.By{}), "who")
	for _, name := range []string{"", "a\nb", "a\x00", "\xff", strings.Repeat("x", 129)} {
		d.Invalid("switch", d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: name}, Ada()), "kind")
		d.Invalid("pause", d.PauseQueue(t.Context(), pawl.QueuePause{Queue: name, Paused: true}, Ada()), "queue")
		_, err := d.ClearQueue(t.Context(), name, Ada())
		d.Invalid("clear", err, "queue")
	}
	_, err = d.ClearQueue(t.Context(), "2-default", pawl.By{})
	d.Invalid("clear by nobody", err, "who")
	d.Equal("tables", d.Tables.Dump(d), before)
}

// The outcome of a redrive that ran elsewhere finds the letter as which it died.
func outcomeElsewhereIsLinked(t *testing.T, open Opener) {
	d := open(t)
	first := Letter()
	d.Record(first)
	job := pawl.NewID()
	second := Letter(func(l *pawl.DeadLetter) { l.ID, l.JobID, l.Previous = pawl.LetterID("redis", job, 9), job, first.ID })
	for _, m := range []pawl.Move{
		{Letter: first.ID, Action: pawl.ActionRedrive, By: Ada(), NewJob: job},
		{Letter: first.ID, Action: pawl.ActionOutcome, By: pawl.By{Who: "pawl", Door: "pawl"}, Outcome: pawl.RedriveDiedAgain},
	} {
		if m.Action == pawl.ActionOutcome {
			d.Record(second)
		}
		errs, err := d.MoveLetters(t.Context(), []pawl.Move{m})
		d.OK("move", errors.Join(append(errs, err)...))
	}
	got, err := d.Letter(t.Context(), first.ID)
	d.OK("letter", err)
	d.Equal("next letter", got.NextLetter, second.ID)
	d.Equal("outcome", got.Outcome, pawl.RedriveDiedAgain)
	d.Equal("status", got.Status, pawl.StatusRedriven)
}

// A call that could not write its lines in the trail, its alerts or its letters has written nothing at all.
func nothingIsHalfDone(t *testing.T, open Opener) {
	for _, table := range []string{"letter", "evidence", "audit", "alert", "message", "switch", "done"} {
		d := open(t)
		d.Register("mail")
		open, plain := Letter(), d.jobs(1)[0]
		d.Record(open)
		d.enqueue(d.jobs(3)...)
		before := d.Tables.Dump(d)
		d.Tables.Hide(d, table)
		failed := map[string]error{}
		_, failed["record"] = d.RecordDeaths(t.Context(), Letters(3))
		_, failed["redrive"] = d.MoveLetters(t.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionRedrive, By: Ada(), Push: &plain}})
		_, failed["resolve"] = d.MoveLetters(t.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionResolve, By: Ada()}})
		_, failed["forget"] = d.ForgetLetter(t.Context(), open.ID, Ada())
		_, failed["clear"] = d.ClearQueue(t.Context(), "2-default", Ada())
		failed["switch"] = d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: "k"}, Ada())
		_, failed["alerts"] = d.ClaimAlerts(t.Context(), pawl.AlertClaim{Sinks: []string{"mail"}, Max: 1})
		_, failed["letter"] = d.Letter(t.Context(), open.ID)
		d.Tables.Show(d, table)
		needs := map[string][]string{
			"letter":   {"record", "redrive", "resolve", "forget", "alerts", "letter"},
			"evidence": {"record", "forget", "letter"},
			"audit":    {"redrive", "resolve", "forget", "clear", "switch"},
			"alert":    {"record", "forget", "alerts"},
			"message":  {"forget", "alerts"},
			"switch":   {"switch"},
			"done":     {"redrive", "clear"},
		}[table]
		for _, call := range needs {
			if failed[call] == nil {
				t.Errorf("%s without %s: no error", call, table)
			}
		}
		after := d.Tables.Dump(d)
		touched := false // by the calls that did not need the table
		for call, err := range failed {
			touched = touched || err == nil && call != "letter"
		}
		if !touched {
			d.Equal("tables after "+table+" was away", after, before)
		}
	}
}

// Each call that fails for want of a table leaves all others as they were.
func failedCallLeavesNothing(t *testing.T, open Opener) {
	for name, c := range map[string]struct {
		without string
		call    func(d Desk, open pawl.DeadLetter) error
	}{
		"record without alerts": {"alert", func(d Desk, _ pawl.DeadLetter) error {
			_, err := d.RecordDeaths(d.Context(), Letters(3))
			return err
		}},
		"record without evidence": {"evidence", func(d Desk, _ pawl.DeadLetter) error {
			_, err := d.RecordDeaths(d.Context(), Letters(3))
			return err
		}},
		"redrive without a trail": {"audit", func(d Desk, open pawl.DeadLetter) error {
			push := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0]
			_, err := d.MoveLetters(d.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionRedrive, By: Ada(), Push: &push}})
			return err
		}},
		"forget without a trail": {"audit", func(d Desk, open pawl.DeadLetter) error {
			_, err := d.ForgetLetter(d.Context(), open.ID, Ada())
			return err
		}},
		"clear without a trail": {"audit", func(d Desk, _ pawl.DeadLetter) error {
			n, err := d.ClearQueue(d.Context(), "2-default", Ada())
			d.Equal("cleared", n, 0)
			return err
		}},
		"switch without a trail": {"audit", func(d Desk, _ pawl.DeadLetter) error {
			return d.SwitchKind(d.Context(), pawl.KindSwitch{Kind: "k"}, Ada())
		}},
		"pause without switches": {"switch", func(d Desk, _ pawl.DeadLetter) error {
			return d.PauseQueue(d.Context(), pawl.QueuePause{Queue: "q", Paused: true}, Ada())
		}},
	} {
		d := open(t)
		d.Register("mail")
		open := Letter()
		d.Record(open)
		d.enqueue(d.jobs(3)...)
		before := d.Tables.Dump(d)
		d.Tables.Hide(d, c.without)
		if err := c.call(d, open); err == nil {
			t.Errorf("%s: no error", name)
		}
		d.Tables.Show(d, c.without)
		d.Equal(name, d.Tables.Dump(d), before)
	}
}

// operatorCalls are all of an operator's.
func operatorCalls(ctx context.Context, d Desk) map[string]error {
	errs := map[string]error{}
	_, errs["record"] = d.RecordDeaths(ctx, Letters(1))
	_, errs["letters"] = d.Letters(ctx, pawl.LetterFilter{}, pawl.Page{})
	_, errs["letter"] = d.Letter(ctx, pawl.NewID())
	_, errs["count"] = d.CountLetters(ctx, pawl.LetterFilter{})
	_, errs["move"] = d.MoveLetters(ctx, []pawl.Move{{Letter: pawl.NewID(), Action: pawl.ActionResolve, By: Ada()}})
	_, errs["forget"] = d.ForgetLetter(ctx, pawl.NewID(), Ada())
	_, errs["audit"] = d.Audit(ctx, pawl.AuditFilter{}, pawl.Page{})
	_, errs["jobs"] = d.Jobs(ctx, pawl.JobFilter{}, pawl.Page{})
	_, errs["job"] = d.Job(ctx, pawl.NewID())
	_, errs["queues"] = d.Queues(ctx)
	_, errs["clear"] = d.ClearQueue(ctx, "2-default", Ada())
	errs["switch"] = d.SwitchKind(ctx, pawl.KindSwitch{Kind: "k"}, Ada())
	errs["pause"] = d.PauseQueue(ctx, pawl.QueuePause{Queue: "q", Paused: true}, Ada())
	_, errs["switches"] = d.Switches(ctx)
	_, errs["hosts"] = d.Hosts(ctx)
	_, errs["claim alerts"] = d.ClaimAlerts(ctx, pawl.AlertClaim{Sinks: []string{"mail"}, Max: 1})
	_, errs["settle alerts"] = d.SettleAlerts(ctx, []pawl.AlertResult{{Row: 1, Token: 1}})
	_, errs["sinks"] = d.Sinks(ctx)
	return errs
}

func callsOfAClosedStore(t *testing.T, open Opener) {
	d := open(t)
	d.OK("close", d.Close())
	for call, err := range operatorCalls(t.Context(), d) {
		if !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func callsWhoseContextIsDone(t *testing.T, open Opener) {
	d := open(t)
	d.enqueue(d.jobs(1)...)
	before := d.Tables.Dump(d)
	cause := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for call, err := range operatorCalls(ctx, d) {
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v", call, err)
		}
	}
	d.Equal("tables", d.Tables.Dump(d), before)
}

// However many redrive the same letters at once, and in whatever order, each letter runs again once.
func redrivesAtOnce(t *testing.T, open Opener) {
	d := open(t)
	const callers = 6
	all := Letters(40)
	d.Record(all...)
	var group sync.WaitGroup
	errs, failures := make([][]error, callers), make([]error, callers)
	for n := range callers {
		order := rand.Perm(len(all))
		moves, pushes := make([]pawl.Move, len(all)), d.jobs(len(all))
		for i, at := range order {
			moves[i] = pawl.Move{Letter: all[at].ID, Action: pawl.ActionRedrive, By: Ada(), Push: &pushes[i]}
		}
		group.Go(func() { errs[n], failures[n] = d.MoveLetters(t.Context(), moves) })
	}
	group.Wait()
	won := 0
	for n := range callers {
		d.OK("redrive", failures[n])
		for _, err := range errs[n] {
			if err == nil {
				won++
			} else if !errors.Is(err, pawl.ErrAlreadyRedriven) {
				t.Errorf("a redrive that lost: %v", err)
			}
		}
	}
	d.Equal("redrives that won", won, len(all))
	queues, err := d.Queues(t.Context())
	d.OK("queues", err)
	d.Equal("jobs", queues[0].Waiting, len(all))
	trail, err := d.Audit(t.Context(), pawl.AuditFilter{Action: pawl.ActionRedrive}, pawl.Page{Limit: 1000})
	d.OK("audit", err)
	d.Equal("lines in the trail", len(trail.Entries), len(all))
}
