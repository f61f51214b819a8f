//go:build unix

package app

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The life of a host that does the upkeep, on each store.
func serveLife(t *testing.T, store string) {
	p := serve(t, store)
	p.becomes(isHealthy)
	if metrics := p.get("/metrics"); !strings.Contains(metrics, "\npawl_host_health{health=\"healthy\"} 1\n") {
		t.Errorf("metrics: %s", metrics)
	}

	// Of another process: a delayed job, which it makes ready.
	id := pawlOn(t, store, "job", "enqueue", "a.v1", "--delay", "1s")
	deadline := time.Now().Add(patience)
	for state := "scheduled"; state != "waiting"; {
		var job struct{ State string }
		if err := json.Unmarshal([]byte(pawlOn(t, store, "job", "show", id, "--json")), &job); err != nil {
			t.Fatal(err)
		}
		if state = job.State; time.Now().After(deadline) {
			t.Fatalf("job is %s\n%s", state, p.said())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if list := pawlOn(t, store, "host", "list", "--json"); !strings.Contains(list, `"kinds":[]`) || !strings.Contains(list, `"sinks":["log"]`) {
		t.Errorf("host list: %s", list)
	}

	// The store is looked at when the host starts, and then now and again.
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		metrics := p.get("/metrics")
		if strings.Contains(metrics, `pawl_queue_oldest_ready_seconds{queue="2-default"}`) && strings.Contains(metrics, "\npawl_dead_letters_open 0\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("metrics say nothing of the store: %s", metrics)
		}
	}
	p.signal(syscall.SIGUSR1)
	p.becomes(isUnhealthy)
	p.signal(syscall.SIGUSR1)
	p.becomes(isUnhealthy)
	p.signal(syscall.SIGTERM)
	p.ends("0", patience)
	if got := p.get("/healthz/live"); !strings.Contains(got, "refused") {
		t.Errorf("after its end: %s", got)
	}
	if list := pawlOn(t, store, "host", "list", "--json"); list != "" {
		t.Errorf("it has left a session: %s", list)
	}

	// Now a job waits that nobody serves.
	p = serve(t, store)
	p.becomes(isDegraded)
	for deadline := time.Now().Add(patience); !strings.Contains(p.said(), "examination: no sink but the log is registered"); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say what may hurt one day\n%s", p.said())
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.signal(syscall.SIGINT)
	p.ends("0", patience)

	// An operator ends it from afar, which is a clean stop.
	p = serve(t, store)
	p.becomes(isDegraded)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if said := pawlOn(t, store, "host", "drain", name, "--watch", "--json"); !strings.Contains(said, `"drain":true`) {
		t.Errorf("host drain: %s", said)
	}
	p.ends("0", patience)
}

func TestServeOnSQLite(t *testing.T) {
	t.Parallel()
	serveLife(t, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))
}

func TestServeOnPostgres(t *testing.T) {
	t.Parallel()
	serveLife(t, database(t))
}

// The database comes late, goes, comes back, hangs, and comes back. It is told truly, at once, and no password is said.
func TestServeTellsOfItsStore(t *testing.T) {
	t.Parallel()
	r := startRelay(t, database(t))
	p := serve(t, r.url)
	p.becomes(isUnhealthy)
	if metrics := p.get("/metrics"); metrics != "200 " {
		t.Errorf("metrics while it starts: %s", metrics)
	}
	r.heal()
	p.becomes(isHealthy)
	r.cut()
	p.becomes(isUnhealthy)
	r.heal()
	p.becomes(isHealthy)
	r.stall()
	p.becomes(isUnhealthy)
	r.heal()
	p.becomes(isHealthy)
	p.signal(syscall.SIGTERM)
	p.ends("0", patience)
	if strings.Contains(p.said(), "hidden") {
		t.Errorf("it says the password:\n%s", p.said())
	}
}

// The file of an SQLite store that is taken away, and put back.
func TestServeTellsOfItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.db")
	p := serve(t, "sqlite:"+file)
	p.becomes(isHealthy)
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	p.becomes(isUnhealthy)
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	p.becomes(isHealthy)
	p.signal(syscall.SIGTERM)
	p.ends("0", patience)
}

