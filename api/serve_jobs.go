package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// table is what is served. Every route of package api is in it, once.
func table() []served {
	return append([]served{
		on(aboutRoute, (*Handler).about),
		on(describeRoute, (*Handler).describe),
		on(enqueueRoute, (*Handler).enqueue),
		on(jobsRoute, (*Handler).jobs),
		on(jobRoute, (*Handler).job),
		on(cancelRoute, (*Handler).cancelJobs),
		on(runNowRoute, (*Handler).runJobsNow),
		on(deleteRoute, (*Handler).deleteJobs),
		on(queuesRoute, (*Handler).queues),
		on(busyQueuesRoute, (*Handler).busyQueues),
		on(queueHeadsRoute, (*Handler).queueHeads),
		on(clearRoute, (*Handler).clearQueue),
		on(pauseRoute, (*Handler).pauseQueue),
		on(switchRoute, (*Handler).switchKind),
		on(resetRoute, (*Handler).resetKind),
		on(switchesRoute, (*Handler).switches),
		on(limitsRoute, (*Handler).limits),
		on(limitRoute, (*Handler).setLimit),
		on(hostsRoute, (*Handler).hosts),
		on(quietRoute, (*Handler).quietHost),
		on(drainRoute, (*Handler).drainHost),
		on(statusRoute, (*Handler).status),
	}, slices.Concat(batchesTable(), deadTable(), operationsTable(), schedulesTable(), outboxesTable())...)
}

func (h *Handler) about(_ context.Context, c call, _ none) (about, error) {
	connection := h.store.Connection()
	return about{connection.Name, wire.PolicyOf(connection.Policy), h.version, c.token.Name, c.token.Role}, nil
}

func (h *Handler) describe(context.Context, call, none) (document, error) { return h.document, nil }

// one returns the single job that was asked for, or nil.
func (e enqueuing) one() (*wire.NewJob, error) {
	said, err := wire.Encode(e.NewJob)
	switch {
	case err != nil:
		return nil, err
	case e.Jobs == nil:
		return &e.NewJob, nil
	case string(said) != "{}\n":
		return nil, &pawl.FieldError{Field: "jobs", Value: len(e.Jobs), Rule: "must not be given with the fields of one job"}
	}
	return nil, nil
}

