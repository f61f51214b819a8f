package ops_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

// place is a database in which a test has a store: open is one more handle on it, as another process has one.
type place struct {
	open   func(t testing.TB) storetest.Store
	rename func(t testing.TB, from, to string) // of a table, named without prefix or schema
}

// inBoth runs a test in a file and in a schema of its own.
func inBoth(t *testing.T, test func(s shop, p place)) {
	t.Parallel()
	for name, make := range map[string]func(testing.TB) place{"sqlite": newFile, "postgres": newSchema} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := make(t)
			test(newShop(t, p.open(t)), p)
		})
	}
}

func newFile(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "jobs.db")
	return place{
		open: func(t testing.TB) storetest.Store {
			store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			return closing(t, store, err)
		},
		rename: func(t testing.TB, from, to string) {
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.ExecContext(t.Context(), "alter table pawl_"+from+" rename to pawl_"+to)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func newSchema(t testing.TB) place {
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	schema := "ops_" + strings.ToLower(rand.Text())
	execute := func(t testing.TB, statement string) {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(context.Background(), statement)
		if err := errors.Join(err, conn.Close(context.Background())); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { execute(t, "drop schema "+schema+" cascade") })
	return place{
		open: func(t testing.TB) storetest.Store {
			store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
			return closing(t, store, err)
		},
		rename: func(t testing.TB, from, to string) { execute(t, "alter table "+schema+"."+from+" rename to "+to) },
	}
}

func closing[S interface {
	storetest.Store
	Close() error
}](t testing.TB, store S, err error,
) storetest.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// until waits for a condition that nothing announces.
func (s shop) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s did not come to be", what)
		}
	}
}

// serve runs a host until the test ends.
func (s shop) serve(store pawl.Store, handle func(context.Context, args) error, config host.Config) *host.Host {
	s.Helper()
	mux := pawl.NewMux()
	pawl.Handle(mux, work, handle)
	config.Name, config.Logger = "server", slog.New(slog.DiscardHandler)
	config.Intervals = host.Intervals{Poll: 100 * time.Millisecond}
	h, err := host.New(store, mux, config)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("host: %v", err)
		}
	})
	return h
}

// claims takes the one job that waits.
func (s shop) claims() pawl.ClaimedJob {
	s.Helper()
	claimed, err := s.Claim(s.Context(), pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 10})
	if err != nil || len(claimed.Jobs) != 1 {
		s.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
	}
	return claimed.Jobs[0]
}

// dies ends a claimed job as dead and returns its letter.
func (s shop) dies(job pawl.ClaimedJob) pawl.DeadLetter {
	s.Helper()
	death := pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, job, death, time.Now(), errors.New("down"))
	errs, err := s.Settle(s.Context(), s.session, []pawl.Settlement{{Reservation: job.Reservation, Outcome: death, Letter: &letter}})
	if err = errors.Join(append(errs, err)...); err != nil {
		s.Fatal(err)
	}
	return s.read(letter.ID)
}

func (s shop) read(id pawl.ID) pawl.DeadLetter {
	s.Helper()
	letter, err := s.Letter(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return letter
}

// Case 23: the same record is redriven from three places at once: one new job, two refusals, which name it.
func TestCase23RedriveFromThreePlaces(t *testing.T) {
	inBoth(t, func(s shop, p place) {
		for range 10 {
			letter := s.dead(1, pawl.Policy{}, nil, nil)[0]
			jobs, errs := make([]pawl.ID, 3), make([]error, 3)
			begin := make(chan struct{})
			var group sync.WaitGroup
			for i := range errs {
				desk := newDesk(s.T, p.open(s.T))
				group.Go(func() {
					<-begin
					jobs[i], errs[i] = desk.Redrive(s.Context(), letter.ID, ops.RedriveOptions{By: ann})
				})
			}
			close(begin)
			group.Wait()
			won := s.read(letter.ID).NewJobID
			refused := 0
			for i, err := range errs {
				switch {
				case err == nil:
					s.want("the job that the winner is told", jobs[i], won)
				case errors.Is(err, pawl.ErrAlreadyRedriven) && strings.Contains(err.Error(), won.String()):
					refused++
				default:
					s.Errorf("refused with %v", err)
				}
			}
			s.want("refusals", refused, 2)
			s.want("the one job of the letter", s.jobsOf()[letter.ID], won)
			trail, err := s.Audit(s.Context(), pawl.AuditFilter{Subject: letter.ID.String()}, pawl.Page{})
			s.want("lines in the trail", []any{len(trail.Entries), err}, []any{1, nil})
		}
	})
}

// Case 27: the dead-letter table cannot be reached at the moment of death: the claim is kept, the record is made when it is
// back, and the handler does not run again.
func TestCase27LettersUnreachableAtDeath(t *testing.T) {
	inBoth(t, func(s shop, p place) {
		runs, running, open := atomic.Int32{}, make(chan struct{}, 9), make(chan struct{})
		h := s.serve(p.open(s.T), func(context.Context, args) error {
			runs.Add(1)
			running <- struct{}{}
			<-open
			return pawl.Permanent(errors.New("no such mailbox"))
		}, host.Config{})
		job, err := work.Enqueue(s.Context(), s.Store, args{1})
		if err != nil {
			s.Fatal(err)
		}
		<-running
		p.rename(s.T, "letter", "away")
		close(open)
		s.until("the end that cannot be written", func() bool { return h.Stats().Unsettled == 1 })
		claimed, err := s.Claim(s.Context(), pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 10})
		s.want("claimed by another meanwhile", []any{len(claimed.Jobs), err}, []any{0, nil})
		p.rename(s.T, "away", "letter")
		s.until("the record", func() bool { return h.Stats().Unsettled == 0 })
		page, err := s.Letters(s.Context(), pawl.LetterFilter{}, pawl.Page{})
		if err != nil || len(page.Letters) != 1 {
			s.Fatalf("%d letters, %v", len(page.Letters), err)
		}
		letter := page.Letters[0]
		s.want("letter", []any{letter.JobID, letter.Class, letter.Attempts, letter.Message}, []any{job.ID, pawl.DeathPermanent, 1, "no such mailbox"})
		view, err := s.Job(s.Context(), job.ID)
		s.want("job", []any{view.State, view.Letter, err}, []any{pawl.JobDead, letter.ID, nil})
		alerts, err := s.AlertsOf(s.Context(), letter.ID)
		s.want("alerts", []any{len(alerts), err}, []any{1, nil})
		s.want("runs of the handler", runs.Load(), 1)
	})
}

