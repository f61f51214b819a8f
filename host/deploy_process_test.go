//go:build unix

package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// deployVariable makes the test program a host process. It holds the JSON of a release.
const deployVariable = "PAWL_TEST_DEPLOY_PROCESS"

// release is what a host process is told.
type release struct {
	Store string // sqlite:PATH or a PostgreSQL URL
	Name  string
	Grace time.Duration
}

type deployArgs struct {
	For  time.Duration
	Deaf bool // to its ctx
	Own  bool // wraps the cancellation in words of its own
}

var deployed = pawl.NewKind[deployArgs]("deploy.work.v1", pawl.Policy{MaxTries: 3})

type operated interface {
	pawl.Store
	pawl.Operator
	Close() error
}

func openDeployStore(ctx context.Context, at string) (operated, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if path, is := strings.CutPrefix(at, "sqlite:"); is {
		return sqlite.Open(ctx, path, sqlite.Config{Logger: log})
	}
	return postgres.Open(ctx, at, postgres.Config{Logger: log})
}

// deployProcess is a service's program: a host that runs until a signal, with its endpoints.
func deployProcess(text string) error {
	var r release
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	go func() { // it does not outlive the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	store, err := openDeployStore(context.Background(), r.Store)
	if err != nil {
		return err
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, deployed, workThatLasts)
	h, err := host.New(store, mux, host.Config{
		Name: r.Name, Servers: []host.Server{{Name: "one", Queues: []string{"2-default"}, Workers: 30}},
		Drain:  host.Drain{Handler: r.Grace, Server: r.Grace + r.Grace/2, Host: r.Grace + 10*time.Minute},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	tell("up", "http://"+listener.Addr().String())
	return errors.Join(h.RunUntilSignal(context.Background()), store.Close(), server.Close())
}

// workThatLasts is work that takes its time, unless it is asked to stop and listens.
func workThatLasts(ctx context.Context, args deployArgs) error {
	job := pawl.FromContext(ctx)
	tell("start", job.ID)
	listens := ctx.Done()
	if args.Deaf {
		listens = nil
	}
	select {
	case <-time.After(args.For):
		tell("done", job.ID)
		return nil
	case <-listens:
		if args.Own {
			return errors.New("stopped half-way")
		}
		return ctx.Err()
	}
}

// tell writes a line to the test in one piece.
func tell(what string, value any) { _, _ = os.Stdout.WriteString(fmt.Sprintln(what, value)) }

// deployWorld is a store, the host processes on it, and what they tell.
type deployWorld struct {
	*testing.T
	at    string
	store operated

	mu     sync.Mutex
	starts map[string]int
	dones  map[string]int
}

// onEachStore runs a test on SQLite and on PostgreSQL, each of its own.
func onEachStore(t *testing.T, test func(w *deployWorld)) {
	t.Helper()
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "jobs.db") },
		"postgres": deployDatabase,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &deployWorld{T: t, at: make(t), starts: map[string]int{}, dones: map[string]int{}}
			store, err := openDeployStore(t.Context(), w.at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			w.store = store
			test(w)
		})
	}
}

// deployDatabase makes a database for one test and returns its URL.
func deployDatabase(t *testing.T) string {
	base := os.Getenv("PAWL_TEST_POSTGRES")
	if base == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	name := pgx.Identifier{strings.ToLower(t.Name())}
	statement := func(sql string) {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, base)
		if err == nil {
			_, err = conn.Exec(ctx, sql)
			err = errors.Join(err, conn.Close(ctx))
		}
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	statement("drop database if exists " + name.Sanitize())
	statement("create database " + name.Sanitize())
	t.Cleanup(func() { statement("drop database " + name.Sanitize() + " with (force)") })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name[0]
	return u.String()
}

// put enqueues jobs and returns their ids.
func (w *deployWorld) put(jobs ...deployArgs) (ids []pawl.ID) {
	w.Helper()
	for _, args := range jobs {
		done, err := deployed.Enqueue(w.Context(), w.store, args)
		if err != nil {
			w.Fatal(err)
		}
		ids = append(ids, done.ID)
	}
	return ids
}

