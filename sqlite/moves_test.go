package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// Of 1,200 redrives in one call some cannot be pushed: each of those says why and has left nothing, the rest go on.
func TestRefusedMovesAmongMany(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	all := letters(1200)
	d.record(all...)
	taken := d.jobs(1)[0]
	d.enqueue(taken, d.jobs(1, pawl.UniqueWhileWaiting("held"))[0])
	pushes := d.jobs(len(all))
	moves := make([]pawl.Move, len(all))
	for i := range moves {
		moves[i] = pawl.Move{Letter: all[i].ID, Action: pawl.ActionRedrive, By: ada, Push: &pushes[i]}
	}
	rival := d.jobs(1, pawl.UniqueWhileWaiting("held"))[0]
	moves[3].Push, moves[600].Push, moves[900].Push = &taken, &rival, &pawl.NewJob{ID: pawl.NewID()}
	moves[1000].Letter, moves[1001].Letter, moves[1002].By.Who = pawl.NewID(), all[0].ID, ""
	want := map[int]error{
		3: pawl.ErrConflict, 600: pawl.ErrConflict, 900: pawl.ErrInvalid, 1000: pawl.ErrNotFound, 1001: pawl.ErrAlreadyRedriven, 1002: pawl.ErrInvalid,
	}
	errs, err := d.MoveLetters(t.Context(), moves)
	d.ok("move letters", err)
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
		d.ok("count", err)
		d.equal("letters that are "+status.String(), count, n)
	}
	queues, err := d.Queues(t.Context())
	d.ok("queues", err)
	d.equal("jobs", queues[0].Waiting, 2+len(all)-refused)
	for i := range want {
		trail, err := d.Audit(t.Context(), pawl.AuditFilter{Subject: all[i].ID.String()}, pawl.Page{})
		d.ok("audit", err)
		d.equal("entries of a refused move", len(trail.Entries), 0)
	}
}

// A refused move leaves the tables as they were, to the byte.
func TestRefusedMoveLeavesNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	open := letter()
	d.record(open)
	held := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0]
	d.enqueue(held)
	rival, plain := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0], d.jobs(1)[0]
	long := strings.Repeat("x", 5000)
	for name, m := range map[string]pawl.Move{
		"id taken":         {Action: pawl.ActionRedrive, By: ada, Push: &held},
		"key held":         {Action: pawl.ActionRedrive, By: ada, Push: &rival},
		"retry, key held":  {Action: pawl.ActionRetry, By: ada, Push: &rival},
		"no job":           {Action: pawl.ActionRedrive, By: ada},
		"job of no kind":   {Action: pawl.ActionRedrive, By: ada, Push: &pawl.NewJob{ID: pawl.NewID(), Envelope: []byte("x"), Queue: "q"}},
		"needless job":     {Action: pawl.ActionResolve, By: ada, Push: &plain},
		"needless job id":  {Action: pawl.ActionDiscard, By: ada, NewJob: plain.ID},
		"nobody":           {Action: pawl.ActionResolve},
		"odd name":         {Action: pawl.ActionResolve, By: pawl.By{Who: "a\x00"}},
		"odd reason":       {Action: pawl.ActionResolve, By: pawl.By{Who: "a", Why: "\xff"}},
		"long note":        {Action: pawl.ActionResolve, By: ada, Note: long},
		"no action":        {By: ada},
		"other action":     {Action: pawl.ActionForget, By: ada},
		"unknown outcome":  {Action: pawl.ActionOutcome, By: ada, Outcome: "fine"},
		"pending outcome":  {Action: pawl.ActionOutcome, By: ada, Outcome: pawl.RedrivePending},
		"not redriven":     {Action: pawl.ActionOutcome, By: ada, Outcome: pawl.RedriveSucceeded},
		"reopen when open": {Action: pawl.ActionReopen, By: ada},
	} {
		before := d.dump()
		m.Letter = open.ID
		errs, err := d.MoveLetters(t.Context(), []pawl.Move{m})
		d.ok(name, err)
		if !errors.Is(errs[0], pawl.ErrInvalid) && !errors.Is(errs[0], pawl.ErrConflict) {
			t.Errorf("%s: %v", name, errs[0])
		}
		d.equal(name+": tables", d.dump(), before)
	}
	before := d.dump()
	_, err := d.ForgetLetter(t.Context(), open.ID, pawl.By{})
	d.invalid("forget by nobody", err, "who")
	there, err := d.ForgetLetter(t.Context(), pawl.NewID(), ada)
	d.ok("forget", err)
	d.equal("forgotten", there, false)
	d.invalid("switch by nobody", d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: "k"}, pawl.By{}), "who")
	d.invalid("pause by nobody", d.PauseQueue(t.Context(), pawl.QueuePause{Queue: "q"}, pawl.By{}), "who")
	for _, name := range []string{"", "a\nb", "a\x00", "\xff", strings.Repeat("x", 129)} {
		d.invalid("switch", d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: name}, ada), "kind")
		d.invalid("pause", d.PauseQueue(t.Context(), pawl.QueuePause{Queue: name, Paused: true}, ada), "queue")
		_, err := d.ClearQueue(t.Context(), name, ada)
		d.invalid("clear", err, "queue")
	}
	_, err = d.ClearQueue(t.Context(), "2-default", pawl.By{})
	d.invalid("clear by nobody", err, "who")
	d.equal("tables", d.dump(), before)
}