// A drain that waits for a store which hangs: the endpoints are up, and a second signal ends it at once.
func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][2]syscall.Signal{
		"TERM TERM": {syscall.SIGTERM, syscall.SIGTERM}, "INT TERM": {syscall.SIGINT, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRelay(t, database(t))
			r.heal()
			p := serve(t, r.url)
			p.becomes(isHealthy)
			r.stall()
			p.signal(signals[0])
			p.becomes(isUnhealthy)
			select {
			case <-p.ended:
				t.Fatalf("it has not waited for its store\n%s", p.said())
			case <-time.After(time.Second):
			}
			p.becomes(isUnhealthy)
			p.signal(signals[1])
			p.ends("1", patience) // the drain would wait for more than two
			if !strings.Contains(p.said(), "pawl: host aborted") {
				t.Errorf("it says:\n%s", p.said())
			}
		})
	}
}

// Signals that come while it still waits for its store.
func TestServeSignalsBeforeItsStore(t *testing.T) {
	t.Parallel()
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		p := serve(t, startRelay(t, database(t)).url)
		p.becomes(isUnhealthy)
		p.signal(syscall.SIGTERM)
		p.ends("0", patience)
	})
	t.Run("quiet", func(t *testing.T) {
		t.Parallel()
		url := database(t)
		r := startRelay(t, url)
		p := serve(t, r.url)
		p.becomes(isUnhealthy)
		p.signal(syscall.SIGUSR1)
		p.becomes(isUnhealthy)
		r.heal()
		for deadline := time.Now().Add(patience); !strings.Contains(p.said(), "host started"); {
			if time.Now().After(deadline) {
				t.Fatalf("it does not start\n%s", p.said())
			}
			time.Sleep(20 * time.Millisecond)
		}
		for range 20 {
			p.becomes(isUnhealthy)
		}
		p.signal(syscall.SIGTERM)
		p.ends("0", patience)
	})
}

func TestServeRefusesATakenPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jobs.db")
	command := exec.CommandContext(t.Context(), binary, "serve", "--store", "sqlite:"+file, "--listen", taken.Addr().String())
	command.Args[0] = "pawl"
	said, err := command.CombinedOutput()
	if statusOf(err) != "1" || !strings.Contains(string(said), "address already in use") {
		t.Errorf("status %s: %s", statusOf(err), said)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the store was touched: %v", err)
	}
}

// The commands are the same on both stores; what they print is not the store's doing.
func TestCommandsOnPostgres(t *testing.T) {
	t.Parallel()
	store := database(t)
	var out, talk strings.Builder
	p := &program{in: strings.NewReader(""), out: &out, talk: &talk, environ: []string{"PAWL_STORE=" + store}, tty: func(any) bool { return false }, name: "pawl"}
	if code := p.run(t.Context(), []string{"dead", "list"}); code != exitPrecondition || !strings.Contains(talk.String(), "pawl migrate up") {
		t.Errorf("before there are tables: status %d, %s", code, talk.String())
	}
	withPassword := strings.Replace(store, "postgres://pawl@", "postgres://pawl:hidden@", 1)
	if got := pawlOn(t, withPassword, "migrate", "up", "--json"); !strings.Contains(got, `"current":true`) || strings.Contains(got, "hidden") {
		t.Errorf("migrate up: %s", got)
	}
	id := pawlOn(t, store, "job", "enqueue", "a.v1", "--args", `{"n":1}`)
	if got := pawlOn(t, store, "job", "list"); !strings.HasPrefix(got, id+"\twaiting\ta.v1\t") {
		t.Errorf("job list: %s", got)
	}
	if got := pawlOn(t, withPassword, "job", "show", id); !strings.Contains(got, id) || strings.Contains(got, "hidden") {
		t.Errorf("job show: %s", got)
	}
	pawlOn(t, store, "queue", "pause", "2-default", "--reason", "test", "--by", "kim")
	if got := pawlOn(t, store, "queue", "list", "--json"); !strings.Contains(got, `"paused":true`) {
		t.Errorf("queue list: %s", got)
	}
	if got := pawlOn(t, store, "audit", "list"); !strings.Contains(got, "kim") {
		t.Errorf("audit list: %s", got)
	}
	if got := pawlOn(t, store, "dead", "list", "--plain"); got != "No failed jobs." {
		t.Errorf("dead list: %s", got)
	}
}