// deployedHost is one process.
type deployedHost struct {
	w       *deployWorld
	command *exec.Cmd
	url     string
	ended   chan struct{}
	err     error // once ended
}

func (w *deployWorld) deploy(name string, grace time.Duration) *deployedHost {
	w.Helper()
	text, err := json.Marshal(release{Store: w.at, Name: name, Grace: grace})
	if err != nil {
		w.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), deployVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	h := &deployedHost{w: w, command: command, ended: make(chan struct{})}
	up := make(chan string, 1)
	go h.listen(stdout, up)
	w.Cleanup(func() {
		_ = command.Process.Kill()
		<-h.ended
		_ = stdin.Close()
	})
	select {
	case h.url = <-up:
	case <-h.ended:
		w.Fatalf("a host process ended before it was up: %v", h.err)
	}
	return h
}

func (h *deployedHost) listen(stdout io.Reader, up chan<- string) {
	defer close(h.ended)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		what, value, _ := strings.Cut(lines.Text(), " ")
		h.w.mu.Lock()
		switch what {
		case "up":
			up <- value
		case "start":
			h.w.starts[value]++
		case "done":
			h.w.dones[value]++
		}
		h.w.mu.Unlock()
	}
	h.err = h.command.Wait()
}

// get asks an endpoint; "" when nobody is there.
func (h *deployedHost) get(path string) string {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(h.url + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return fmt.Sprint(response.StatusCode, " ", string(text))
}

// becomes waits for its readiness.
func (h *deployedHost) becomes(want string) {
	h.w.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := h.get("/healthz/ready")
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			h.w.Fatalf("readiness is %q, want %q", got, want)
		}
	}
}

// stop sends SIGTERM and waits for the end. Until then the host says that it is alive and not ready; seen is false when it
// had nothing to wait for and was gone before it could be asked.
func (h *deployedHost) stop() (seen bool) {
	h.w.Helper()
	if err := h.command.Process.Signal(syscall.SIGTERM); err != nil {
		h.w.Fatal(err)
	}
	for ready := ""; ready != "503 Unhealthy" && !h.hasEnded(); {
		ready = h.get("/healthz/ready")
		seen = ready == "503 Unhealthy"
	}
	if live := h.get("/healthz/live"); live != "200 Live" && live != "" {
		h.w.Errorf("a host that drains: live %q", live)
	}
	select {
	case <-h.ended:
	case <-time.After(5 * time.Minute):
		h.w.Fatal("a host process does not end")
	}
	if h.err != nil {
		h.w.Errorf("a host process ended with %v", h.err)
	}
	return seen
}

func (h *deployedHost) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// settled waits until nothing is left, and checks that every job is done, after one attempt that counted. Work that was
// left behind may be finished beside that which took its place, if the machine is slow to end the process.
func (w *deployWorld) settled(ids []pawl.ID) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		queues, err := w.store.Queues(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if len(queues) == 0 {
			break
		}
		if time.Now().After(deadline) {
			w.Fatalf("jobs are left: %+v", queues)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		job, err := w.store.Job(w.Context(), id)
		if err != nil {
			w.Fatal(err)
		}
		if job.State != pawl.JobDone || job.Attempt != 1 || job.Crashes != 0 || len(job.History) != 0 || w.dones[id.String()] == 0 {
			w.Errorf("job %s is %s after attempt %d, %d crashes and %d requeues, its work was finished %d times, and it has failed with %+v",
				id, job.State, job.Attempt, job.Crashes, job.Requeues, w.dones[id.String()], job.History)
		}
	}
	letters, err := w.store.CountLetters(w.Context(), pawl.LetterFilter{})
	if err != nil || letters != 0 {
		w.Errorf("%d dead letters, %v", letters, err)
	}
	if len(w.starts) != len(ids) {
		w.Errorf("%d jobs ran, want %d", len(w.starts), len(ids))
	}
}
