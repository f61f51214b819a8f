package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(deployVariable); text != "" {
		if err := deployProcess(text); err != nil {
			fmt.Fprintln(os.Stderr, "host process:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

type workArgs struct {
	N int `json:"n"`
}

var (
	work = pawl.NewKind[workArgs]("test.work.v1", pawl.Policy{})
	once = pawl.NewKind[workArgs]("test.once.v1", pawl.Policy{MaxTries: 1})
)

// world is a fake store, the lines that were logged, and hosts on it; made inside a bubble of virtual time.
type world struct {
	*testing.T
	store *fakeStore
	lines *lines
	mux   *pawl.Mux
	// config of the hosts that start makes
	config host.Config
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, store: newFake(), lines: &lines{}, mux: pawl.NewMux()}
	w.config = host.Config{Name: "desk-7", Version: "v1", Logger: slog.New(slog.NewJSONHandler(w.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	return w
}

// virtual runs a test in a bubble.
func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func (w *world) handle(f func(ctx context.Context, args workArgs) error) {
	pawl.Handle(w.mux, work, f)
}

// running is a host that runs.
type running struct {
	*host.Host
	w      *world
	cancel context.CancelFunc
	err    chan error
}

func (w *world) start() *running { return w.startOn(w.store) }

func (w *world) startOn(store pawl.Store) *running {
	w.Helper()
	h, err := host.New(store, w.mux, w.config)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Host: h, w: w, cancel: cancel, err: make(chan error, 1)}
	go func() { r.err <- h.Run(ctx) }()
	return r
}

// stop drains the host and returns how long that took and what Run returned.
func (r *running) stop() (time.Duration, error) {
	begun := time.Now()
	r.cancel()
	err := <-r.err
	return time.Since(begun), err
}

// clean is stop for a host that has nothing to complain about.
func (r *running) clean() {
	r.w.Helper()
	if _, err := r.stop(); err != nil {
		r.w.Errorf("Run returned %v", err)
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) put(n int, options ...pawl.Option) pawl.ID {
	w.Helper()
	return w.putOf(work, n, options...)
}

func (w *world) putOf(kind pawl.Kind[workArgs], n int, options ...pawl.Option) pawl.ID {
	w.Helper()
	done, err := kind.Enqueue(context.Background(), w.store, workArgs{n}, options...)
	if err != nil {
		w.Fatal(err)
	}
	return done.ID
}

func (w *world) putMany(n int, options ...pawl.Option) []pawl.ID {
	w.Helper()
	ids := make([]pawl.ID, n)
	for i := range ids {
		ids[i] = w.put(i, options...)
	}
	return ids
}

func (w *world) equal(what string, got, want any) {
	w.Helper()
	if g, h := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != h {
		w.Errorf("%s: got %s, want %s", what, g, h)
	}
}

// ended says how a job ended: "", "done" or "dead"; twice would show as two words.
func (w *world) ended(id pawl.ID) string {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	s := ""
	for _, how := range w.store.ended[id] {
		s += how
	}
	return s
}

// letterOf returns the one letter of a job.
func (w *world) letterOf(id pawl.ID) pawl.DeadLetter {
	w.Helper()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	var found []pawl.DeadLetter
	for _, l := range w.store.letters {
		if l.JobID == id {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		w.Fatalf("%d letters of job %s, want 1", len(found), id)
	}
	return found[0]
}

// look is the store's job under its lock; zero when it has ended.
func (w *world) look(id pawl.ID) fakeJob {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if j := w.store.jobs[id]; j != nil {
		return *j
	}
	return fakeJob{}
}

// with changes the store's job under its lock.
func (w *world) with(id pawl.ID, f func(j *fakeJob)) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	f(w.store.jobs[id])
}

// kill ends a host's session as an observer would.
func (w *world) kill(id pawl.SessionID) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.crash(id)
	w.store.wake()
}

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	all []line
}

type line map[string]any

func (l *lines) Write(p []byte) (int, error) {
	var entry line
	if err := json.NewDecoder(bytes.NewReader(p)).Decode(&entry); err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, entry)
	return len(p), nil
}

// at returns the lines of a level; with a message only those.
func (l *lines) at(level slog.Level, message string) []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(e line) bool {
		return e["level"] != level.String() || message != "" && e["msg"] != message
	})
}

// errs returns the Error lines of deaths by job; any other Error line is a failure.
func (w *world) deathLines() map[string]int {
	w.Helper()
	out := map[string]int{}
	for _, e := range w.lines.at(slog.LevelError, "") {
		if e["msg"] != "job dead-lettered" {
			w.Errorf("an Error line that is no death: %v", e)
		}
		out[fmt.Sprint(e["job"])]++
	}
	return out
}
