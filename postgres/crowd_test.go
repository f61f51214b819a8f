package postgres_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// claimNext claims once what is ready in the default queue.
func claimNext(t *testing.T, store pawl.Store, session pawl.SessionID, most int) pawl.Claimed {
	t.Helper()
	claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{
		Session: session, Queues: []string{"2-default"}, Kinds: []string{testKind}, Max: most,
	})
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// Hosts that meet at the head of a queue claim apart from each other: each job once, all of them, and none is overtaken by
// more jobs than the hosts have blocks for.
func TestManyHostsClaimApart(t *testing.T) {
	t.Parallel()
	const hosts, jobs, most = 4, 24_000, 100
	config := postgres.Config{Schema: freshSchema(t)}
	stores := make([]inSchema, hosts)
	sessions := make([]pawl.SessionID, hosts)
	for i := range stores {
		stores[i] = openIn(t, server(t), config)
		sessions[i] = openSession(t, stores[i])
	}
	place := make(map[pawl.ID]int, jobs)
	for range jobs / 1000 {
		batch := make([]pawl.NewJob, 1000)
		for i := range batch {
			batch[i] = newJob(t, stores[0])
			place[batch[i].ID] = len(place)
		}
		put(t, stores[0], batch...)
	}
	var mu sync.Mutex
	taken := make([]bool, jobs)
	first, overtaken, left := 0, 0, jobs
	note := func(claimed []pawl.ClaimedJob) (done bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, job := range claimed {
			at := place[job.ID]
			if taken[at] {
				t.Errorf("job %d was claimed twice", at)
			}
			taken[at] = true
			overtaken = max(overtaken, at-first)
		}
		for left -= len(claimed); first < jobs && taken[first]; first++ {
		}
		return left <= 0
	}
	var group sync.WaitGroup
	for i, store := range stores {
		group.Go(func() {
			for done := false; !done && !t.Failed(); {
				claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{
					Session: sessions[i], Queues: []string{"2-default"}, Kinds: []string{testKind}, Max: most,
				})
				if err != nil {
					t.Error(err)
					return
				}
				done = note(claimed.Jobs)
				ends := make([]pawl.Settlement, len(claimed.Jobs))
				for n, job := range claimed.Jobs {
					ends[n] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
				}
				errs, err := store.Settle(t.Context(), sessions[i], ends)
				if err = errors.Join(append(errs, err)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if limit := hosts * 2048; overtaken > limit {
		t.Errorf("a job was overtaken by %d others, want at most %d", overtaken, limit)
	}
}

// Blocks that others hold are passed over, and where all are held, jobs are claimed without one.
func TestBlocksThatOthersHold(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store, other := openIn(t, server(t), config), openIn(t, server(t), config)
	session, rival := openSession(t, store), openSession(t, other)
	jobs := make([]pawl.NewJob, 3000)
	for i := range jobs {
		jobs[i] = newJob(t, store)
	}
	put(t, store, jobs...)
	claimNext(t, other, rival, 1) // the job at the head is another's
	if n := len(claimNext(t, store, session, 100).Jobs); n != 100 {
		t.Fatalf("claimed %d jobs, want 100", n)
	}
	claimNext(t, other, rival, 30) // and again
	claimNext(t, store, session, 100)

	conn := beside(t, store.url)
	var queue int
	if err := conn.QueryRow(t.Context(), `select id from `+table(config.Schema, "name")+` where text = '2-default'`).Scan(&queue); err != nil {
		t.Fatal(err)
	}
	place := make(map[pawl.ID]int, len(jobs))
	for i, job := range jobs {
		place[job.ID] = i + 1 // numbers begin at 1
	}
	holding := func(blocks ...int) pawl.Claimed {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks {
			if _, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock(`+postgres.BlockOf(config.Schema, queue, block)+`)`); err != nil {
				t.Fatal(err)
			}
		}
		claimed := claimNext(t, store, session, 100)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(claimed.Jobs) != 100 || !claimed.More {
			t.Fatalf("with the blocks %v held: %d jobs (more: %v), want 100, and more", blocks, len(claimed.Jobs), claimed.More)
		}
		return claimed
	}
	for block := range 2 {
		for _, job := range holding(block).Jobs {
			if got := place[job.ID] / 512; got != 1-block {
				t.Errorf("with block %d held: a job of block %d, want of block %d", block, got, 1-block)
			}
		}
	}
	holding(0, 1, 2, 3, 4, 5)
}

// Jobs that lie between those of others, where samples do not see them, are found: at once, or by wake-ups that the store gives itself.
func TestJobsBetweenThoseOfOthers(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store, other := openIn(t, server(t), config), openIn(t, server(t), config)
	session, rival := openSession(t, store), openSession(t, other)
	jobs := make([]pawl.NewJob, 4000)
	for i := range jobs {
		jobs[i] = newJob(t, store)
	}
	put(t, store, jobs...)
	claimNext(t, other, rival, 1)
	claimNext(t, store, session, 100) // as many as it asked for, at a head that another holds
	for claimed := claimNext(t, other, rival, 5000); claimed.More; {
		claimed = claimNext(t, other, rival, 5000)
	}
	// What the other holds is free again, but for each job that a sample may meet.
	execute(t, store.url, `update `+table(config.Schema, "job")+` set holder = null, claim = null where seq > 101 and (seq - 102) % 128 <> 0`)
	want := 0
	if err := beside(t, store.url).QueryRow(t.Context(), `select count(*) from `+table(config.Schema, "job")+` where holder is null`).Scan(&want); err != nil {
		t.Fatal(err)
	}
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; got < want; {
		claimed := claimNext(t, store, session, 5000)
		if got += len(claimed.Jobs); claimed.More || got == want {
			continue
		}
		select {
		case <-wake:
		case <-time.After(patience):
			t.Fatalf("claimed %d of %d jobs, and no wake-up comes for the others", got, want)
		}
	}
}