// Case 28: the same job id dies, is retried under its id and dies again: two records, since tokens never repeat, and two
// alerts.
func TestCase28SameJobDiesTwice(t *testing.T) {
	inBoth(t, func(s shop, _ place) {
		job, err := work.Enqueue(s.Context(), s.Store, args{1})
		if err != nil {
			s.Fatal(err)
		}
		one := s.claims()
		first := s.dies(one)
		retried, err := s.desk.Retry(s.Context(), first.ID, ops.RetryOptions{By: ann})
		s.want("retried", []any{retried, err}, []any{job.ID, nil})
		other := s.claims()
		s.want("the same id under another token", []any{other.ID, other.Token == one.Token}, []any{job.ID, false})
		second := s.dies(other)
		s.want("the records are two", first.ID == second.ID, false)
		s.want("of one job", []any{first.JobID, second.JobID}, []any{job.ID, job.ID})
		first = s.read(first.ID)
		s.want("linked", []any{first.NextLetter, second.Previous, first.Outcome}, []any{second.ID, first.ID, pawl.RedriveDiedAgain})
		n, err := s.CountLetters(s.Context(), pawl.LetterFilter{JobID: job.ID})
		s.want("records", []any{n, err}, []any{2, nil})
		tasks, err := s.ClaimAlerts(s.Context(), pawl.AlertClaim{Session: s.session, Sinks: []string{"one"}, Max: 10})
		if err != nil || len(tasks) != 2 || tasks[0].Key == tasks[1].Key {
			s.Errorf("alerts: %+v, %v", tasks, err)
		}
	})
}

// counter is a sink that counts what it is sent.
type counter struct{ messages, deaths atomic.Int32 }

func (*counter) Name() string { return "one" }

func (c *counter) Deliver(_ context.Context, alert pawl.Alert) error {
	c.messages.Add(1)
	if alert.Digest == nil {
		c.deaths.Add(1)
	} else {
		c.deaths.Add(int32(alert.Digest.Deaths))
	}
	return nil
}

// Case 29: 2,000 deaths of one fingerprint within a minute: a few messages, and every record is marked as alerted.
func TestCase29StormOfDeaths(t *testing.T) {
	inBoth(t, func(s shop, p place) {
		const n = 2000
		letters := s.dead(n, pawl.Policy{}, nil, nil)
		sink := &counter{}
		storm := pawl.Storm{Window: 2 * time.Second}
		s.serve(p.open(s.T), func(context.Context, args) error { return nil }, host.Config{Sinks: []pawl.Sink{sink}, Storm: storm})
		var view pawl.SinkView
		s.until("all are told of", func() bool {
			sinks, err := s.Sinks(s.Context())
			if err != nil || len(sinks) != 1 {
				s.Fatalf("sinks: %+v, %v", sinks, err)
			}
			view = sinks[0]
			return view.Pending == 0
		})
		s.want("told of", []any{view.Delivered, sink.deaths.Load()}, []any{n, n})
		if got := sink.messages.Load(); got > 40 { // 30 of a storm's begin, and digests
			s.Errorf("%d messages", got)
		}
		for _, letter := range letters {
			alerts, err := s.AlertsOf(s.Context(), letter.ID)
			if err != nil || len(alerts) != 1 || alerts[0].Pending || alerts[0].DeliveredAt.IsZero() {
				s.Fatalf("letter %s: %+v, %v", letter.ID, alerts, err)
			}
		}
	})
}