// The outcome of a redrive that ran elsewhere finds the letter as which it died.
func TestOutcomeElsewhereIsLinked(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	first := letter()
	d.record(first)
	job := pawl.NewID()
	second := letter(func(l *pawl.DeadLetter) { l.ID, l.JobID, l.Previous = pawl.LetterID("redis", job, 9), job, first.ID })
	for _, m := range []pawl.Move{
		{Letter: first.ID, Action: pawl.ActionRedrive, By: ada, NewJob: job},
		{Letter: first.ID, Action: pawl.ActionOutcome, By: pawl.By{Who: "pawl", Door: "pawl"}, Outcome: pawl.RedriveDiedAgain},
	} {
		if m.Action == pawl.ActionOutcome {
			d.record(second)
		}
		errs, err := d.MoveLetters(t.Context(), []pawl.Move{m})
		d.ok("move", errors.Join(append(errs, err)...))
	}
	got, err := d.Letter(t.Context(), first.ID)
	d.ok("letter", err)
	d.equal("next letter", got.NextLetter, second.ID)
	d.equal("outcome", got.Outcome, pawl.RedriveDiedAgain)
	d.equal("status", got.Status, pawl.StatusRedriven)
}

// A call that could not write its lines in the trail, its alerts or its letters has written nothing at all.
func TestNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"pawl_letter", "pawl_evidence", "pawl_audit", "pawl_alert", "pawl_switch", "pawl_done", "pawl_counter"} {
		d := openDesk(t)
		d.sinks("mail")
		open, plain := letter(), d.jobs(1)[0]
		d.record(open)
		d.enqueue(d.jobs(3)...)
		before := d.dump()
		d.exec("alter table " + table + " rename to pawl_away")
		failed := map[string]error{}
		_, failed["record"] = d.RecordDeaths(t.Context(), letters(3))
		_, failed["redrive"] = d.MoveLetters(t.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionRedrive, By: ada, Push: &plain}})
		_, failed["resolve"] = d.MoveLetters(t.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionResolve, By: ada}})
		_, failed["forget"] = d.ForgetLetter(t.Context(), open.ID, ada)
		_, failed["clear"] = d.ClearQueue(t.Context(), "2-default", ada)
		failed["switch"] = d.SwitchKind(t.Context(), pawl.KindSwitch{Kind: "k"}, ada)
		_, failed["alerts"] = d.ClaimAlerts(t.Context(), pawl.AlertClaim{Sinks: []string{"mail"}, Max: 1})
		_, failed["letter"] = d.Letter(t.Context(), open.ID)
		d.exec("alter table pawl_away rename to " + table)
		needs := map[string][]string{
			"pawl_letter":   {"record", "redrive", "resolve", "forget", "alerts", "letter"},
			"pawl_evidence": {"record", "forget", "letter"},
			"pawl_audit":    {"redrive", "resolve", "forget", "clear", "switch"},
			"pawl_alert":    {"record", "forget", "alerts"},
			"pawl_switch":   {"switch"},
			"pawl_done":     {"redrive", "clear"},
			"pawl_counter":  {"redrive", "switch", "alerts"},
		}[table]
		for _, call := range needs {
			if failed[call] == nil {
				t.Errorf("%s without %s: no error", call, table)
			}
		}
		after := d.dump()
		touched := false // by the calls that did not need the table
		for call, err := range failed {
			touched = touched || err == nil && call != "letter"
		}
		if !touched {
			d.equal("tables after "+table+" was away", after, before)
		}
	}
}

