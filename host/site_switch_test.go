package host_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/ops"
)

// obeyed is how soon every host has to obey a switch or a pause.
const obeyed = 2 * time.Second

// credit runs only where somebody has switched it on.
var credit = pawl.NewKind[workArgs]("test.credit.v1", pawl.Policy{StartsOff: true})

// member is one host of a crowd, and what it was seen to do.
type member struct {
	database // its own handle
	host     *worker

	mu      sync.Mutex
	claims  []claimSeen
	refused int                  // claims that failed
	starts  map[string]int       // by kind
	started map[string]time.Time // by kind: the last start, by the clock of this process
}

// claimSeen is one claim and what it brought.
type claimSeen struct {
	began time.Time // by the clock of this process
	now   time.Time // by the store's
	kinds map[string]int
}

// Claim notes what claims bring.
func (m *member) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	seen := claimSeen{began: time.Now(), kinds: map[string]int{}}
	reply, err := m.database.Claim(ctx, request)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.refused++
		return reply, err
	}
	seen.now = reply.Now
	for _, job := range reply.Jobs {
		seen.kinds[job.Kind]++
	}
	m.claims = append(m.claims, seen)
	return reply, nil
}

func (m *member) note(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts[kind]++
	m.started[kind] = time.Now()
}

// count is how many jobs of a kind it has started.
func (m *member) count(kind string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts[kind]
}

// last is when it last started a job of a kind.
func (m *member) last(kind string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started[kind]
}

// since are its claims that began later.
func (m *member) since(began time.Time) []claimSeen {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.claims, func(c claimSeen) bool { return c.began.After(began) })
	if i < 0 {
		return nil
	}
	return slices.Clone(m.claims[i:])
}

func (m *member) failures() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// crowd are three hosts on one store, each on a handle of its own and with the rhythms that hosts have by default. A job
// of kind work puts another in its place while feed is true, so there is always one for each.
type crowd struct {
	*site
	members []*member
	feed    atomic.Bool
}

func newCrowd(s *site) *crowd {
	c := &crowd{site: s}
	c.feed.Store(true)
	for i := range 3 {
		m := &member{database: s.open(), starts: map[string]int{}, started: map[string]time.Time{}}
		s.mux = pawl.NewMux()
		run := func(ctx context.Context, _ workArgs) error {
			job := pawl.FromContext(ctx)
			m.note(job.Kind)
			if job.Kind != work.Name() || !c.feed.Load() {
				return nil
			}
			_, err := work.Enqueue(ctx, s.store, workArgs{})
			return err
		}
		for _, kind := range []pawl.Kind[workArgs]{work, once, credit} {
			pawl.Handle(s.mux, kind, run)
		}
		config := s.config(fmt.Sprint("host-", i), 2)
		config.Intervals = host.Intervals{}
		m.host = s.startOn(m, config)
		c.members = append(c.members, m)
	}
	return c
}

// each waits until something holds of every host.
func (c *crowd) each(what string, holds func(m *member) bool) {
	c.Helper()
	for i, m := range c.members {
		c.until(fmt.Sprintf("host %d: %s", i, what), func() bool { return holds(m) })
	}
}

// more waits until every host has started n more jobs of a kind.
func (c *crowd) more(kind string, n int) {
	c.Helper()
	was := map[*member]int{}
	for _, m := range c.members {
		was[m] = m.count(kind)
	}
	c.each(fmt.Sprint(n, " more starts of ", kind), func(m *member) bool { return m.count(kind) >= was[m]+n })
}

// work keeps every host at work on jobs of kind once, for longer than a time by the store's clock.
func (c *crowd) work(d time.Duration, options ...pawl.Option) {
	c.Helper()
	began := time.Now()
	c.each("work on what is not held back", func(m *member) bool {
		c.put(once, 3, options...)
		claims := slices.DeleteFunc(m.since(began), func(s claimSeen) bool { return s.kinds[once.Name()] == 0 })
		return len(claims) > 3 && claims[len(claims)-1].now.Sub(claims[0].now) > d
	})
	c.until("the end of that work", func() bool { return len(c.all(once.Name(), pawl.JobWaiting)) == 0 })
}

