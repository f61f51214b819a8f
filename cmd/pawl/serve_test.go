//go:build unix

package main

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = time.Minute

// workshop is a folder with a store, its configuration, and processes of pawl that work on it.
type workshop struct {
	*testing.T
	folder string

	mu  sync.Mutex
	log strings.Builder
}

func newWorkshop(t *testing.T, config string) *workshop {
	w := &workshop{T: t, folder: t.TempDir()}
	w.write("pawl.yaml", config)
	return w
}

func (w *workshop) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *workshop) command(ctx context.Context, args ...string) *exec.Cmd {
	w.Helper()
	binary, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	command := exec.CommandContext(ctx, binary, args...)
	command.Args[0], command.Dir = "pawl", w.folder // the name is what TestMain goes by
	command.Env = append(os.Environ(), "PAWL_CONFIG="+filepath.Join(w.folder, "pawl.yaml"), "GORACE=atexit_sleep_ms=0")
	return command
}

// pawl runs one command that must succeed.
func (w *workshop) pawl(args ...string) string {
	w.Helper()
	command := w.command(w.Context(), args...)
	var talk strings.Builder
	command.Stderr = &talk
	out, err := command.Output()
	if err != nil {
		w.Fatalf("pawl %v: %v\n%s", args, err, talk.String())
	}
	return strings.TrimSpace(string(out))
}

// serve starts `pawl serve` and returns it when it serves.
func (w *workshop) serve(args ...string) *exec.Cmd {
	w.Helper()
	command := w.command(context.Background(), append([]string{"serve"}, args...)...)
	stderr, err := command.StderrPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			w.mu.Lock()
			w.log.WriteString(lines.Text() + "\n")
			w.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		_ = command.Process.Kill()
		<-read
		_ = command.Wait() // it has ended, one way or another
	})
	w.says("host started")
	return command
}

func (w *workshop) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// says waits for something in the log.
func (w *workshop) says(text string) {
	w.Helper()
	w.until(text, func() bool { return strings.Contains(w.said(), text) })
}

func (w *workshop) until(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not after %v\n%s", what, patience, w.said())
		}
	}
}

// becomes waits until a job has a state.
func (w *workshop) becomes(id, state string) {
	w.Helper()
	w.until(id+" "+state, func() bool { return strings.Contains(w.pawl("job", "show", id, "--json"), `"state":"`+state+`"`) })
}

// A stand-alone host delivers webhooks that were enqueued by the command line, retries 503, buries 400, and drains.
func TestServeDeliversWebhooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls, keys := map[string]int{}, map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls[r.URL.Path]++
		keys[r.URL.Path] = r.Header.Get("Idempotency-Key")
		switch {
		case r.URL.Path == "/busy" && calls[r.URL.Path] == 1:
			rw.Header().Set("Retry-After", "6") // more than is waited for within an attempt
			rw.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/bad":
			rw.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	w := newWorkshop(t, `
connections: {default: sqlite:jobs.db}
listen: 127.0.0.1:0
http_request: {allow: ["127.0.0.1:*"], allow_http: true, allow_networks: [127.0.0.0/8]}
`)
	host := w.serve()
	enqueue := func(path string) string {
		return w.pawl("job", "enqueue", "http.request.v1", "--args", `{"url": "`+server.URL+path+`", "json": {"order": 7}}`, "--backoff", "1s")
	}
	good, busy, bad := enqueue("/good"), enqueue("/busy"), enqueue("/bad")
	w.becomes(good, "done")
	w.becomes(bad, "dead")
	w.becomes(busy, "done")
	mu.Lock()
	if calls["/good"] != 1 || calls["/busy"] != 2 || calls["/bad"] != 1 || keys["/busy"] != busy {
		t.Errorf("calls %v, keys %v", calls, keys)
	}
	mu.Unlock()
	if got := w.pawl("dead", "list", "--plain"); !strings.Contains(got, "job="+bad) || !strings.Contains(got, "status 400 Bad Request") || strings.Count(got, "\n") != 0 {
		t.Errorf("dead letters: %s", got)
	}
	if err := host.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if state, err := host.Process.Wait(); err != nil || !state.Success() {
		t.Errorf("it ended with %v, %v\n%s", state, err, w.said())
	}
}

// What can change while a host runs does so when the file changes; the rest is named; a broken file changes nothing.
func TestServeTakesNewSettings(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	const start = `
connections: {default: sqlite:jobs.db}
listen: 127.0.0.1:0
kinds: {off: [http.request.v1]}
command_run: {commands: {touch: {run: [/usr/bin/touch, FOLDER/first]}}}
`
	w := newWorkshop(t, "")
	w.write("pawl.yaml", strings.ReplaceAll(start, "FOLDER", w.folder))
	host := w.serve("--json")
	args := []string{"job", "enqueue", "http.request.v1", "--args", `{"url": "` + server.URL + `"}`, "--max-tries", "1"}
	held := w.pawl(args...)
	w.becomes(w.pawl("job", "enqueue", "command.run.v1", "--args", `{"command": "touch"}`), "done")
	if _, err := os.Stat(filepath.Join(w.folder, "first")); err != nil {
		t.Error(err)
	}
	if got := w.pawl("job", "show", held, "--json"); !strings.Contains(got, `"state":"waiting"`) {
		t.Errorf("a kind that is off was run: %s", got)
	}

	w.write("pawl.yaml", "lisen: x\n")
	w.says("lisen: did you mean listen?")
	w.write("pawl.yaml", strings.ReplaceAll(`
connections: {default: sqlite:jobs.db}
listen: 127.0.0.1:1
servers: {one: {queues: [2-default], workers: 1}}
log: {level: warn}
http_request: {allow: ["127.0.0.1:*"], allow_http: true, allow_networks: [127.0.0.0/8]}
command_run: {commands: {touch: {run: [/usr/bin/touch, FOLDER/second]}}}
`, "FOLDER", w.folder))
	w.says("the new configuration needs a restart: listen, servers")
	w.becomes(held, "done") // allowed, and no longer off
	w.becomes(w.pawl("job", "enqueue", "command.run.v1", "--args", `{"command": "touch"}`), "done")
	if _, err := os.Stat(filepath.Join(w.folder, "second")); err != nil {
		t.Error(err)
	}

	w.write("pawl.yaml", "listen: 127.0.0.1:0\nconnections: {default: sqlite:jobs.db}\nlog: {level: info}\n")
	if err := host.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.says("the new configuration needs a restart")
	waits := w.pawl("job", "enqueue", "command.run.v1", "--args", `{"command": "touch"}`)
	w.becomes(w.pawl(args...), "dead") // 127.0.0.1 is not public
	if got := w.pawl("job", "show", waits, "--json"); !strings.Contains(got, `"state":"waiting"`) {
		t.Errorf("a command that is no longer there: %s", got)
	}
	if err := host.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if state, err := host.Process.Wait(); err != nil || !state.Success() {
		t.Errorf("it ended with %v, %v\n%s", state, err, w.said())
	}
}
