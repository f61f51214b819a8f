package host_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// What hosts promise is asked of both SQL stores, in real time: the same test runs on each.

// patience bounds a wait for what nothing announces. Nothing takes that long unless it is broken.
const patience = 60 * time.Second

// database is a store as a test uses it.
type database interface {
	pawl.Store
	pawl.Operator
	Close() error
}

// engine is one kind of store.
type engine struct {
	name  string
	fresh func(t testing.TB) (where string)
	open  func(ctx context.Context, where string) (database, error)
	// hold takes a connection of the service's own and keeps a transaction open on it until it is undone.
	hold func(ctx context.Context, where string) (undo func() error, err error)
	// rename renames one of the store's tables.
	rename func(ctx context.Context, where, from, to string) error
}

var engines = []engine{
	{"sqlite", freshFile, openFile, holdFile, renameInFile},
	{"postgres", freshSchema, openSchema, holdSchema, renameInSchema},
}

func engineOf(name string) engine {
	for _, e := range engines {
		if e.name == name {
			return e
		}
	}
	return engine{}
}

func freshFile(t testing.TB) string { return filepath.Join(t.TempDir(), "jobs.db") }

func openFile(ctx context.Context, where string) (database, error) {
	return sqlite.Open(ctx, where, sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
}

func holdFile(ctx context.Context, where string) (func() error, error) {
	db, err := sql.Open("sqlite", where)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		err = tx.QueryRowContext(ctx, `select count(*) from pawl_job`).Scan(new(int))
	}
	return func() error {
		_ = tx.Rollback()
		return db.Close()
	}, err
}

func freshSchema(t testing.TB) string {
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	schema := "host_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			_, err = conn.Exec(ctx, "drop schema if exists "+schema+" cascade")
			_ = conn.Close(ctx)
		}
		if err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	return schema
}

// openSchema has one connection for the store's statements: that is enough.
func openSchema(ctx context.Context, where string) (database, error) {
	return postgres.Open(ctx, os.Getenv("PAWL_TEST_POSTGRES"), postgres.Config{Schema: where, Conns: 1, Logger: slog.New(slog.DiscardHandler)})
}

func holdSchema(ctx context.Context, where string) (func() error, error) {
	conn, err := pgx.Connect(ctx, os.Getenv("PAWL_TEST_POSTGRES"))
	if err != nil {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, "select 1 from "+where+".job limit 1")
	}
	return func() error {
		_ = tx.Rollback(context.Background())
		return conn.Close(context.Background())
	}, err
}

// site is a store of one kind, with a handle that is no host's, and the hosts that run on it.
type site struct {
	*testing.T
	engine engine
	where  string
	store  database
	lines  *lines
	runs   *ledger
	mux    *pawl.Mux
}

// onBoth runs a test on each kind of store.
func onBoth(t *testing.T, test func(s *site)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := &site{T: t, engine: e, where: e.fresh(t), lines: &lines{}, runs: newLedger(), mux: pawl.NewMux()}
			s.store = s.open()
			test(s)
		})
	}
}

// open is a handle of its own, as another process would have.
func (s *site) open() database {
	s.Helper()
	store, err := s.engine.open(s.Context(), s.where)
	if err != nil {
		s.Fatalf("open store: %v", err)
	}
	s.Cleanup(func() {
		if err := store.Close(); err != nil {
			s.Errorf("close store: %v", err)
		}
	})
	return store
}

// handle makes one handler for jobs of both kinds; every run is noted.
func (s *site) handle(f func(ctx context.Context, job *pawl.Job, args workArgs) error) {
	s.mux = pawl.NewMux()
	run := func(ctx context.Context, args workArgs) error {
		job := pawl.FromContext(ctx)
		s.runs.add(job)
		return f(ctx, job, args)
	}
	pawl.Handle(s.mux, work, run)
	pawl.Handle(s.mux, once, run)
}

// quick are the rhythms of hosts whose death is waited for. They are slow enough for a disk that takes its time.
func quick() host.Intervals {
	return host.Intervals{
		Beat: 500 * time.Millisecond, Silence: 2 * time.Second, DeadAfter: 3 * time.Second,
		Poll: 200 * time.Millisecond, Sweep: 100 * time.Millisecond, Call: 3 * time.Second,
	}
}

func quickConfig(name string, workers int, log *slog.Logger) host.Config {
	return host.Config{
		Name: name, Version: "v1", Logger: log, Intervals: quick(), Servers: oneServer(workers),
		Drain: host.Drain{Handler: 2 * time.Second, Server: 4 * time.Second, Host: 10 * time.Second},
	}
}

func (s *site) config(name string, workers int) host.Config {
	return quickConfig(name, workers, slog.New(slog.NewJSONHandler(s.lines, nil)))
}

