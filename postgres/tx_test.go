package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

const testKind = "postgres.test.v1"

func newJob(t testing.TB, store pawl.Enqueuer, options ...pawl.Option) pawl.NewJob {
	t.Helper()
	job, err := pawl.NewKind[json.RawMessage](testKind, pawl.Policy{}).New(t.Context(), store.Connection(), json.RawMessage(`{"n":1}`), options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func put(t testing.TB, to pawl.Enqueuer, jobs ...pawl.NewJob) []pawl.Enqueued {
	t.Helper()
	results, err := to.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	return results
}

func openSession(t testing.TB, store pawl.Store) pawl.SessionID {
	t.Helper()
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "a", Kinds: []string{testKind}})
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return session
}

// claimAll claims until the store says that there is no more.
func claimAll(t testing.TB, store pawl.Store, session pawl.SessionID) []pawl.ClaimedJob {
	t.Helper()
	var jobs []pawl.ClaimedJob
	for {
		claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{
			Session: session, Queues: []string{"2-default"}, Kinds: []string{testKind}, Max: 100, Suspect: true,
		})
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		jobs = append(jobs, claimed.Jobs...)
		if !claimed.More {
			return jobs
		}
	}
}

func settleDone(t testing.TB, store pawl.Store, session pawl.SessionID, jobs []pawl.ClaimedJob) {
	t.Helper()
	settlements := make([]pawl.Settlement, len(jobs))
	for i, job := range jobs {
		settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
	}
	errs, err := store.Settle(t.Context(), session, settlements)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	for _, err := range errs {
		if err != nil {
			t.Fatalf("settle: %v", err)
		}
	}
}

const patience = 30 * time.Second

// awaken waits for a wake-up that comes after those that are there already.
func awaken(t testing.TB, wake <-chan struct{}, by string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatalf("%s woke nobody", by)
	}
}

func drained(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}

// beginSQL is a transaction of database/sql.
func beginSQL(t testing.TB, store inSchema) *sql.Tx {
	t.Helper()
	db, err := sql.Open("pgx", store.url)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Everything that a job can have goes through database/sql as it goes through pgx.
func TestSQLTx(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	session := openSession(t, store)
	held := newJob(t, store, pawl.UniqueFor("period", time.Hour))
	put(t, store, held)
	settleDone(t, store, session, claimAll(t, store, session))

	tx := beginSQL(t, store)
	in := store.SQLTx(tx)
	plain := newJob(t, store, pawl.MaxTries(1))
	later := newJob(t, store, pawl.Delay(time.Hour), pawl.UniqueWhileWaiting("waiting"))
	results := put(t, in, plain, later,
		newJob(t, store, pawl.UniqueFor("period", time.Hour)), held, newJob(t, store, pawl.UniqueWhileUnfinished("waiting")))
	want := []pawl.Enqueued{
		{ID: plain.ID},
		{ID: later.ID},
		{ID: held.ID, Status: pawl.Duplicate},
		{ID: held.ID, Status: pawl.Repeated},
		{ID: later.ID, Status: pawl.Duplicate},
	}
	for i := range want {
		if results[i] != want[i] {
			t.Errorf("result %d is %v, want %v", i, results[i], want[i])
		}
	}
	if results := put(t, in, plain); results[0].Status != pawl.Repeated {
		t.Errorf("the same id again in the transaction: %v", results[0].Status)
	}
	if jobs := claimAll(t, store, session); len(jobs) > 0 {
		t.Fatalf("%d jobs before the commit", len(jobs))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	jobs := claimAll(t, store, session)
	if len(jobs) != 1 || jobs[0].ID != plain.ID || string(jobs[0].Envelope) != string(plain.Envelope) {
		t.Fatalf("claimed %v", jobs)
	}
	view, err := store.Job(t.Context(), later.ID)
	if err != nil || view.State != pawl.JobScheduled {
		t.Errorf("the delayed job is %s (%v)", view.State, err)
	}
}

// A commit of the caller's wakes a host of another process.
func TestCommitWakes(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	other := reopen(t, store).(inSchema)
	wake, err := other.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listening(t, store, 2)
	for name, enqueue := range map[string]func() (commit func() error){
		"database/sql": func() func() error {
			tx := beginSQL(t, store)
			put(t, store.SQLTx(tx), newJob(t, store))
			return tx.Commit
		},
		"pgx": func() func() error {
			tx := begin(t, store)
			put(t, tx, newJob(t, store))
			return tx.Commit
		},
	} {
		commit := enqueue()
		drained(wake)
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		awaken(t, wake, "a commit through "+name)
	}
}

// listening waits until so many connections listen for a store's notifications: until then its handles look for
// themselves.
func listening(t testing.TB, store inSchema, want int) {
	t.Helper()
	conn := beside(t, store.url)
	for deadline := time.Now().Add(patience); ; {
		n := 0
		if err := conn.QueryRow(t.Context(), `select count(*) from pg_stat_activity
where application_name = 'pawl listen ' || $1 and state = 'idle' and query <> ''`, postgres.ChannelOf(store.config.Schema)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections listen, want %d", n, want)
		}
	}
}

// beside is a connection apart from the store's.
func beside(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// A job that drew its place in the queue early and is committed late is not left behind by claims that went past it.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	session := openSession(t, store)
	tx := begin(t, store)
	early := newJob(t, store)
	put(t, tx, early)
	for range 5 { // other jobs come and go meanwhile, and the claims go past the early one
		put(t, store, newJob(t, store), newJob(t, store))
		jobs := claimAll(t, store, session)
		if len(jobs) != 2 {
			t.Fatalf("claimed %d jobs, want 2", len(jobs))
		}
		settleDone(t, store, session, jobs)
	}
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drained(wake)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for {
		awaken(t, wake, "the commit")
		if jobs := claimAll(t, store, session); len(jobs) > 0 {
			if jobs[0].ID != early.ID {
				t.Errorf("claimed %s, want %s", jobs[0].ID, early.ID)
			}
			return
		}
	}
}

func TestTxMustBeGiven(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	for name, to := range map[string]pawl.Enqueuer{"pgx": store.Tx(nil), "database/sql": store.SQLTx(nil)} {
		if _, err := to.Enqueue(t.Context(), []pawl.NewJob{newJob(t, store)}); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
