package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pawljobs/pawl"
)

// An id stands for one job: an enqueue of another one under it is refused, and not told as a repeat. The args are the same
// when they are the same JSON value.
func otherJobPromises() []promise {
	return []promise{
		{name: "an id that is there with another kind or other args is refused", check: otherRefused},
		{name: "an id that was erased, or whose args are written in another way, is repeated", check: otherwiseWritten},
		{name: "where one of a batch is another job, none is stored", check: otherInBatch},
		{name: "where one of a batch in a transaction is another job, none is stored, and the transaction goes on", check: otherInTx},
		{name: "who enqueues another job under an id is refused alone", check: otherAlone},
		{name: "a call with another job in a transaction opens no batch and adds to none", check: batchRefusedInTransaction},
		{name: "a call that comes too late for one batch opens no other in a transaction", check: batchTooLateInTransaction},
	}
}

// others are enqueues under the id of a job that are of other jobs.
func (f *fixture) others(id pawl.ID, options ...pawl.Option) map[string]pawl.NewJob {
	f.Helper()
	options = append(options, pawl.WithID(id))
	return map[string]pawl.NewJob{
		"other args":                     f.jobOf(workKind, pawl.Policy{}, `{"n":2}`, options...),
		"another kind":                   f.jobOf(otherKind, pawl.Policy{}, `{"n":1}`, options...),
		"another number that is as good": f.jobOf(workKind, pawl.Policy{}, `{"n":1.0}`, options...),
	}
}

func (f *fixture) refusesOthers(when string, id pawl.ID, options ...pawl.Option) {
	f.Helper()
	for name, other := range f.others(id, options...) {
		_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{other})
		f.fails(when+", "+name, err, pawl.ErrConflict)
		f.holds(when+", "+name+": the error names both: "+fmt.Sprint(err), strings.Contains(err.Error(), id.String()) && strings.Contains(err.Error(), workKind) && strings.Contains(err.Error(), other.Kind))
	}
}

func otherRefused(f *fixture) {
	session := f.host("a")
	job := f.job(pawl.Tags("first"))
	f.enqueue(job)
	f.refusesOthers("while it waits", job.ID)
	f.refusesOthers("with a key while it waits", job.ID, pawl.UniqueWhileUnfinished("k"))
	f.repeats("the same with other options", f.job(pawl.WithID(job.ID), pawl.Tags("second")))
	claimed := f.claimOne(session)
	f.refusesOthers("while it runs", job.ID)
	f.settle(session, end(claimed, pawl.Done{}))
	f.refusesOthers("when it is done", job.ID)
	f.repeats("the same", job)
	dead := f.job()
	f.enqueue(dead)
	f.die(session, f.claimOne(session))
	f.refusesOthers("when it is dead", dead.ID)
	f.claimNone("others", session)
	keyed := f.job(pawl.UniqueWhileUnfinished("k"))
	f.equal("a key that a refused one wanted", f.try(keyed)[0], pawl.Enqueued{ID: keyed.ID, Status: pawl.Accepted})
	f.refusesOthers("with its key", keyed.ID, pawl.UniqueWhileUnfinished("k"))
}

func otherwiseWritten(f *fixture) {
	session := f.host("a")
	job := f.jobOf(workKind, pawl.Policy{}, `{"a":1,"b":[true,null],"c":3889108265204450030}`)
	f.enqueue(job)
	f.repeats("in another order", f.jobOf(workKind, pawl.Policy{}, `{ "c": 3889108265204450030, "b": [true, null], "a": 1 }`, pawl.WithID(job.ID)))
	_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{f.jobOf(workKind, pawl.Policy{}, `{"a":1,"b":[true,null],"c":3889108265204450031}`, pawl.WithID(job.ID))})
	f.fails("a neighbour above 2^53", err, pawl.ErrConflict)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	_, err = f.store.EraseArgs(f.ctx, pawl.Erase{IDs: []pawl.ID{job.ID}, By: operator("test")})
	f.ok("erase", err)
	f.repeats("once erased", f.jobOf(workKind, pawl.Policy{}, `{"a":2}`, pawl.WithID(job.ID)))
	_, err = f.store.Enqueue(f.ctx, []pawl.NewJob{f.jobOf(otherKind, pawl.Policy{}, `{"a":2}`, pawl.WithID(job.ID))})
	f.fails("once erased, another kind", err, pawl.ErrConflict)
}