func (e enqueued) status() int {
	if e.Enqueued != nil {
		e.Jobs = []wire.Enqueued{*e.Enqueued}
	}
	if slices.ContainsFunc(e.Jobs, func(job wire.Enqueued) bool { return job.Status == pawl.Accepted.String() }) {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (h *Handler) enqueue(ctx context.Context, c call, in enqueuing) (out enqueued, err error) {
	one, err := in.one()
	if err != nil {
		return out, err
	}
	asked := in.Jobs
	if one != nil {
		asked = []wire.NewJob{*one}
	}
	if err := fewEnough("jobs", len(asked)); err != nil {
		return out, err
	}
	jobs := make([]pawl.NewJob, len(asked))
	for i, job := range asked {
		if jobs[i], err = job.Job(ctx, h.store.Connection()); err == nil {
			err = c.mayEnqueue(jobs[i])
		}
		if err != nil && one == nil {
			err = fmt.Errorf("job %d of %d: %w", i+1, len(asked), err)
		}
		if err != nil {
			return out, err
		}
	}
	stored, err := h.store.Enqueue(ctx, jobs)
	if err != nil {
		return out, err
	}
	for i, result := range stored {
		out.Jobs = append(out.Jobs, wire.EnqueuedOf(jobs[i], result))
	}
	if one != nil {
		out = enqueued{Enqueued: &out.Jobs[0]}
	}
	return out, nil
}

// mayEnqueue keeps one who only enqueues from passing a job off as the redrive of a letter.
func (c call) mayEnqueue(job pawl.NewJob) error {
	if job.Letter.IsZero() || c.token.Role != RoleEnqueue {
		return nil
	}
	return &pawl.FieldError{Field: "letter id", Value: job.Letter, Rule: "must not be given with a token of role enqueue"}
}

// fewEnough bounds a call about many.
func fewEnough(field string, n int) error {
	if n < 1 || n > maxMany {
		return &pawl.FieldError{Field: field, Value: n, Rule: fmt.Sprintf("must be at least 1 and at most %d", maxMany)}
	}
	return nil
}

func (h *Handler) jobs(ctx context.Context, c call, in jobsQuery) (jobPage, error) {
	filter := pawl.JobFilter{State: pawl.JobState(in.State), Kind: in.Kind, Queue: in.Queue, Since: in.Since}
	page, err := h.store.Jobs(ctx, filter, in.page())
	return c.jobs(page), err
}

// jobs are jobs as the token may see them.
func (c call) jobs(page pawl.JobPage) jobPage {
	out := jobPage{wire.Each(page.Jobs, wire.JobOf), wire.Text(page.Next)}
	if c.hide {
		for i := range out.Jobs {
			out.Jobs[i].Progress = hidden(out.Jobs[i].Progress)
		}
	}
	return out
}

func (h *Handler) job(ctx context.Context, c call, in jobQuery) (jobDetail, error) {
	job, err := h.store.Job(ctx, in.ID)
	if err != nil {
		return jobDetail{}, err
	}
	lacks := ops.Lack("")
	if job.State == pawl.JobWaiting {
		hosts, err := h.store.Hosts(ctx)
		if err != nil {
			return jobDetail{}, err
		}
		lacks = ops.LackOf(hosts, job)
	}
	detail := wire.JobDetailOf(job, string(lacks), in.Payload && !c.hide)
	if c.hide {
		detail.Progress = hidden(detail.Progress)
		hideAttempts(detail.History)
	}
	return detail, nil
}

func (h *Handler) cancelJobs(ctx context.Context, c call, in jobsAct) (jobActs, error) {
	results, err := h.store.CancelJobs(ctx, in.IDs, c.by(in.acting))
	acts := make([]jobActed, len(results))
	for i, r := range results {
		acts[i] = jobDone(pawl.ActionCancel, in.IDs[i], r.State, r.Err)
	}
	return jobActs{acts}, err
}

func (h *Handler) runJobsNow(ctx context.Context, c call, in jobsAct) (jobActs, error) {
	errs, err := h.store.RunJobsNow(ctx, in.IDs, c.by(in.acting))
	return jobsDone(pawl.ActionRunNow, in.IDs, pawl.JobWaiting, errs), err
}

func (h *Handler) deleteJobs(ctx context.Context, c call, in jobsAct) (jobActs, error) {
	errs, err := h.store.DeleteJobs(ctx, in.IDs, c.by(in.acting))
	return jobsDone(pawl.ActionDelete, in.IDs, pawl.JobRemoved, errs), err
}

func jobsDone(action pawl.Action, ids []pawl.ID, state pawl.JobState, errs []error) jobActs {
	acts := make([]jobActed, len(errs))
	for i, err := range errs {
		acts[i] = jobDone(action, ids[i], state, err)
	}
	return jobActs{acts}
}

func jobDone(action pawl.Action, id pawl.ID, state pawl.JobState, err error) jobActed {
	acted := jobActed{wire.JobActed{JobID: id, Action: action, OK: err == nil}, refusal(err)}
	if err != nil {
		acted.Error = wire.Text(withoutEcho(err.Error()))
	} else {
		acted.State = wire.Text(state)
	}
	return acted
}

func (h *Handler) queues(ctx context.Context, _ call, _ none) (queueList, error) {
	found, err := h.store.Queues(ctx)
	if err != nil {
		return queueList{}, err
	}
	hosts, err := h.store.Hosts(ctx)
	if err != nil {
		return queueList{}, err
	}
	set, err := h.store.Switches(ctx)
	return queueList{wire.Each(found, func(q pawl.QueueView) wire.Queue {
		return wire.QueueOf(q, ops.Serving(hosts, q.Name), set.Queues)
	})}, err
}

func (h *Handler) busyQueues(ctx context.Context, _ call, _ none) (names, error) {
	found, err := h.store.BusyQueues(ctx)
	return names{wire.List(found)}, err
}

func (h *Handler) queueHeads(ctx context.Context, _ call, _ none) (queueHeads, error) {
	heads, err := h.store.QueueHeads(ctx)
	return queueHeads{wire.Each(heads, wire.QueueHeadOf)}, err
}

func (h *Handler) clearQueue(ctx context.Context, c call, in queueAct) (cleared, error) {
	n, err := h.store.ClearQueue(ctx, in.Queue, c.by(in.acting))
	return cleared{Queue: in.Queue, Cleared: n}, err
}

func (h *Handler) pauseQueue(ctx context.Context, c call, in pausing) (queuePause, error) {
	if in.Paused == nil {
		return queuePause{}, &pawl.FieldError{Field: "paused", Value: "", Rule: "must be given"}
	}
	pause := pawl.QueuePause{Queue: in.Queue, Paused: *in.Paused, Until: time.Time(in.Until), For: wire.Span(in.ForMS)}
	err := h.store.PauseQueue(ctx, pause, c.by(in.acting))
	if err == nil && pause.For > 0 {
		pause.Until, err = h.endOf(ctx, desk.OfQueue, in.Queue)
	}
	return wire.QueuePauseOf(pause), err
}

func (h *Handler) switchKind(ctx context.Context, c call, in switching) (kindSwitch, error) {
	if in.On == nil {
		return kindSwitch{}, &pawl.FieldError{Field: "on", Value: "", Rule: "must be given"}
	}
	set := pawl.KindSwitch{Kind: in.Kind, On: *in.On, Until: time.Time(in.Until), For: wire.Span(in.ForMS)}
	err := h.store.SwitchKind(ctx, set, c.by(in.acting))
	if err == nil && set.For > 0 {
		set.Until, err = h.endOf(ctx, desk.OfKind, in.Kind)
	}
	return wire.KindSwitchOf(set), err
}

// endOf is the end that the store has made of a time from its now.
func (h *Handler) endOf(ctx context.Context, what, name string) (time.Time, error) {
	set, err := h.store.Switches(ctx)
	return desk.EndOf(set, what, name), err
}

func (h *Handler) resetKind(ctx context.Context, c call, in kindAct) (none, error) {
	return none{}, h.store.ResetKind(ctx, in.Kind, c.by(in.acting))
}

func (h *Handler) switches(ctx context.Context, _ call, _ none) (switches, error) {
	set, err := h.store.Switches(ctx)
	return switches{wire.Each(set.Kinds, wire.KindSwitchOf), wire.Each(set.Queues, wire.QueuePauseOf)}, err
}

func (h *Handler) limits(ctx context.Context, _ call, _ none) (limits, error) {
	found, err := h.store.Limits(ctx)
	return limits{wire.Each(found, wire.KindLimitOf)}, err
}

func (h *Handler) setLimit(ctx context.Context, c call, in limiting) (none, error) {
	var limit *pawl.Limit
	if in.Limit != nil {
		read := in.Limit.Read()
		limit = &read
	}
	return none{}, h.store.SetLimit(ctx, in.Kind, limit, c.by(in.acting))
}

func (h *Handler) hosts(ctx context.Context, _ call, _ none) (hostList, error) {
	found, err := h.store.Hosts(ctx)
	return hostList{wire.Each(found, wire.HostOf)}, err
}

func (h *Handler) quietHost(ctx context.Context, c call, in hostAct) (none, error) {
	return none{}, h.store.QuietHost(ctx, in.Session, c.by(in.acting))
}

func (h *Handler) drainHost(ctx context.Context, c call, in hostAct) (none, error) {
	return none{}, h.store.DrainHost(ctx, in.Session, c.by(in.acting))
}

func (h *Handler) status(ctx context.Context, c call, in statusQuery) (status, error) {
	found, err := ops.ReadStatus(ctx, h.store, ops.StatusOptions{Wait: wire.Span(in.WaitMS)})
	if err != nil {
		return status{}, err
	}
	found.JudgeOutboxes(h.lookAt(ctx, h.boxes), wire.Span(in.WaitMS))
	if c.hide {
		hideStatus(&found)
	}
	return wire.StatusOf(found, nil), nil
}
