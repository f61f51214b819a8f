package api

import (
	"context"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

func deadTable() []served {
	return []served{
		on(lettersRoute, (*Handler).letters),
		on(letterRoute, (*Handler).letter),
		on(countRoute, (*Handler).countLetters),
		on(groupsRoute, (*Handler).letterGroups),
		on(findGroupRoute, (*Handler).findGroup),
		on(alertsOfRoute, (*Handler).alertsOf),
		on(redriveRoute, (*Handler).redrive),
		on(redriveManyRoute, (*Handler).redriveMany),
		on(retryRoute, (*Handler).retry),
		on(retryManyRoute, (*Handler).retryMany),
		on(resolveRoute, closes(pawl.ActionResolve, (*ops.Desk).ResolveMany)),
		on(discardRoute, closes(pawl.ActionDiscard, (*ops.Desk).DiscardMany)),
		on(reopenRoute, closes(pawl.ActionReopen, (*ops.Desk).ReopenMany)),
		on(noteRoute, closes(pawl.ActionNote, (*ops.Desk).NoteMany)),
		on(forgetRoute, (*Handler).forgetLetter),
		on(forgetManyRoute, (*Handler).forgetMany),
		on(pruneRoute, (*Handler).pruneLetters),
		on(eraseRoute, (*Handler).eraseArgs),
		on(auditRoute, (*Handler).audit),
		on(sinksRoute, (*Handler).sinks),
		on(forgetSinkRoute, (*Handler).forgetSink),
		on(recordRoute, (*Handler).recordDeaths),
		on(moveRoute, (*Handler).moveLetters),
		on(claimAlertsRoute, (*Handler).claimAlerts),
		on(settleAlertsRoute, (*Handler).settleAlerts),
	}
}

// picks is the filter of a call. One who may not see messages may not search them either.
func (c call) picks(f filter) (pawl.LetterFilter, error) {
	if c.hide && f.Error != "" {
		return pawl.LetterFilter{}, &Error{Status: 403, Code: codeForbidden, Detail: "messages are hidden from this token: it may not search them"}
	}
	return f.Read(), nil
}

func (h *Handler) letters(ctx context.Context, c call, in lettersQuery) (letterPage, error) {
	filter, err := c.picks(in.filter)
	if err != nil {
		return letterPage{}, err
	}
	page, err := h.store.Letters(ctx, filter, in.page())
	out := letterPage{wire.Each(page.Letters, wire.LetterOf), wire.Text(page.Next)}
	if c.hide {
		for i := range out.Letters {
			hideLetter(&out.Letters[i])
		}
	}
	return out, err
}

func (h *Handler) letter(ctx context.Context, c call, in letterQuery) (letterDetail, error) {
	letter, err := h.store.Letter(ctx, in.ID)
	if err != nil {
		return letterDetail{}, err
	}
	out := wire.LetterDetailOf(letter, in.Payload && !c.hide)
	if c.hide {
		hideLetter(&out.Letter)
		out.Detail = hidden(out.Detail)
		hideAttempts(out.History)
	}
	return out, nil
}

func (h *Handler) countLetters(ctx context.Context, c call, in filter) (counted, error) {
	filter, err := c.picks(in)
	if err != nil {
		return counted{}, err
	}
	n, err := h.store.CountLetters(ctx, filter)
	return counted{n}, err
}

func (h *Handler) letterGroups(ctx context.Context, c call, in groupsQuery) (groups, error) {
	filter, err := c.picks(in.filter)
	if err != nil {
		return groups{}, err
	}
	found, err := h.store.LetterGroups(ctx, filter, int(in.Limit))
	out := groups{wire.Each(found.Groups, wire.GroupOf), found.All, found.Letters, wire.Stamp(found.From), found.Width.Milliseconds()}
	if c.hide {
		for i := range out.Groups {
			out.Groups[i].Message = hidden(out.Groups[i].Message)
		}
	}
	return out, err
}

func (h *Handler) findGroup(ctx context.Context, _ call, in groupQuery) (foundGroup, error) {
	group, err := h.store.FindGroup(ctx, in.Group)
	return foundGroup{group}, err
}

func (h *Handler) alertsOf(ctx context.Context, c call, in letterPath) (letterAlerts, error) {
	found, err := h.store.AlertsOf(ctx, in.ID)
	out := letterAlerts{wire.Each(found, wire.LetterAlertOf)}
	if c.hide {
		for i := range out.Alerts {
			out.Alerts[i].LastError = hidden(out.Alerts[i].LastError)
		}
	}
	return out, err
}

func (a again) options(c call) ops.RedriveOptions {
	return ops.RedriveOptions{
		By: c.by(a.acting), Note: a.Note, RetryUntil: time.Time(a.RetryUntil), RetryFor: wire.Span(a.RetryForMS), Confirmed: a.Confirmed,
	}
}

func (h *Handler) redrive(ctx context.Context, c call, in redriving) (letterActed, error) {
	o := in.options(c)
	o.Args = in.Args
	switch {
	case in.Many && !in.DryRun:
		return letterActed{}, &pawl.FieldError{Field: "many", Value: true, Rule: "must be given with dry_run only"}
	case in.Many:
		return acted(pawl.ActionRedrive, ops.Result{Letter: in.ID, Err: h.desk.CheckRedriveMany(ctx, in.ID, o)}, true), nil
	case in.DryRun:
		return acted(pawl.ActionRedrive, ops.Result{Letter: in.ID, Err: h.desk.CheckRedrive(ctx, in.ID, o)}, true), nil
	}
	job, err := h.desk.Redrive(ctx, in.ID, o)
	return alone(pawl.ActionRedrive, in.ID, job, err)
}

func (h *Handler) redriveMany(ctx context.Context, c call, in redrivingMany) (letterActs, error) {
	if err := fewEnough("ids", len(in.IDs)); err != nil {
		return letterActs{}, err
	}
	o := in.options(c)
	if in.DryRun {
		return rehearsal(pawl.ActionRedrive, in.IDs, func(id pawl.ID) error { return h.desk.CheckRedriveMany(ctx, id, o) }), nil
	}
	return allActed(pawl.ActionRedrive, h.desk.RedriveMany(ctx, in.IDs, o)), nil
}

func (r retryOnce) options(c call) ops.RetryOptions {
	return ops.RetryOptions{By: c.by(r.acting), Note: r.Note, Confirmed: r.Confirmed}
}

func (h *Handler) retry(ctx context.Context, c call, in retrying) (letterActed, error) {
	if in.DryRun {
		return acted(pawl.ActionRetry, ops.Result{Letter: in.ID, Err: h.desk.CheckRetry(ctx, in.ID, in.options(c))}, true), nil
	}
	job, err := h.desk.Retry(ctx, in.ID, in.options(c))
	return alone(pawl.ActionRetry, in.ID, job, err)
}

func (h *Handler) retryMany(ctx context.Context, c call, in retryingMany) (letterActs, error) {
	if err := fewEnough("ids", len(in.IDs)); err != nil {
		return letterActs{}, err
	}
	if in.DryRun {
		return rehearsal(pawl.ActionRetry, in.IDs, func(id pawl.ID) error { return h.desk.CheckRetry(ctx, id, in.options(c)) }), nil
	}
	return allActed(pawl.ActionRetry, h.desk.RetryMany(ctx, in.IDs, in.options(c))), nil
}

// closes is the work of the routes that change letters' status and nothing else.
func closes(action pawl.Action, work func(d *ops.Desk, ctx context.Context, ids []pawl.ID, by pawl.By, note string) ops.Results) func(*Handler, context.Context, call, closing) (letterActs, error) {
	return func(h *Handler, ctx context.Context, c call, in closing) (letterActs, error) {
		if err := fewEnough("ids", len(in.IDs)); err != nil {
			return letterActs{}, err
		}
		return allActed(action, work(h.desk, ctx, in.IDs, c.by(in.acting), in.Note)), nil
	}
}

func (h *Handler) forgetLetter(ctx context.Context, c call, in letterAct) (forgotten, error) {
	there, err := h.store.ForgetLetter(ctx, in.ID, c.by(in.acting))
	return forgotten{there}, err
}

func (h *Handler) forgetMany(ctx context.Context, c call, in forgetting) (letterActs, error) {
	if err := fewEnough("ids", len(in.IDs)); err != nil {
		return letterActs{}, err
	}
	return allActed(pawl.ActionForget, h.desk.ForgetMany(ctx, in.IDs, c.by(in.acting))), nil
}

// alone is the answer about one letter. A refusal is one of the whole call; it names the job where there is one.
func alone(action pawl.Action, letter, job pawl.ID, err error) (letterActed, error) {
	if err != nil {
		refused := asError(err)
		refused.JobID = job
		return letterActed{}, refused
	}
	return acted(action, ops.Result{Letter: letter, Job: job}, false), nil
}

func acted(action pawl.Action, r ops.Result, dry bool) letterActed {
	out := letterActed{wire.LetterActed{LetterID: r.Letter, Action: action, OK: r.Err == nil, JobID: ref(r.Job), DryRun: dry}, refusal(r.Err)}
	if r.Err != nil {
		out.Error = wire.Text(r.Err.Error())
	}
	return out
}

func allActed(action pawl.Action, results ops.Results) letterActs {
	return letterActs{wire.Each(results, func(r ops.Result) letterActed { return acted(action, r, false) })}
}

func rehearsal(action pawl.Action, ids []pawl.ID, check func(pawl.ID) error) letterActs {
	return letterActs{wire.Each(ids, func(id pawl.ID) letterActed { return acted(action, ops.Result{Letter: id, Err: check(id)}, true) })}
}

func (h *Handler) pruneLetters(ctx context.Context, c call, in pruning) (pruned, error) {
	done, err := h.store.PruneLetters(ctx, in.Filter.Read(), c.by(in.acting))
	return pruned(done), err
}

func (h *Handler) eraseArgs(ctx context.Context, c call, in erasing) (erased, error) {
	done, err := h.store.EraseArgs(ctx, pawl.Erase{
		IDs: in.IDs, CorrelationID: in.CorrelationID, Tag: in.Tag, Kind: in.Kind, Text: in.Text, By: c.by(in.acting),
		Texts: in.Texts, Unfinished: in.Unfinished, Expect: in.Expect, DryRun: in.DryRun,
	})
	return wire.ErasedOf(done), err
}

func (h *Handler) audit(ctx context.Context, c call, in auditQuery) (auditPage, error) {
	filter := pawl.AuditFilter{Subject: in.Subject, Who: in.Who, Action: pawl.Action(in.Action), Since: in.Since}
	page, err := h.store.Audit(ctx, filter, in.page())
	out := auditPage{wire.Each(page.Entries, wire.AuditEntryOf), wire.Text(page.Next)}
	for i, entry := range out.Entries {
		if c.hide && entry.Door == "pawl" { // it may repeat a message
			out.Entries[i].Why = hidden(entry.Why)
		}
		if c.hide && strings.HasPrefix(entry.Subject, "schedule ") { // they say the args
			out.Entries[i].From, out.Entries[i].To = hidden(entry.From), hidden(entry.To)
		}
	}
	return out, err
}

func (h *Handler) sinks(ctx context.Context, c call, _ none) (sinkList, error) {
	found, err := h.store.Sinks(ctx)
	out := sinkList{wire.Each(found, wire.SinkOf)}
	if c.hide {
		for i := range out.Sinks {
			out.Sinks[i].LastError = hidden(out.Sinks[i].LastError)
		}
	}
	return out, err
}

func (h *Handler) forgetSink(ctx context.Context, c call, in sinkAct) (sinkForgotten, error) {
	n, err := h.store.ForgetSink(ctx, in.Sink, c.by(in.acting))
	return sinkForgotten{in.Sink, n}, err
}

func (h *Handler) recordDeaths(ctx context.Context, _ call, in recording) (recorded, error) {
	if err := fewEnough("letters", len(in.Letters)); err != nil {
		return recorded{}, err
	}
	done, err := h.store.RecordDeaths(ctx, wire.Each(in.Letters, wire.Death.Read))
	return recorded{wire.Each(done, func(r pawl.Recorded) wire.Recorded { return wire.Recorded(r) })}, err
}

func (h *Handler) moveLetters(ctx context.Context, c call, in moving) (results, error) {
	if err := fewEnough("moves", len(in.Moves)); err != nil {
		return results{}, err
	}
	moves := make([]pawl.Move, len(in.Moves))
	for i, m := range in.Moves {
		moves[i] = m.Read()
		moves[i].By = c.by(acting{m.By, m.Reason})
	}
	errs, err := h.store.MoveLetters(ctx, moves)
	return resultsOf(errs), err
}

func resultsOf(errs []error) results {
	return results{wire.Each(errs, func(err error) result { return result{err == nil, refusal(err)} })}
}

func (h *Handler) claimAlerts(ctx context.Context, _ call, in claiming) (alertTasks, error) {
	tasks, err := h.store.ClaimAlerts(ctx, pawl.AlertClaim{
		Session: in.Session, Sinks: in.Sinks, Max: in.Max, Storm: pawl.Storm{Deaths: in.StormDeaths, Window: wire.Span(in.StormWindowMS)},
	})
	return alertTasks{wire.Each(tasks, wire.AlertOf)}, err
}

func (h *Handler) settleAlerts(ctx context.Context, _ call, in settling) (results, error) {
	errs, err := h.store.SettleAlerts(ctx, wire.Each(in.Results, func(d delivery) pawl.AlertResult {
		return pawl.AlertResult{Row: d.Row, Token: pawl.Token(d.Token), Delivered: d.Delivered, After: wire.Span(d.AfterMS), Error: d.Error}
	}))
	return resultsOf(errs), err
}