func otherInBatch(f *fixture) {
	there := f.job()
	f.enqueue(there)
	before := f.everything()
	for name, other := range f.others(there.ID) {
		keyed, lined := f.job(pawl.UniqueFor("period", patience)), f.job(pawl.OrderingKey("line"))
		for _, batch := range [][]pawl.NewJob{{f.job(), other, f.job()}, {keyed, f.job(), other}, {lined, there, other}, {other, f.job()}} {
			_, err := f.store.Enqueue(f.ctx, batch)
			f.fails(name, err, pawl.ErrConflict)
		}
	}
	first := f.jobOf(workKind, pawl.Policy{}, `1`)
	second := f.jobOf(workKind, pawl.Policy{}, `2`, pawl.WithID(first.ID))
	_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{first, second})
	f.fails("one id twice in a batch", err, pawl.ErrConflict)
	f.equal("what is there", f.everything(), before)
	keyed := f.job(pawl.UniqueFor("period", patience))
	f.equal("the key", f.try(keyed)[0].Status, pawl.Accepted)
}

func otherInTx(f *fixture) {
	session := f.host("a")
	there := f.job()
	f.enqueue(there)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	for name, other := range f.others(there.ID) {
		tx := f.begin()
		keyed, lined := f.job(pawl.UniqueFor(name, patience)), f.job(pawl.OrderingKey(name))
		want := []pawl.NewJob{f.job(), f.job(), f.job(pawl.UniqueFor(name, patience)), f.job(pawl.OrderingKey(name))}
		_, err := tx.Enqueue(f.ctx, want[:1])
		f.ok(name+": before", err)
		_, err = tx.Enqueue(f.ctx, []pawl.NewJob{other})
		f.fails(name+": alone", err, pawl.ErrConflict)
		_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job(), keyed, lined, other, f.job()})
		f.fails(name+": in a batch", err, pawl.ErrConflict)
		_, err = tx.Enqueue(f.ctx, []pawl.NewJob{keyed, lined, f.others(there.ID, pawl.UniqueFor("other", patience))["other args"]})
		f.fails(name+": in a batch, with a key", err, pawl.ErrConflict)
		results, err := tx.Enqueue(f.ctx, append([]pawl.NewJob{there}, want[1:]...))
		f.ok(name+": afterwards", err)
		for i, result := range results[1:] {
			f.equal(name+": afterwards", result, pawl.Enqueued{ID: want[i+1].ID, Status: pawl.Accepted})
		}
		f.equal(name+": a repeat", results[0], pawl.Enqueued{ID: there.ID, Status: pawl.Repeated})
		f.ok(name+": commit", tx.Commit())
		got := f.claimExactly(session, len(want))
		f.claimNone(name+": others", session)
		for _, job := range got {
			f.settle(session, end(job, pawl.Done{}))
		}
	}
}

func otherAlone(f *fixture) {
	const callers = 20
	there := f.job()
	f.enqueue(there)
	errs := make([]error, callers)
	var group sync.WaitGroup
	for n := range callers {
		jobs := []pawl.NewJob{f.job()}
		switch n % 5 {
		case 1:
			jobs = []pawl.NewJob{f.others(there.ID)["other args"]}
		case 2:
			jobs = []pawl.NewJob{f.job(), f.others(there.ID)["another kind"]}
		case 3:
			jobs = []pawl.NewJob{there, f.job()}
		}
		group.Go(func() { _, errs[n] = f.store.Enqueue(f.ctx, jobs) })
	}
	group.Wait()
	for n, err := range errs {
		if n%5 == 1 || n%5 == 2 {
			f.fails(fmt.Sprint("caller ", n), err, pawl.ErrConflict)
		} else {
			f.ok(fmt.Sprint("caller ", n), err)
		}
	}
	f.equal("jobs", len(f.claim(f.host("a"), 50)), 1+3*callers/5)
}
