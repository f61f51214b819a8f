package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

var (
	_ pawl.Operator = (*Client)(nil)
	_ pawl.Enqueuer = (*Client)(nil)
)

// actingOf refuses an act without an actor, as a store does, before anything is sent.
func actingOf(by pawl.By) (acting, error) { return acting{by.Who, by.Why}, desk.CheckBy(by) }

// Enqueue hands in jobs, at most 1,000. It is repeated when the server does not answer, so jobs may be told as
// pawl.Repeated that this very call has stored.
func (c *Client) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	for _, job := range jobs {
		if err := job.Check(); err != nil {
			return nil, err
		}
	}
	switch first := slices.IndexFunc(jobs, func(job pawl.NewJob) bool { return job.Opens }); {
	case first == 0:
		return c.enqueueBatch(ctx, jobs)
	case first > 0:
		return nil, fmt.Errorf("over the API the job that opens a batch comes first: %w", pawl.ErrUnsupported)
	}
	if err := fewEnough("jobs", len(jobs)); err != nil {
		return nil, err
	}
	answer, err := send(ctx, c, enqueueRoute, enqueuing{Jobs: wire.Each(jobs, wire.NewJobOf)})
	if err == nil && len(answer.Jobs) != len(jobs) {
		err = shortAnswer(len(answer.Jobs), len(jobs))
	}
	return wire.Each(answer.Jobs, wire.Enqueued.Read), err
}

func shortAnswer(got, want int) error {
	return fmt.Errorf("the server has answered about %d of %d", got, want)
}

// Jobs is pawl.Jobs.Jobs.
func (c *Client) Jobs(ctx context.Context, filter pawl.JobFilter, page pawl.Page) (pawl.JobPage, error) {
	if err := desk.CheckJobs(filter); err != nil {
		return pawl.JobPage{}, err
	}
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.JobPage{}, err
	}
	answer, err := send(ctx, c, jobsRoute, jobsQuery{string(filter.State), filter.Kind, filter.Queue, filter.Since, paging})
	return pawl.JobPage{Jobs: wire.Each(answer.Jobs, wire.Job.Read), Next: string(answer.Next)}, err
}

// Job is pawl.Jobs.Job.
func (c *Client) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	answer, err := send(ctx, c, jobRoute, jobQuery{id, true})
	return answer.Read(), err
}

// Queues is pawl.Jobs.Queues.
func (c *Client) Queues(ctx context.Context) ([]pawl.QueueView, error) {
	answer, err := send(ctx, c, queuesRoute, none{})
	return wire.Each(answer.Queues, wire.Queue.Read), err
}

// BusyQueues is pawl.Jobs.BusyQueues.
func (c *Client) BusyQueues(ctx context.Context) ([]string, error) {
	answer, err := send(ctx, c, busyQueuesRoute, none{})
	return answer.Names, err
}

// QueueHeads is pawl.Jobs.QueueHeads.
func (c *Client) QueueHeads(ctx context.Context) ([]pawl.QueueHead, error) {
	answer, err := send(ctx, c, queueHeadsRoute, none{})
	return wire.Each(answer.Heads, wire.QueueHead.Read), err
}

// ClearQueue is pawl.Jobs.ClearQueue.
func (c *Client) ClearQueue(ctx context.Context, queue string, by pawl.By) (int, error) {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckName("queue", queue)
	}
	if err != nil {
		return 0, err
	}
	answer, err := send(ctx, c, clearRoute, queueAct{queue, act})
	return answer.Cleared, err
}

// CancelJobs is pawl.Jobs.CancelJobs.
func (c *Client) CancelJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]pawl.Cancelled, error) {
	results, err := actOnJobs(ctx, c, cancelRoute, ids, by)
	if err != nil {
		return nil, err
	}
	return wire.Each(results, func(r jobActed) pawl.Cancelled {
		return pawl.Cancelled{State: pawl.JobState(r.State), Err: r.Problem.err()}
	}), nil
}

// RunJobsNow is pawl.Jobs.RunJobsNow.
func (c *Client) RunJobsNow(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	results, err := actOnJobs(ctx, c, runNowRoute, ids, by)
	if err != nil {
		return nil, err
	}
	return wire.Each(results, func(r jobActed) error { return r.Problem.err() }), nil
}

