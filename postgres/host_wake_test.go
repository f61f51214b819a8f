package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// soon is how fast an idle host has to be when a test is run on a busy machine. Without a notification it would take
// an hour.
const soon = 500 * time.Millisecond

// doors are the ways in which another process hands in jobs. What they return commits.
func (w *world) doors() map[string]func(jobs ...pawl.NewJob) (commit func() error) {
	return map[string]func(jobs ...pawl.NewJob) func() error{
		"enqueue": func(jobs ...pawl.NewJob) func() error {
			return func() error {
				_, err := w.store.Enqueue(w.Context(), jobs)
				return err
			}
		},
		"pgx.Tx": func(jobs ...pawl.NewJob) func() error {
			tx := begin(w, w.store)
			put(w, tx, jobs...)
			return tx.Commit
		},
		"sql.Tx": func(jobs ...pawl.NewJob) func() error {
			tx := beginSQL(w, w.store)
			put(w, w.store.SQLTx(tx), jobs...)
			return tx.Commit
		},
	}
}

// A job starts at once when its enqueue is committed elsewhere, by whatever door.
func TestCommitStartsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	started := make(chan pawl.ID, 10)
	w.start(w.another(), muxOf(func(_ context.Context, job *pawl.Job, _ workArgs) error {
		started <- job.ID
		return nil
	}), w.config("a", 4, hushed()))
	listening(t, w.store, 2) // from now on nobody polls
	for name, door := range w.doors() {
		var took []time.Duration
		for n := range 5 {
			job, err := work.New(t.Context(), w.store.Connection(), workArgs{n})
			if err != nil {
				t.Fatal(err)
			}
			commit := door(job)
			began := time.Now()
			if err := commit(); err != nil {
				t.Fatal(err)
			}
			select {
			case id := <-started:
				took = append(took, time.Since(began))
				w.equal("job that starts", id, job.ID)
			case <-time.After(patience):
				t.Fatalf("%s: job %d does not start", name, n)
			}
		}
		slices.Sort(took)
		t.Logf("%s: from %s to %s", name, took[0], took[len(took)-1])
		if typical := took[len(took)/2]; typical > soon {
			t.Errorf("%s: a job starts after %s", name, typical)
		}
	}
}

type blobArgs struct {
	Blob []byte `json:"blob"`
}

// A payload that is far larger than a notification could be arrives byte for byte, and wakes like any other.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind := pawl.NewKind[blobArgs]("host.blob.v1", pawl.Policy{})
	got := make(chan json.RawMessage, 10)
	mux := pawl.NewMux()
	pawl.Handle(mux, kind, func(ctx context.Context, _ blobArgs) error {
		got <- pawl.FromContext(ctx).Args
		return nil
	})
	w.start(w.another(), mux, w.config("a", 4, hushed()))
	listening(t, w.store, 2)
	random := rand.NewChaCha8([32]byte{21})
	for _, size := range []int{9 << 10, 1 << 20} {
		blob := make([]byte, (size-len(`{"blob":""}`))/4*3) // which JSON makes a third larger
		if _, err := random.Read(blob); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(blobArgs{blob})
		if err != nil || len(want) > size || len(want) < size-10 {
			t.Fatalf("args of %d bytes: %v", len(want), err)
		}
		for name, door := range w.doors() {
			job, err := kind.New(t.Context(), w.store.Connection(), blobArgs{blob})
			if err != nil {
				t.Fatal(err)
			}
			if err := door(job)(); err != nil {
				t.Fatalf("%s: %d bytes: %v", name, size, err)
			}
			select {
			case args := <-got:
				if !bytes.Equal(args, want) {
					t.Errorf("%s: %d bytes came back as others", name, size)
				}
			case <-time.After(patience):
				t.Fatalf("%s: a job of %d bytes does not start", name, size)
			}
		}
	}
}

// Two programs share a store, each with kinds of its own, in the same queues. While one is away its jobs wait, untouched
// and to be seen, and do not hold up the other's; when it is back they run.
func TestTwoPrograms(t *testing.T) {
	t.Parallel()
	const jobs = 150 // of each: more than a claim takes at once
	w := newWorld(t)
	shop := pawl.NewKind[workArgs]("shop.order.v1", pawl.Policy{})
	mail := pawl.NewKind[workArgs]("mail.send.v1", pawl.Policy{})
	runs := newLedger()
	program := func(name string, kind pawl.Kind[workArgs]) *running {
		mux := pawl.NewMux()
		pawl.Handle(mux, kind, func(ctx context.Context, _ workArgs) error {
			job := pawl.FromContext(ctx)
			if job.Kind != kind.Name() {
				t.Errorf("%s runs a job of kind %s", name, job.Kind)
			}
			runs.add(job)
			return nil
		})
		return w.start(w.another(), mux, w.config(name, 10, quick()))
	}
	ended := func(r *running) func() bool { return func() bool { return r.Stats().Succeeded == jobs } }

	away := program("mail", mail) // once, so that its kinds are known
	w.until(patience, "the program that goes away", away.Ready)
	away.stop()
	var mails, orders []pawl.ID
	for range jobs { // the mails first: the orders lie behind and between them
		mails, orders = append(mails, w.put(mail, 1)...), append(orders, w.put(shop, 1)...)
	}
	w.until(patience, "the end of the orders", ended(program("shop", shop)))
	runs.ran(w, orders, 1)
	runs.ran(w, mails)
	w.ends(mails, pawl.JobWaiting, 0, 0)
	w.equal("counts", w.counts().Waiting, jobs)

	w.until(patience, "the end of the mails", ended(program("mail", mail)))
	runs.ran(w, mails, 1)
	w.ends(mails, pawl.JobDone, 1, 0)
}