// all lists the jobs of a kind in a state.
func (c *crowd) all(kind string, state pawl.JobState) (jobs []pawl.JobView) {
	c.Helper()
	filter, page := pawl.JobFilter{Kind: kind, State: state}, pawl.Page{Limit: 1000}
	for {
		reply, err := c.store.Jobs(c.Context(), filter, page)
		if err != nil {
			c.Fatal(err)
		}
		jobs = append(jobs, reply.Jobs...)
		if page.After = reply.Next; page.After == "" {
			return jobs
		}
	}
}

// spent checks that jobs have cost exactly so many attempts, and nothing else.
func (c *crowd) spent(jobs []pawl.JobView, attempts int) {
	c.Helper()
	for _, job := range jobs {
		if got := words(job.Attempt, job.Crashes, job.Requeues, job.Letter.IsZero()); got != words(attempts, 0, 0, true) {
			c.Fatalf("job %s: attempts, crashes, requeues, no letter: %s", job.ID, got)
		}
	}
}

// A kind is switched off, or a queue paused, while three hosts run its jobs: all obey within two seconds, though they keep
// looking for work and find other; the jobs wait, at no cost; and when it is lifted they go on.
func TestSwitchesHoldForAllHosts(t *testing.T) {
	for name, c := range map[string]struct {
		hold   func(s *site, on bool) error
		shown  func(job pawl.JobView) bool
		beside []pawl.Option // of the jobs that are not held back
	}{
		"kind": {
			hold: func(s *site, on bool) error {
				return s.store.SwitchKind(s.Context(), pawl.KindSwitch{Kind: work.Name(), On: !on}, operator("hold"))
			},
			shown: func(job pawl.JobView) bool { return job.HeldByKind && !job.HeldByQueue },
		},
		"queue": {
			hold: func(s *site, on bool) error {
				return s.store.PauseQueue(s.Context(), pawl.QueuePause{Queue: "2-default", Paused: on}, operator("hold"))
			},
			shown:  func(job pawl.JobView) bool { return job.HeldByQueue && !job.HeldByKind },
			beside: []pawl.Option{pawl.InQueue("3-bulk")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(s *site) { holdAndLift(newCrowd(s), c.hold, c.shown, c.beside) })
		})
	}
}

func holdAndLift(c *crowd, hold func(*site, bool) error, shown func(pawl.JobView) bool, beside []pawl.Option) {
	const population = 60
	c.put(work, population)
	c.more(work.Name(), 10)
	if err := hold(c.site, true); err != nil {
		c.Fatal(err)
	}
	held := time.Now() // the commit was before
	c.work(obeyed+time.Second, beside...)
	for i, m := range c.members {
		for _, claim := range m.since(held) {
			if n := claim.kinds[work.Name()]; n > 0 {
				c.Fatalf("host %d claimed %d jobs that are held back, %s after the order", i, n, claim.began.Sub(held))
			}
		}
		if late := m.last(work.Name()).Sub(held); late > obeyed { // of those that it had claimed before
			c.Errorf("host %d started a job that is held back %s after the order", i, late)
		}
	}
	waiting := c.all(work.Name(), pawl.JobWaiting)
	c.equal("waiting", len(waiting), population)
	c.spent(waiting, 0)
	for _, job := range waiting {
		c.equal("held back, as an operator sees it", shown(job), true)
	}

	if err := hold(c.site, false); err != nil {
		c.Fatal(err)
	}
	lifted := time.Now()
	c.more(work.Name(), 10)
	for i, m := range c.members {
		if claims := m.since(lifted); claims[0].kinds[work.Name()] == 0 {
			c.Errorf("host %d: the first claim after it was lifted brought none of what waits", i)
		}
	}
	c.feed.Store(false)
	c.until("the end of all", func() bool { return c.idle() })
	c.spent(c.all(work.Name(), pawl.JobDone), 1)
	c.spent(c.all(once.Name(), pawl.JobDone), 1)
	for _, state := range []pawl.JobState{pawl.JobScheduled, pawl.JobDead, pawl.JobRemoved} {
		c.equal(string(state), len(c.all("", state)), 0)
	}
	for _, m := range c.members {
		m.host.stop()
		stats := m.host.Stats()
		c.equal("retried, released, died, given back, requeued, lost", words(stats.Retried, stats.Released, stats.Died(), stats.GivenBack,
			stats.Requeued, stats.LeasesLost), "0 0 0 0 0 0")
	}
}