// Each call that fails for want of a table leaves all others as they were.
func TestFailedCallLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without string
		call    func(d desk, open pawl.DeadLetter) error
	}{
		"record without alerts": {"pawl_alert", func(d desk, _ pawl.DeadLetter) error {
			_, err := d.RecordDeaths(d.Context(), letters(3))
			return err
		}},
		"record without evidence": {"pawl_evidence", func(d desk, _ pawl.DeadLetter) error {
			_, err := d.RecordDeaths(d.Context(), letters(3))
			return err
		}},
		"redrive without a trail": {"pawl_audit", func(d desk, open pawl.DeadLetter) error {
			push := d.jobs(1, pawl.UniqueWhileWaiting("k"))[0]
			_, err := d.MoveLetters(d.Context(), []pawl.Move{{Letter: open.ID, Action: pawl.ActionRedrive, By: ada, Push: &push}})
			return err
		}},
		"forget without a trail": {"pawl_audit", func(d desk, open pawl.DeadLetter) error {
			_, err := d.ForgetLetter(d.Context(), open.ID, ada)
			return err
		}},
		"clear without a trail": {"pawl_audit", func(d desk, _ pawl.DeadLetter) error {
			n, err := d.ClearQueue(d.Context(), "2-default", ada)
			d.equal("cleared", n, 0)
			return err
		}},
		"switch without a trail": {"pawl_audit", func(d desk, _ pawl.DeadLetter) error {
			return d.SwitchKind(d.Context(), pawl.KindSwitch{Kind: "k"}, ada)
		}},
		"pause without a counter": {"pawl_counter", func(d desk, _ pawl.DeadLetter) error {
			return d.PauseQueue(d.Context(), pawl.QueuePause{Queue: "q", Paused: true}, ada)
		}},
	} {
		d := openDesk(t)
		d.sinks("mail")
		open := letter()
		d.record(open)
		d.enqueue(d.jobs(3)...)
		before := d.dump()
		d.exec("alter table " + c.without + " rename to pawl_away")
		if err := c.call(d, open); err == nil {
			t.Errorf("%s: no error", name)
		}
		d.exec("alter table pawl_away rename to " + c.without)
		d.equal(name, d.dump(), before)
	}
}

// calls are all of an operator's.
func operatorCalls(d desk, ctx context.Context) map[string]error {
	errs := map[string]error{}
	_, errs["record"] = d.RecordDeaths(ctx, letters(1))
	_, errs["letters"] = d.Letters(ctx, pawl.LetterFilter{}, pawl.Page{})
	_, errs["letter"] = d.Letter(ctx, pawl.NewID())
	_, errs["count"] = d.CountLetters(ctx, pawl.LetterFilter{})
	_, errs["move"] = d.MoveLetters(ctx, []pawl.Move{{Letter: pawl.NewID(), Action: pawl.ActionResolve, By: ada}})
	_, errs["forget"] = d.ForgetLetter(ctx, pawl.NewID(), ada)
	_, errs["audit"] = d.Audit(ctx, pawl.AuditFilter{}, pawl.Page{})
	_, errs["jobs"] = d.Jobs(ctx, pawl.JobFilter{}, pawl.Page{})
	_, errs["job"] = d.Job(ctx, pawl.NewID())
	_, errs["queues"] = d.Queues(ctx)
	_, errs["clear"] = d.ClearQueue(ctx, "2-default", ada)
	errs["switch"] = d.SwitchKind(ctx, pawl.KindSwitch{Kind: "k"}, ada)
	errs["pause"] = d.PauseQueue(ctx, pawl.QueuePause{Queue: "q", Paused: true}, ada)
	_, errs["switches"] = d.Switches(ctx)
	_, errs["hosts"] = d.Hosts(ctx)
	_, errs["claim alerts"] = d.ClaimAlerts(ctx, pawl.AlertClaim{Sinks: []string{"mail"}, Max: 1})
	_, errs["settle alerts"] = d.SettleAlerts(ctx, []pawl.AlertResult{{Row: 1, Token: 1}})
	_, errs["sinks"] = d.Sinks(ctx)
	return errs
}

func TestCallsOfAClosedStore(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.ok("close", d.Close())
	for call, err := range operatorCalls(d, t.Context()) {
		if !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestCallsWhoseContextIsDone(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.enqueue(d.jobs(1)...)
	before := d.dump()
	cause := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for call, err := range operatorCalls(d, ctx) {
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v", call, err)
		}
	}
	d.equal("tables", d.dump(), before)
}