// worker is a host that runs until it is stopped or the test ends.
type worker struct {
	*host.Host
	s      *site
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// start runs a host on a handle of its own.
func (s *site) start(name string, workers int) *worker {
	return s.startOn(s.open(), s.config(name, workers))
}

func (s *site) startOn(store pawl.Store, config host.Config) *worker {
	s.Helper()
	h, err := host.New(store, s.mux, config)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{Host: h, s: s, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.err = h.Run(ctx)
	}()
	s.Cleanup(func() { w.cancel(); <-w.ended })
	return w
}

// stop drains the host.
func (w *worker) stop() {
	w.s.Helper()
	w.cancel()
	<-w.ended
	if w.err != nil {
		w.s.Errorf("Run returned %v", w.err)
	}
}

// put enqueues n jobs of a kind with the numbers from 0.
func (s *site) put(kind pawl.Kind[workArgs], n int, options ...pawl.Option) []pawl.ID {
	s.Helper()
	jobs, ids := make([]pawl.NewJob, n), make([]pawl.ID, n)
	for i := range jobs {
		job, err := kind.New(s.Context(), s.store.Connection(), workArgs{i}, options...)
		if err != nil {
			s.Fatal(err)
		}
		jobs[i], ids[i] = job, job.ID
	}
	if _, err := s.store.Enqueue(s.Context(), jobs); err != nil {
		s.Fatal(err)
	}
	return ids
}

// until waits for what nothing announces.
func (s *site) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("after %s: %s did not come to be; %s", patience, what, s.state())
		}
	}
}

// state is what a failed test is looked into with.
func (s *site) state() string {
	queues, err := s.store.Queues(s.Context())
	hosts, hostsErr := s.store.Hosts(s.Context())
	warnings := s.lines.at(slog.LevelWarn, "")
	return fmt.Sprintf("queues %+v %v\nhosts %+v %v\nwarnings %v", queues, err, hosts, hostsErr, warnings[max(0, len(warnings)-20):])
}

// come waits for an event.
func come[T any](s *site, what string, c <-chan T) (value T) {
	s.Helper()
	select {
	case value = <-c:
	case <-time.After(patience):
		s.Fatalf("after %s: %s did not come; %s", patience, what, s.state())
	}
	return value
}

func (s *site) equal(what string, got, want any) {
	s.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		s.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func (s *site) view(id pawl.ID) pawl.JobView {
	s.Helper()
	view, err := s.store.Job(s.Context(), id)
	if err != nil {
		s.Fatalf("job %s: %v", id, err)
	}
	return view
}

// ended waits for the end of jobs and checks how they ended, with how many attempts.
func (s *site) ended(ids []pawl.ID, state pawl.JobState, attempts int) {
	s.Helper()
	for i, id := range ids {
		var view pawl.JobView
		s.until(fmt.Sprint("the end of job ", i), func() bool {
			view = s.view(id)
			return view.State != pawl.JobWaiting && view.State != pawl.JobScheduled && view.State != pawl.JobReserved
		})
		if view.State != state || view.Attempt != attempts {
			s.Errorf("job %d is %s after attempt %d, want %s after %d", i, view.State, view.Attempt, state, attempts)
		}
	}
}

func (s *site) hosts() []pawl.HostView {
	s.Helper()
	hosts, err := s.store.Hosts(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return hosts
}

// letterOf returns the one letter of a job.
func (s *site) letterOf(id pawl.ID) pawl.DeadLetter {
	s.Helper()
	page, err := s.store.Letters(s.Context(), pawl.LetterFilter{JobID: id}, pawl.Page{})
	if err != nil || len(page.Letters) != 1 {
		s.Fatalf("letters of job %s: %d, error %v", id, len(page.Letters), err)
	}
	letter, err := s.store.Letter(s.Context(), page.Letters[0].ID)
	if err != nil {
		s.Fatal(err)
	}
	return letter
}

func operator(why string) pawl.By { return pawl.By{Who: "ada", Door: "test", Why: why} }

// ledger notes each run of a handler.
type ledger struct {
	mu    sync.Mutex
	runs  map[pawl.ID][]int // attempts
	queue []string          // of every run, in order
}

func newLedger() *ledger { return &ledger{runs: map[pawl.ID][]int{}} }

func (l *ledger) add(job *pawl.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[job.ID] = append(l.runs[job.ID], job.Attempt)
	l.queue = append(l.queue, job.Queue)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

func (l *ledger) of(id pawl.ID) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.runs[id]...)
}

// ran checks which attempts of every job ran.
func (s *site) ran(ids []pawl.ID, attempts ...int) {
	s.Helper()
	for i, id := range ids {
		if got := fmt.Sprint(s.runs.of(id)); got != fmt.Sprint(attempts) {
			s.Errorf("job %d ran as attempts %s, want %v", i, got, attempts)
		}
	}
}