// latest is the last start of a kind on any host.
func (c *crowd) latest(kind string) (last time.Time) {
	for _, m := range c.members {
		if started := m.last(kind); started.After(last) {
			last = started
		}
	}
	return last
}

// idle says that no job is left.
func (c *crowd) idle() bool {
	c.Helper()
	busy, err := c.store.BusyQueues(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return len(busy) == 0
}

// A kind that starts off runs on no host of three while a misspelt name is switched on, which a status tells; nor while the
// switches cannot be read, though it is switched on.
func TestStartsOffFailsClosed(t *testing.T) {
	onBoth(t, func(s *site) {
		c := newCrowd(s)
		first := s.put(credit, 5)
		const misspelt = "test.credits.v1"
		if err := s.store.SwitchKind(s.Context(), pawl.KindSwitch{Kind: misspelt, On: true}, operator("credits")); err != nil {
			t.Fatal(err)
		}
		c.work(obeyed)
		s.equal("starts", c.latest(credit.Name()).IsZero(), true)
		c.spent(c.all(credit.Name(), pawl.JobWaiting), 0)
		status, err := ops.ReadStatus(s.Context(), s.store, ops.StatusOptions{})
		if err != nil {
			t.Fatal(err)
		}
		notes := map[ops.What]string{}
		for _, note := range status.Notes {
			notes[note.What] = note.Subject
		}
		s.equal("what waits", notes[ops.KindNotOn], credit.Name())
		s.equal("what is misspelt", notes[ops.KindUnknown], misspelt)

		if err := s.store.SwitchKind(s.Context(), pawl.KindSwitch{Kind: credit.Name(), On: true}, operator("credit")); err != nil {
			t.Fatal(err)
		}
		s.ended(first, pawl.JobDone, 1)
		was := c.latest(credit.Name())
		before := map[*member]int{}
		for _, m := range c.members {
			before[m] = m.failures()
		}
		show := s.hideSwitches()
		second, hidden := s.put(credit, 5), time.Now()
		c.each("a claim that fails", func(m *member) bool { return m.failures() > before[m] })
		s.until("time for more", func() bool { return time.Since(hidden) > obeyed })
		s.equal("a start while the switches could not be read", c.latest(credit.Name()).Sub(was), time.Duration(0))
		show()
		s.ended(second, pawl.JobDone, 1)
		for _, m := range c.members {
			m.host.stop()
		}
	})
}

// hideSwitches takes the table of switches away, and returns what puts it back.
func (s *site) hideSwitches() (show func()) {
	s.Helper()
	change := func(from, to string) {
		s.Helper()
		if err := s.engine.rename(s.Context(), s.where, from, to); err != nil {
			s.Fatal(err)
		}
	}
	change("switch", "hidden")
	return func() { s.Helper(); change("hidden", "switch") }
}

func renameInFile(ctx context.Context, where, from, to string) error {
	db, err := sql.Open("sqlite", "file:"+where+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "alter table pawl_"+from+" rename to pawl_"+to)
	return err
}

func renameInSchema(ctx context.Context, where, from, to string) error {
	conn, err := pgx.Connect(ctx, os.Getenv("PAWL_TEST_POSTGRES"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "alter table "+where+"."+from+" rename to "+to)
	return err
}
