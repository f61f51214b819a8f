package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
)

type workArgs struct {
	N int `json:"n"`
}

var (
	work = pawl.NewKind[workArgs]("host.work.v1", pawl.Policy{})
	once = pawl.NewKind[workArgs]("host.once.v1", pawl.Policy{MaxTries: 1})
)

// world is a schema with a handle that is no host's, and the hosts that run on it.
type world struct {
	*testing.T
	url   string
	store inSchema
	lines *lines // of all hosts and their stores
}

func newWorld(t *testing.T) *world { return newWorldAt(t, server(t)) }

func newWorldAt(t *testing.T, url string) *world {
	t.Helper()
	w := &world{T: t, url: url, lines: &lines{}}
	w.store = openIn(t, url, postgres.Config{Schema: freshSchemaAt(t, url), Logger: slog.New(w.lines)})
	return w
}

// another is a handle of its own on the world's schema, as another process would have.
func (w *world) another() *postgres.Store { return w.by(w.url) }

// by is a handle that reaches the server by another address.
func (w *world) by(url string) *postgres.Store {
	w.Helper()
	return openIn(w, url, w.store.config).Store
}

// quick are the rhythms of hosts whose death is waited for.
func quick() host.Intervals {
	return host.Intervals{
		Beat: 400 * time.Millisecond, Silence: 1500 * time.Millisecond, DeadAfter: 2 * time.Second,
		Poll: 200 * time.Millisecond, Sweep: 100 * time.Millisecond, Call: 3 * time.Second,
	}
}

// hushed are the rhythms of hosts that find work only when they are told.
func hushed() host.Intervals { return host.Intervals{Poll: time.Hour, Sweep: time.Hour} }

// running is a host that runs until it is stopped or the test ends.
type running struct {
	*host.Host
	w       *world
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	mayFail bool // Run's error is no failure of the test
}

func (w *world) config(name string, workers int, intervals host.Intervals) host.Config {
	return host.Config{
		Name: name, Version: "v1", Logger: slog.New(w.lines), Intervals: intervals,
		Servers: []host.Server{{Name: "one", Queues: []string{"1-critical", "2-default", "3-bulk"}, Workers: workers}},
		Drain:   host.Drain{Handler: 2 * time.Second, Server: 4 * time.Second, Host: 10 * time.Second},
	}
}

func (w *world) start(store pawl.Store, mux *pawl.Mux, config host.Config) *running {
	w.Helper()
	h, err := host.New(store, mux, config)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Host: h, w: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = h.Run(ctx)
	}()
	w.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.w.Helper()
	r.cancel()
	<-r.done
	if r.err != nil && !r.mayFail {
		r.w.Errorf("host: Run returned %v", r.err)
	}
	r.err = nil
}

// muxOf hands jobs of both kinds to one handler.
func muxOf(handle func(ctx context.Context, job *pawl.Job, args workArgs) error) *pawl.Mux {
	mux := pawl.NewMux()
	both := func(ctx context.Context, args workArgs) error { return handle(ctx, pawl.FromContext(ctx), args) }
	pawl.Handle(mux, work, both)
	pawl.Handle(mux, once, both)
	return mux
}

// put enqueues n jobs of a kind, with the numbers from 0, by the world's own handle.
func (w *world) put(kind pawl.Kind[workArgs], n int, options ...pawl.Option) []pawl.ID {
	w.Helper()
	jobs, ids := make([]pawl.NewJob, n), make([]pawl.ID, n)
	for i := range jobs {
		job, err := kind.New(w.Context(), w.store.Connection(), workArgs{i}, options...)
		if err != nil {
			w.Fatal(err)
		}
		jobs[i], ids[i] = job, job.ID
	}
	if n > 0 {
		put(w, w.store, jobs...)
	}
	return ids
}

// until waits for a condition that nothing announces.
func (w *world) until(within time.Duration, what string, holds func() bool) {
	w.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			w.Fatalf("after %s: %s did not come to be\n%s", within, what, w.lines)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *world) equal(what string, got, want any) {
	w.Helper()
	if g, h := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != h {
		w.Errorf("%s: got %s, want %s", what, g, h)
	}
}

func (w *world) view(id pawl.ID) pawl.JobView {
	w.Helper()
	view, err := w.store.Job(w.Context(), id)
	if err != nil {
		w.Fatalf("job %s: %v", id, err)
	}
	return view
}

// views returns all jobs, those that have ended too.
func (w *world) views() map[pawl.ID]pawl.JobView {
	w.Helper()
	views := map[pawl.ID]pawl.JobView{}
	for page := (pawl.Page{Limit: 1000}); ; {
		list, err := w.store.Jobs(w.Context(), pawl.JobFilter{}, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, view := range list.Jobs {
			views[view.ID] = view
		}
		if page.After = list.Next; list.Next == "" {
			return views
		}
	}
}

// ends checks how every job ended, with how many attempts and crashes.
func (w *world) ends(ids []pawl.ID, state pawl.JobState, attempt, crashes int) {
	w.Helper()
	views := w.views()
	for i, id := range ids {
		view := views[id]
		if view.State != state || view.Attempt != attempt || view.Crashes != crashes {
			w.Errorf("job %d is %s after attempt %d with %d crashes, want %s, %d, %d", i, view.State, view.Attempt, view.Crashes, state, attempt, crashes)
		}
	}
}

// counts returns how many jobs wait, are scheduled and are reserved.
func (w *world) counts() (n pawl.QueueView) {
	w.Helper()
	queues, err := w.store.Queues(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, queue := range queues {
		n.Waiting, n.Scheduled, n.Reserved = n.Waiting+queue.Waiting, n.Scheduled+queue.Scheduled, n.Reserved+queue.Reserved
	}
	return n
}

// freshSchemaAt is freshSchema on a certain server.
func freshSchemaAt(t testing.TB, url string) string {
	t.Helper()
	if url == server(t) {
		return freshSchema(t)
	}
	name := "pawl of " + strings.ToLower(t.Name())
	t.Cleanup(func() { execute(t, url, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade") })
	return name
}

// ledger notes each run of a handler.
type ledger struct {
	mu    sync.Mutex
	runs  map[pawl.ID][]int // attempts
	total int
}

func newLedger() *ledger { return &ledger{runs: map[pawl.ID][]int{}} }

func (l *ledger) add(job *pawl.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[job.ID] = append(l.runs[job.ID], job.Attempt)
	l.total++
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// ran checks which attempts of every job ran.
func (l *ledger) ran(w *world, ids []pawl.ID, attempts ...int) {
	w.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		if got := fmt.Sprint(l.runs[id]); got != fmt.Sprint(attempts) {
			w.Errorf("job %d ran as attempts %s, want %v", i, got, attempts)
		}
	}
}

// lines is a logger's handler that keeps what it gets.
type lines struct {
	mu  sync.Mutex
	all []slog.Record
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *lines) WithGroup(string) slog.Handler                    { return l }

func (l *lines) Handle(_ context.Context, record slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, record)
	return nil
}

// at returns the lines of a level.
func (l *lines) at(level slog.Level) (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, record := range l.all {
		if record.Level == level {
			texts = append(texts, text(record))
		}
	}
	return texts
}

// String is the last from Warn on, for messages of failed tests.
func (l *lines) String() string {
	all := append(l.at(slog.LevelWarn), l.at(slog.LevelError)...)
	return strings.Join(all[max(0, len(all)-20):], "\n")
}

func text(record slog.Record) string {
	out := record.Time.Format("05.000 ") + record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		out += " " + a.String()
		return true
	})
	return out
}
