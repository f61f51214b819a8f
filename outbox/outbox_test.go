package outbox_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

// A message is part of the business transaction, and becomes one job with its id, wherever the store is.
func TestMessagesBecomeJobs(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		for where, target := range map[string]func(testing.TB) store{"sqlite": fileStore, "postgres": serverStore} {
			t.Run(name+" to "+where, func(t *testing.T) {
				t.Parallel()
				throughTheBox(t, open(t), target(t))
			})
		}
	}
	t.Run("the same file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "both.db")
		throughTheBox(t, boxInFile(t, openFile(t, path)), storeInFile(t, path))
	})
}

func throughTheBox(t *testing.T, b *business, target store) {
	jobs := newJobs(t, 700)
	start(t, b.dispatcher(t, target, nil, target))
	undone := b.begin(t)
	if _, err := undone.in.Enqueue(t.Context(), []pawl.NewJob{newJob(t, -1)}); err != nil {
		t.Fatal(err)
	}
	if err := undone.rollback(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(jobs); i += 100 {
		tx := b.begin(t)
		if err := tx.exec(`insert into ` + b.orders() + ` (id) values (1)`); err != nil {
			t.Fatal(err)
		}
		results, err := tx.in.Enqueue(t.Context(), jobs[i:i+100])
		if err != nil {
			t.Fatal(err)
		}
		if results[0] != (pawl.Enqueued{ID: jobs[i].ID}) {
			t.Errorf("result %v, want that job %s was accepted", results[0], jobs[i].ID)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	}
	b.empty(t)
	claimed := claimAll(t, target)
	var ids []pawl.ID
	for _, job := range claimed {
		ids = append(ids, job.ID)
	}
	same(t, "in the store", ids, jobs)
	envelope, err := pawl.DecodeEnvelope(claimed[0].Envelope)
	if err != nil || envelope.Origin != (pawl.Origin{Source: pawl.OriginOutbox, Ref: jobs[0].ID.String()}) || string(envelope.Args) != `{"n":0}` {
		t.Errorf("envelope %+v, error %v", envelope, err)
	}
	if n := b.number(t, `select count(*) from {t} where status = 2 and attempts = 1 and last_error is null`); n != len(jobs) {
		t.Errorf("%d messages are marked, want %d", n, len(jobs))
	}
	if n := b.number(t, `select count(*) from `+b.orders()); n != 7 {
		t.Errorf("%d orders, want 7", n)
	}
}

// A repeat of an id is the same message: in its own batch, its transaction, and for as long as the row is kept.
func TestRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		job, other := newJob(t, 1), newJob(t, 2)
		results := b.write(t, job, other, job)
		for i, want := range []pawl.Enqueued{{ID: job.ID}, {ID: other.ID}, {ID: job.ID, Status: pawl.Repeated}} {
			if results[i] != want {
				t.Errorf("result %d is %v, want %v", i, results[i], want)
			}
		}
		for range 2 {
			if results := b.write(t, job); results[0].Status != pawl.Repeated {
				t.Errorf("the same id again: %v", results[0])
			}
			stop := start(t, b.dispatcher(t, target, nil, target))
			b.empty(t)
			stop()
		}
		same(t, "in the store", jobsOf(t, target), []pawl.NewJob{job, other})
	})
}

// What the store has already, because the reply or the mark was lost, is marked and not doubled: also where the job has
// ended meanwhile.
func TestMarkThatWasLost(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		jobs := newJobs(t, 3)
		b.write(t, jobs...)
		if _, err := target.Enqueue(t.Context(), jobs[:2]); err != nil {
			t.Fatal(err)
		}
		same(t, "before", jobsOf(t, target), jobs[:2])
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		same(t, "after", jobsOf(t, target), jobs[2:])
	})
}

// Delays count from when the message was written; absolute times stay what they are.
func TestTimes(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := serverStore(t)
		at := time.Now().Add(48 * time.Hour).Truncate(time.Millisecond)
		soon, later, span := newJob(t, 1, pawl.Delay(time.Hour)), newJob(t, 2, pawl.RunAt(at)), newJob(t, 3, pawl.RetryFor(time.Hour))
		b.write(t, soon, later, span)
		b.exec(t, `update {t} set created_at = created_at - {hour} / 2, delay_until = delay_until - {hour} / 2`)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		for _, want := range []struct {
			job pawl.NewJob
			at  time.Time
		}{{soon, time.Now().Add(time.Hour / 2)}, {later, at}} {
			view, err := target.Job(t.Context(), want.job.ID)
			if err != nil || view.State != pawl.JobScheduled || view.RunAt.Sub(want.at).Abs() > time.Minute {
				t.Errorf("runs at %v, want %v; %s, error %v", view.RunAt, want.at, view.State, err)
			}
		}
		view, err := target.Job(t.Context(), span.ID)
		if err != nil || time.Since(view.EnqueuedAt) < time.Hour/2 {
			t.Errorf("the span of the third counts from %v, error %v", view.EnqueuedAt, err)
		}
	})
}

// Messages go to the connections that they are for; one that nobody here serves waits for who does.
func TestConnections(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		first, second := newJob(t, 1), newJob(t, 2)
		b.write(t, first)
		var in func(connection pawl.Connection) outbox.Source
		switch box := b.box.(type) {
		case *outbox.Box:
			in = func(connection pawl.Connection) outbox.Source { return box.For(connection) }
		case *outbox.PgxBox:
			in = func(connection pawl.Connection) outbox.Source { return box.For(connection) }
		}
		own := b.box
		b.box = in(pawl.Connection{Name: "reports"})
		b.write(t, second)
		b.box = own
		start(t, b.dispatcher(t, target, nil, target))
		until(t, "the first is dispatched", func() bool { return b.number(t, `select count(*) from {t} where ended_at is null`) == 1 })
		same(t, "in the store", jobsOf(t, target), []pawl.NewJob{first})
		stats, err := b.stats(t)
		if err != nil || stats.Pending != 1 || len(stats.Connections) != 1 || stats.Connections[0].Connection != "reports" || stats.Oldest <= 0 {
			t.Errorf("stats %+v, error %v", stats, err)
		}
		start(t, b.dispatcher(t, target, nil, named{target, "reports"}))
		b.empty(t)
		same(t, "in the store", jobsOf(t, target), []pawl.NewJob{second})
	})
}

// operated is what both sorts of boxes can do.
type operated interface {
	outbox.Source
	Stats(ctx context.Context) (outbox.Stats, error)
	SwitchOff(ctx context.Context, by pawl.By) error
	SwitchOn(ctx context.Context) error
}

func (b *business) stats(t testing.TB) (outbox.Stats, error) {
	return b.box.(operated).Stats(t.Context())
}

func (b *business) switchOff(t testing.TB) error {
	return b.box.(operated).SwitchOff(t.Context(), pawl.By{Who: "ada", Why: "the store moves"})
}

func (b *business) switchOn(t testing.TB) error { return b.box.(operated).SwitchOn(t.Context()) }

// named is a store under another name.
type named struct {
	pawl.Enqueuer
	name string
}

func (n named) Connection() pawl.Connection { return pawl.Connection{Name: n.name} }
