package postgres_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// Of hosts that start at the same time on a new database one makes the tables and the others find them.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	stores, errs := make([]*postgres.Store, 6), make([]error, 6)
	var group sync.WaitGroup
	for i := range stores {
		group.Go(func() { stores[i], errs[i] = postgres.Open(t.Context(), server(t), config) })
	}
	group.Wait()
	for i, store := range stores {
		if errs[i] != nil {
			t.Errorf("open: %v", errs[i])
			continue
		}
		put(t, store, newJob(t, store))
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// A start that may not migrate says what to run.
func TestNoMigrate(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t), NoMigrate: true}
	_, err := postgres.Open(t.Context(), server(t), config)
	if !errors.Is(err, pawl.ErrSchema) || !strings.Contains(err.Error(), "pawl migrate up") {
		t.Errorf("without tables: %v", err)
	}
	said := &lines{}
	config.NoMigrate, config.Logger = false, slog.New(said)
	openIn(t, server(t), config)
	config.NoMigrate = true
	openIn(t, server(t), config)
	for i, want := range []string{" store made host=", " store opened host="} {
		if opened := said.at(slog.LevelInfo); len(opened) <= i || !strings.Contains(opened[i], want) || strings.Contains(opened[i], "from=") {
			t.Errorf("said %q, and line %d is not %q", opened, i, want)
		}
	}
	versions := table(config.Schema, "schema_version")
	execute(t, server(t), "insert into "+versions+" (version) select max(version) + 1 from "+versions)
	if _, err := postgres.Open(t.Context(), server(t), config); !errors.Is(err, pawl.ErrSchema) {
		t.Errorf("with newer tables: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"a\x00b", strings.Repeat("s", 64), "\xff"} {
		if _, err := postgres.Open(t.Context(), server(t), postgres.Config{Schema: schema}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("schema %q: %v", schema, err)
		}
	}
	if _, err := postgres.Open(t.Context(), "postgres://user:secret@[::1", postgres.Config{}); !errors.Is(err, pawl.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("bad url: %v", err)
	}
}

// One connection is enough for all that a host does at the same time.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	server(t)
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t), Conns: 1})
	session := openSession(t, store)
	const callers, each = 8, 25
	var group sync.WaitGroup
	for range callers {
		jobs := make([]pawl.NewJob, each)
		for i := range jobs {
			options := []pawl.Option{pawl.MaxTries(1)}
			if i%5 == 0 {
				options = append(options, pawl.UniqueWhileUnfinished(jobs[0].ID.String()+pawl.NewID().String()))
			}
			jobs[i] = newJob(t, store, options...)
		}
		group.Go(func() {
			for i := range jobs {
				if _, err := store.Enqueue(t.Context(), jobs[i:i+1]); err != nil {
					t.Errorf("enqueue: %v", err)
				}
			}
			if _, err := store.Beat(t.Context(), session, pawl.Beat{}); err != nil {
				t.Errorf("beat: %v", err)
			}
			if _, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err != nil {
				t.Errorf("sweep: %v", err)
			}
		})
	}
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; got < callers*each; {
		awaken(t, wake, "the last enqueue")
		jobs := claimAll(t, store, session)
		var reservations []pawl.Reservation
		for _, job := range jobs {
			reservations = append(reservations, job.Reservation)
		}
		if _, err := store.Start(t.Context(), session, reservations); err != nil {
			t.Fatal(err)
		}
		settleDone(t, store, session, jobs)
		got += len(jobs)
	}
	group.Wait()
}

// After Close every call says so, and what was being told is told.
func TestClosed(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	other := reopen(t, store).(inSchema)
	wake, err := other.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listening(t, store, 2)
	drained(wake)
	job := newJob(t, store)
	put(t, store, job)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	awaken(t, wake, "the enqueue before the close")
	if _, err := store.Enqueue(t.Context(), []pawl.NewJob{job}); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("enqueue: %v", err)
	}
	if _, err := store.Claim(t.Context(), pawl.ClaimRequest{Session: 1, Queues: []string{"2-default"}, Kinds: []string{testKind}, Max: 1}); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("claim: %v", err)
	}
	if _, err := store.Wake(t.Context()); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("wake: %v", err)
	}
	if _, err := store.Sweep(t.Context(), pawl.SweepRequest{}); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("sweep: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// A server that cannot be reached is an error that ends with the ctx.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := postgres.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none", postgres.Config{})
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("error %v after %s", err, time.Since(began))
	}
}

func table(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

// A search_path is no way to say where the tables are: it is refused unless it says the same as the configuration.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: "nobody_makes_this", NoMigrate: true}
	for given, refused := range map[string]string{
		"search_path=app":                              `search_path "app"`,
		"search_path=public," + config.Schema:          `search_path "public,`,
		"search_path=":                                 `search_path ""`,
		"options=-c%20search_path%3Dapp":               `search_path "app"`,
		"options=-csearch_path%3Dapp%20-c%20jit%3Doff": `search_path "app"`,
		"search_path=" + config.Schema + ",public":     "",
		"search_path=%22" + config.Schema + "%22":      "",
		"options=-c%20jit%3Doff":                       "",
	} {
		_, err := postgres.Open(t.Context(), withParameter(t, given), config)
		switch {
		case refused == "" && !errors.Is(err, pawl.ErrSchema): // nobody has made the tables
			t.Errorf("%s: %v", given, err)
		case refused != "" && (!errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), config.Schema)):
			t.Errorf("%s: %v", given, err)
		}
	}
}

// withParameter is the server's URL with one parameter more.
func withParameter(t *testing.T, parameter string) string {
	t.Helper()
	joint := "?"
	if strings.Contains(server(t), "?") {
		joint = "&"
	}
	return server(t) + joint + parameter
}

// What a URL says to a pool is kept from the connection that listens.
func TestListensThoughThePoolIsConfigured(t *testing.T) {
	t.Parallel()
	said := &lines{}
	config := postgres.Config{Schema: freshSchema(t), Logger: slog.New(said)}
	openIn(t, withParameter(t, "pool_max_conns=3"), config)
	listening(t, openIn(t, server(t), config), 2)
	if warned := said.at(slog.LevelWarn); len(warned) > 0 {
		t.Errorf("said %q", warned)
	}
}
