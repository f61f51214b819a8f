package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
)

// The routes of batches. A batch grows by the route that enqueues jobs.
var (
	enqueueBatchRoute = to[batching, batched](route{
		name: "EnqueueBatch", method: http.MethodPost, path: "/batches", needs: RoleOperator, enqueues: true, creates: true,
		slow: true, repeats: true, // with ids, as the client does
		doc: "Enqueue up to 1,000 jobs, and one that follows when all of them have ended: all or none. The answer comes when they are durable: 201, or " +
			"200 when nothing new was stored. With ids of the client's own it can be repeated without harm.",
	})
	batchesRoute = to[batchesQuery, batchPage](route{
		name: "Batches", path: "/batches", needs: RoleViewer,
		doc: "List batches, the one that was opened last first: those that are open, and those that have ended within 24 hours.",
	})
	batchRoute = to[batchPath, batch](route{
		name: "Batch", path: "/batches/{id}", needs: RoleViewer,
		doc: "Look at one batch: how many members it has, and how many have ended in which way.",
	})
	batchMembersRoute = to[membersQuery, jobPage](route{
		name: "BatchMembers", path: "/batches/{id}/members", needs: RoleViewer,
		doc: "List the members of a batch that have not ended, by their ids.",
	})
)

type batch = wire.Batch

type batching struct {
	wire.NewJob
	Members []wire.NewJob `json:"members,omitempty" doc:"the jobs that it follows, at most 1,000; more join while one of them has not ended"`
}

type batched struct {
	wire.Enqueued
	Members []wire.Enqueued `json:"members" doc:"result i belongs to member i"`
}

func (b batched) status() int { return enqueued{Jobs: append(b.Members, b.Enqueued)}.status() }

type batchesQuery struct {
	State string    `query:"state" doc:"open or ended"`
	Kind  string    `query:"kind" doc:"followed by a job of this kind"`
	Queue string    `query:"queue" doc:"followed by a job in this queue"`
	Since time.Time `query:"since" doc:"opened at or after this time"`
	paging
}

type batchPage struct {
	Batches []wire.Batch `json:"batches" doc:"this page"`
	Next    wire.Text    `json:"next" doc:"where the next page begins; null on the last"`
}

type batchPath struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the batch"`
}

type membersQuery struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the batch"`
	paging
}

func batchesTable() []served {
	return []served{
		on(enqueueBatchRoute, (*Handler).enqueueBatch),
		on(batchesRoute, (*Handler).batches),
		on(batchRoute, (*Handler).batch),
		on(batchMembersRoute, (*Handler).batchMembers),
	}
}

func (h *Handler) enqueueBatch(ctx context.Context, c call, in batching) (out batched, err error) {
	if len(in.Members) > maxMany {
		return out, fewEnough("members", len(in.Members))
	}
	callback, err := in.Job(ctx, h.store.Connection())
	if err != nil {
		return out, err
	}
	members := make([]pawl.NewJob, len(in.Members))
	for i, member := range in.Members {
		if members[i], err = member.Job(ctx, h.store.Connection()); err == nil {
			err = c.mayEnqueue(members[i])
		}
		if err != nil {
			return out, fmt.Errorf("member %d of %d: %w", i+1, len(members), err)
		}
	}
	jobs, err := pawl.NewBatch(callback, members)
	if err != nil {
		return out, err
	}
	stored, err := h.store.Enqueue(ctx, jobs)
	if err != nil {
		return out, err
	}
	all := make([]wire.Enqueued, len(stored))
	for i, result := range stored {
		all[i] = wire.EnqueuedOf(jobs[i], result)
	}
	return batched{all[0], all[1:]}, nil
}

func (h *Handler) batches(ctx context.Context, _ call, in batchesQuery) (batchPage, error) {
	filter := pawl.BatchFilter{State: pawl.BatchState(in.State), Kind: in.Kind, Queue: in.Queue, Since: in.Since}
	page, err := h.store.Batches(ctx, filter, in.page())
	return batchPage{wire.Each(page.Batches, wire.BatchOf), wire.Text(page.Next)}, err
}

func (h *Handler) batch(ctx context.Context, _ call, in batchPath) (batch, error) {
	found, err := h.store.Batch(ctx, in.ID)
	return wire.BatchOf(found), err
}

func (h *Handler) batchMembers(ctx context.Context, c call, in membersQuery) (jobPage, error) {
	page, err := h.store.BatchMembers(ctx, in.ID, in.page())
	return c.jobs(page), err
}

// enqueueBatch opens a batch: the first of the jobs follows it, and the others are its members.
func (c *Client) enqueueBatch(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	callback, members := jobs[0], jobs[1:]
	for _, job := range members {
		if job.Opens || job.Member() != callback.ID {
			return nil, fmt.Errorf("over the API a call opens one batch, with its members and nothing else: %w", pawl.ErrUnsupported)
		}
	}
	if len(members) > maxMany {
		return nil, fewEnough("members", len(members))
	}
	answer, err := send(ctx, c, enqueueBatchRoute, batching{wire.NewJobOf(callback), wire.Each(members, wire.NewJobOf)})
	if err != nil {
		return nil, err
	}
	if len(answer.Members) != len(members) {
		return nil, shortAnswer(len(answer.Members), len(members))
	}
	return wire.Each(append([]wire.Enqueued{answer.Enqueued}, answer.Members...), wire.Enqueued.Read), nil
}

// Batch is pawl.Batches.Batch.
func (c *Client) Batch(ctx context.Context, id pawl.ID) (pawl.Batch, error) {
	answer, err := send(ctx, c, batchRoute, batchPath{id})
	return answer.Read(), err
}

// Batches is pawl.Batches.Batches.
func (c *Client) Batches(ctx context.Context, f pawl.BatchFilter, page pawl.Page) (pawl.BatchPage, error) {
	if err := desk.CheckBatches(f); err != nil {
		return pawl.BatchPage{}, err
	}
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.BatchPage{}, err
	}
	answer, err := send(ctx, c, batchesRoute, batchesQuery{string(f.State), f.Kind, f.Queue, f.Since, paging})
	return pawl.BatchPage{Batches: wire.Each(answer.Batches, wire.Batch.Read), Next: string(answer.Next)}, err
}

// BatchMembers is pawl.Batches.BatchMembers.
func (c *Client) BatchMembers(ctx context.Context, id pawl.ID, page pawl.Page) (pawl.JobPage, error) {
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.JobPage{}, err
	}
	answer, err := send(ctx, c, batchMembersRoute, membersQuery{id, paging})
	return pawl.JobPage{Jobs: wire.Each(answer.Jobs, wire.Job.Read), Next: string(answer.Next)}, err
}
