package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Jobs enqueued in the caller's own transaction. A store that has no such form leaves Harness.Begin nil.
func transactionPromises() []promise {
	return []promise{
		{name: "a job is there with the commit and not before", check: commit},
		{name: "a rollback means that the job never was", check: rollback},
		{name: "a commit wakes", check: commitWakes},
		{name: "a transaction sees the ids and keys that are taken", check: takenInTransaction},
	}
}

func commit(f *fixture) {
	session := f.host("a")
	tx := f.begin()
	job := f.job()
	f.equal("connection", tx.Connection(), f.store.Connection())
	results, err := tx.Enqueue(f.ctx, []pawl.NewJob{job})
	f.ok("enqueue", err)
	f.equal("results", results, []pawl.Enqueued{{ID: job.ID}})
	_, err = f.store.Job(f.ctx, job.ID)
	f.fails("job before the commit", err, pawl.ErrNotFound)
	f.ok("commit", tx.Commit())
	f.equal("job after the commit", f.claimOne(session).ID, job.ID)
}

func rollback(f *fixture) {
	job := f.job(pawl.UniqueWhileUnfinished("k"))
	tx := f.begin()
	_, err := tx.Enqueue(f.ctx, []pawl.NewJob{job})
	f.ok("enqueue", err)
	f.ok("rollback", tx.Rollback())
	_, err = f.store.Job(f.ctx, job.ID)
	f.fails("job after the rollback", err, pawl.ErrNotFound)
	f.put(pawl.UniqueWhileUnfinished("k")) // the key is free
	job.Unique = pawl.Unique{}
	f.enqueue(job) // and so is the id
}

func commitWakes(f *fixture) {
	wake, err := f.store.Wake(f.ctx)
	f.ok("wake", err)
	tx := f.begin()
	_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job()})
	f.ok("enqueue", err)
	drain(wake)
	f.ok("commit", tx.Commit())
	f.awaken(wake, "a commit")
}

func takenInTransaction(f *fixture) {
	job := f.job()
	f.enqueue(job)
	holder := f.put(pawl.UniqueFor("k", time.Hour))
	tx := f.begin()
	results, err := tx.Enqueue(f.ctx, []pawl.NewJob{job, f.job(pawl.UniqueFor("k", time.Hour))})
	f.ok("enqueue", err)
	f.equal("results", results, []pawl.Enqueued{
		{ID: job.ID, Status: pawl.Repeated}, {ID: holder, Status: pawl.Duplicate},
	})
	f.ok("commit", tx.Commit())
}
