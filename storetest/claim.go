package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pawljobs/pawl"
)

func claimPromises() []promise {
	return []promise{
		{name: "never more jobs than asked for", check: claimsAreBounded},
		{name: "only kinds that are named, bytewise", check: claimsByKind},
		{name: "only queues that are named", check: claimsByQueue},
		{name: "jobs of other kinds at the head hide nothing", check: foreignHead},
		{name: "a claim counts an attempt", check: claimCounts},
		{name: "a session that has ended claims nothing", check: claimAfterEnd},
		{name: "of 100 claims of one job at the same time one wins", check: oneWinner},
		{name: "many claimers get every job exactly once", check: exactlyOnce},
		{name: "many handles get every job exactly once", check: exactlyOnceOverHandles},
	}
}

func claimsAreBounded(f *fixture) {
	session := f.host("a")
	want := f.puts(10)
	got := ids(f.claim(session, 3))
	f.equal("first three", got, want[:3])
	f.equal("the rest", ids(f.claim(session, 100)), want[3:])
	f.claimNone("claimed twice", session)
}

func claimsByKind(f *fixture) {
	session := f.host("a")
	f.put()
	for _, kinds := range [][]string{nil, {}, {otherKind}, {"STORETEST.WORK.V1"}, {workKind + " "}, {workKind[:len(workKind)-1]}, {"%"}} {
		f.claimNone("wrong kinds", session, func(r *pawl.ClaimRequest) { r.Kinds = kinds })
	}
	job := f.claimOne(session, func(r *pawl.ClaimRequest) { r.Kinds = []string{otherKind, workKind} })
	f.equal("attempt", job.Attempt, 1)
}

func claimsByQueue(f *fixture) {
	session := f.host("a")
	f.put()
	for _, queues := range [][]string{nil, {}, {critical}, {"2-DEFAULT"}, {normal + " "}} {
		f.claimNone("wrong queues", session, func(r *pawl.ClaimRequest) { r.Queues = queues })
	}
	f.claimOne(session, func(r *pawl.ClaimRequest) { r.Queues = []string{bulk, normal} })
}

func foreignHead(f *fixture) {
	session := f.host("a")
	foreign := make([]pawl.NewJob, 500)
	for i := range foreign {
		foreign[i] = f.jobOf("foreign.v1", pawl.Policy{}, `1`)
	}
	f.enqueue(foreign...)
	want := f.puts(3)
	f.equal("jobs behind 500 of a foreign kind", ids(f.claim(session, 5)), want)
}

func claimCounts(f *fixture) {
	session := f.host("a")
	id := f.put()
	for attempt := 1; attempt <= 3; attempt++ {
		job := f.claimOne(session)
		f.equal("attempt", job.Attempt, attempt)
		f.settle(session, end(job, pawl.Retry{}))
		f.sweep(session)
	}
	f.equal("attempts in the job's view", f.view(id).Attempt, 3)
}

func claimAfterEnd(f *fixture) {
	f.put()
	observer, victim, closed := f.host("observer"), f.host("victim"), f.host("closed")
	f.kill(observer, victim)
	f.closeSession(closed)
	for _, session := range []pawl.SessionID{victim, closed, closed + 1000} {
		_, err := f.store.Claim(f.ctx, request(session, 5))
		f.fails("claim", err, pawl.ErrSessionLost)
	}
	f.claimOne(observer)
}

func oneWinner(f *fixture) {
	id := f.put()
	sessions := make([]pawl.SessionID, 10)
	for i := range sessions {
		sessions[i] = f.host("a")
	}
	const claims = 100
	won, errs := make([][]pawl.ClaimedJob, claims), make([]error, claims)
	var group sync.WaitGroup
	for n := range claims {
		group.Go(func() { won[n], errs[n] = claimAll(f.ctx, f.store, request(sessions[n%len(sessions)], 1)) })
	}
	group.Wait()
	f.allOK("claim", errs, nil)
	f.equal("winners", ids(slices.Concat(won...)), []pawl.ID{id})
}

func exactlyOnce(f *fixture) {
	want := f.puts(300)
	var claimers []claimer
	for range 6 {
		claimers = append(claimers, claimer{f.store, f.host("a")})
	}
	f.equal("jobs in the order of their ids", f.race(claimers), sorted(want))
}

func exactlyOnceOverHandles(f *fixture) {
	want := f.puts(200)
	claimers := []claimer{{f.store, f.host("a")}}
	for range 3 {
		other := f.elsewhere()
		claimers = append(claimers, claimer{other.store, other.host("b")})
	}
	f.equal("jobs in the order of their ids", f.race(claimers), sorted(want))
}

type claimer struct {
	store   pawl.Store
	session pawl.SessionID
}

// race lets every claimer claim and settle until nothing is left, and returns what was settled, sorted.
func (f *fixture) race(claimers []claimer) []pawl.ID {
	f.Helper()
	got, errs := make([][]pawl.ID, len(claimers)), make([]error, len(claimers))
	var group sync.WaitGroup
	for n, c := range claimers {
		group.Go(func() { got[n], errs[n] = c.work(f.ctx) })
	}
	group.Wait()
	f.ok("claim and settle", errors.Join(errs...))
	return sorted(slices.Concat(got...))
}

func (c claimer) work(ctx context.Context) (settled []pawl.ID, _ error) {
	for {
		jobs, err := claimAll(ctx, c.store, request(c.session, 7))
		if err != nil || len(jobs) == 0 {
			return settled, err
		}
		var settlements []pawl.Settlement
		for _, job := range jobs {
			settlements = append(settlements, end(job, pawl.Done{}))
			settled = append(settled, job.ID)
		}
		errs, err := c.store.Settle(ctx, c.session, settlements)
		if err = errors.Join(append(errs, err)...); err != nil {
			return settled, err
		}
	}
}

func sorted(list []pawl.ID) []pawl.ID {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b pawl.ID) int { return slices.Compare(a[:], b[:]) })
	return out
}