// DeleteJobs is pawl.Jobs.DeleteJobs.
func (c *Client) DeleteJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	results, err := actOnJobs(ctx, c, deleteRoute, ids, by)
	if err != nil {
		return nil, err
	}
	return wire.Each(results, func(r jobActed) error { return r.Problem.err() }), nil
}

func actOnJobs(ctx context.Context, c *Client, e endpoint[jobsAct, jobActs], ids []pawl.ID, by pawl.By) ([]jobActed, error) {
	act, err := actingOf(by)
	if err != nil {
		return nil, err
	}
	answer, err := send(ctx, c, e, jobsAct{wire.List(ids), act})
	if err == nil && len(answer.Results) != len(ids) {
		err = shortAnswer(len(answer.Results), len(ids))
	}
	return answer.Results, err
}

// SwitchKind is pawl.Controls.SwitchKind.
func (c *Client) SwitchKind(ctx context.Context, s pawl.KindSwitch, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckName("kind", s.Kind)
	}
	if err == nil {
		err = desk.CheckEnd(s.Until, s.For)
	}
	if err != nil {
		return err
	}
	_, err = send(ctx, c, switchRoute, switching{s.Kind, &s.On, wire.Stamp(s.Until), wire.Millis(s.For), act})
	return err
}

// ResetKind is pawl.Controls.ResetKind.
func (c *Client) ResetKind(ctx context.Context, kind string, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckName("kind", kind)
	}
	if err != nil {
		return err
	}
	_, err = send(ctx, c, resetRoute, kindAct{kind, act})
	return err
}

// PauseQueue is pawl.Controls.PauseQueue.
func (c *Client) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckName("queue", p.Queue)
	}
	if err == nil {
		err = desk.CheckEnd(p.Until, p.For)
	}
	if err != nil {
		return err
	}
	_, err = send(ctx, c, pauseRoute, pausing{p.Queue, &p.Paused, wire.Stamp(p.Until), wire.Millis(p.For), act})
	return err
}

// Switches is pawl.Controls.Switches.
func (c *Client) Switches(ctx context.Context) (pawl.Switches, error) {
	answer, err := send(ctx, c, switchesRoute, none{})
	return pawl.Switches{Kinds: wire.Each(answer.Kinds, wire.KindSwitch.Read), Queues: wire.Each(answer.Queues, wire.QueuePause.Read)}, err
}

// Limits is pawl.Limits.Limits.
func (c *Client) Limits(ctx context.Context) ([]pawl.KindLimit, error) {
	answer, err := send(ctx, c, limitsRoute, none{})
	return wire.Each(answer.Limits, wire.KindLimit.Read), err
}

// SetLimit is pawl.Limits.SetLimit.
func (c *Client) SetLimit(ctx context.Context, kind string, limit *pawl.Limit, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckName("kind", kind)
	}
	if err != nil {
		return err
	}
	in := limiting{Kind: kind, acting: act}
	if limit != nil {
		form := wire.LimitOf(*limit)
		in.Limit = &form
	}
	_, err = send(ctx, c, limitRoute, in)
	return err
}

// Hosts is pawl.Hosts.Hosts.
func (c *Client) Hosts(ctx context.Context) ([]pawl.HostView, error) {
	answer, err := send(ctx, c, hostsRoute, none{})
	return wire.Each(answer.Hosts, wire.Host.Read), err
}

// QuietHost is pawl.Hosts.QuietHost.
func (c *Client) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	act, err := actingOf(by)
	if err != nil {
		return err
	}
	_, err = send(ctx, c, quietRoute, hostAct{session, act})
	return err
}

// DrainHost is pawl.Hosts.DrainHost.
func (c *Client) DrainHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	act, err := actingOf(by)
	if err != nil {
		return err
	}
	_, err = send(ctx, c, drainRoute, hostAct{session, act})
	return err
}

var _ ops.StatusSource = (*Client)(nil)

// maxCursor is longer than any cursor is; a longer one would not fit into a URL.
const maxCursor = 512

func pagingOf(p pawl.Page) (paging, error) {
	if len(p.After) > maxCursor {
		return paging{}, &pawl.FieldError{Field: "page", Value: p.After, Rule: "must be the Next of a page of this list"}
	}
	return paging{pageSize(p.Limit), p.After}, nil
}
