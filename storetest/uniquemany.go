package storetest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A key has one holder. Who loses it does not get it back.
func uniquePassPromises() []promise {
	return []promise{
		{name: "while waiting: a key that a rival took does not come back", check: keyDoesNotComeBack},
		{name: "for a period: a key passes on when its period is over, though its job waits", check: periodPassesOn},
		{name: "for a period: a redrive takes the key on, and its period begins anew", check: redrivePeriod},
		{name: "of callers with many keys in different orders each key is accepted once", check: manyKeys},
		{name: "jobs stand in the order in which they were given, whatever their keys", check: keysInAnyOrder},
	}
}

func keyDoesNotComeBack(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileWaiting("k")
	first := f.put(key)
	before := f.claimOne(session)
	rival := f.put(key)
	f.duplicates("beside the rival", rival, key)
	f.settle(session, end(before, pawl.Retry{After: time.Hour}))
	f.duplicates("while both wait", rival, key)
	f.equal("claimed", f.claimOne(session).ID, rival)
	third := f.put(key) // the first one waits again, without its key
	f.duplicates("beside the first one, which waits", third, key)
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.equal("waiting jobs", ids(f.claim(session, 5)), []pawl.ID{third, first})
	f.put(key)
}

func periodPassesOn(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.UniqueFor("k", time.Hour), pawl.Delay(10*time.Hour))
	f.duplicates("in the period", first, pawl.UniqueWhileUnfinished("k"))
	f.pass(2 * time.Hour)
	second := f.put(pawl.UniqueWhileUnfinished("k"))
	f.duplicates("after the period", second, pawl.UniqueFor("k", time.Hour))
	f.equal("claimed", f.claimOne(session).ID, second)
	f.pass(9 * time.Hour)
	f.sweep(session)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.duplicates("after the end of the first", second, pawl.UniqueWhileWaiting("k"))
}

func redrivePeriod(f *fixture) {
	session, key := f.host("a"), pawl.UniqueFor("k", 10*time.Hour)
	letter := f.dead(session, key)
	f.duplicates("after the death", letter.JobID, key)
	f.pass(9 * time.Hour)
	f.redrive(letter)
	job := f.claimOne(session)
	f.duplicates("of the redrive", job.ID, key)
	f.settle(session, end(job, pawl.Done{}))
	f.pass(9 * time.Hour)
	f.duplicates("in its period", job.ID, key)
	f.pass(2 * time.Hour)
	f.put(key)
}

func manyKeys(f *fixture) {
	const keys, callers, rounds = 120, 6, 4
	stores := []*fixture{f, f.elsewhere(), f.elsewhere()}
	session := f.host("a")
	scopes := []func(string) pawl.Option{pawl.UniqueWhileUnfinished, pawl.UniqueWhileWaiting}
	for round := range rounds {
		batches := make([][]pawl.NewJob, callers)
		for c := range batches {
			for _, n := range rand.Perm(keys) {
				batches[c] = append(batches[c], f.job(scopes[round%2](strconv.Itoa(n))))
			}
		}
		results, errs := make([][]pawl.Enqueued, callers), make([]error, callers)
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() { results[c], errs[c] = stores[c%len(stores)].store.Enqueue(f.ctx, batches[c]) })
		}
		group.Wait()
		f.allOK("enqueue", errs, nil)
		jobs := f.claim(session, 2*keys)
		holder := map[string]pawl.ID{}
		for _, job := range jobs {
			envelope, err := pawl.DecodeEnvelope(job.Envelope)
			f.ok("decode", err)
			holder[envelope.Unique.Key] = job.ID
		}
		f.equal("jobs, each with its key", []int{len(jobs), len(holder)}, []int{keys, keys})
		for c, batch := range batches {
			for n, job := range batch {
				result := results[c][n]
				f.equal("job named", result.ID, holder[job.Unique.Key])
				f.equal("accepted", result.Status == pawl.Accepted, result.ID == job.ID)
			}
		}
		if round < rounds-1 { // those of the last one run on
			settled := make([]pawl.Settlement, len(jobs))
			for n, job := range jobs {
				settled[n] = end(job, pawl.Done{})
			}
			f.settle(session, settled...)
		}
	}
	again := make([]pawl.NewJob, keys) // a key that counts while its job waits is free; all at once, and one twice
	for n := range again {
		again[n] = f.job(pawl.UniqueWhileWaiting(strconv.Itoa(max(n, 1))))
	}
	for n, result := range f.try(again...) {
		if n == 1 {
			f.equal("the second with a key", result, pawl.Enqueued{ID: again[0].ID, Status: pawl.Duplicate})
			continue
		}
		f.equal("one whose key was passed on", result, pawl.Enqueued{ID: again[n].ID})
	}
}

func keysInAnyOrder(f *fixture) {
	session := f.host("a")
	for _, count := range []int{7, 1100} { // by one statement, and by several
		jobs := make([]pawl.NewJob, count)
		for n, key := range rand.Perm(count) {
			jobs[n] = f.job()
			if n%3 > 0 {
				jobs[n] = f.job(pawl.UniqueWhileUnfinished(strconv.Itoa(key)))
			}
		}
		want := f.enqueue(jobs...)
		var got []pawl.ID
		for len(got) < count {
			claimed := f.claim(session, 500)
			if len(claimed) == 0 {
				break
			}
			got = append(got, ids(claimed)...)
		}
		f.holds("jobs are claimed in the order of the call", slices.Equal(got, want))
		f.clearKeys()
	}
}
