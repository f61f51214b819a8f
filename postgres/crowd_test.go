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

// crowd is some hosts that meet at the head of a queue.
type crowd struct {
	stores   []inSchema
	sessions []pawl.SessionID
	mu       sync.Mutex
	place    map[pawl.ID]int
	taken    []bool
	first    int // of the jobs that nobody has taken
	left     int
	behind   int // how many jobs lay between the first and one that was claimed, at most
}

func newCrowd(t *testing.T, hosts, jobs int) *crowd {
	t.Helper()
	config := postgres.Config{Schema: freshSchema(t)}
	c := &crowd{place: make(map[pawl.ID]int, jobs), taken: make([]bool, jobs), left: jobs}
	for range hosts {
		store := openIn(t, server(t), config)
		c.stores, c.sessions = append(c.stores, store), append(c.sessions, openSession(t, store))
	}
	for range jobs / 1000 {
		batch := make([]pawl.NewJob, 1000)
		for i := range batch {
			batch[i] = newJob(t, c.stores[0])
			c.place[batch[i].ID] = len(c.place)
		}
		put(t, c.stores[0], batch...)
	}
	return c
}

func (c *crowd) claim(t *testing.T, host int) []pawl.ClaimedJob {
	t.Helper()
	claimed, err := c.stores[host].Claim(t.Context(), pawl.ClaimRequest{
		Session: c.sessions[host], Queues: []string{"2-default"}, Kinds: []string{testKind}, Max: 100,
	})
	if err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, job := range claimed.Jobs {
		at := c.place[job.ID]
		if c.taken[at] {
			t.Errorf("job %d was claimed twice", at)
		}
		c.taken[at] = true
		c.behind = max(c.behind, at-c.first)
	}
	for c.left -= len(claimed.Jobs); c.first < len(c.taken) && c.taken[c.first]; c.first++ {
	}
	return claimed.Jobs
}

func (c *crowd) settle(t *testing.T, host int, jobs []pawl.ClaimedJob) {
	t.Helper()
	ends := make([]pawl.Settlement, len(jobs))
	for n, job := range jobs {
		ends[n] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
	}
	errs, err := c.stores[host].Settle(t.Context(), c.sessions[host], ends)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Error(err)
	}
}

func (c *crowd) isDone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= 0
}

// Hosts that meet at the head of a queue claim each job once, and all of them.
func TestManyHostsClaimApart(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 4, 24_000)
	var group sync.WaitGroup
	for host := range c.stores {
		group.Go(func() {
			for !c.isDone() && !t.Failed() {
				c.settle(t, host, c.claim(t, host))
			}
		})
	}
	group.Wait()
}

// Where hosts claim apart, no job is overtaken by more of them than the hosts have blocks for. They claim in turns: a host that the
// machine lets stand may be overtaken for as long as it stands.
func TestFewOvertakeAJob(t *testing.T) {
	t.Parallel()
	const hosts = 4
	c := newCrowd(t, hosts, 24_000)
	for !c.isDone() && !t.Failed() {
		var held [hosts][]pawl.ClaimedJob
		for host := range held {
			held[host] = c.claim(t, host)
		}
		for host, jobs := range held {
			c.settle(t, host, jobs)
		}
	}
	if limit := hosts * 2048; c.behind > limit {
		t.Errorf("a job was overtaken by %d others, want at most %d", c.behind, limit)
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
