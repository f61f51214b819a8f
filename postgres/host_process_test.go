package postgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
)

// processVariable makes the test program a host process. It holds the JSON of an order.
const processVariable = "PAWL_TEST_HOST_PROCESS"

type order struct {
	URL, Schema, Name string
	Workers           int
}

func TestMain(m *testing.M) {
	if text := os.Getenv(processVariable); text != "" {
		if err := hostProcess(text); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// hostProcess runs a host whose handlers say that they have started, and then work until they are stopped. It ends
// with its standard input, so that it does not outlive the test.
func hostProcess(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := postgres.Open(ctx, o.URL, postgres.Config{Schema: o.Schema})
	if err != nil {
		return err
	}
	defer store.Close()
	h, err := host.New(store, muxOf(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
		fmt.Printf("started %s %d\n", job.ID, job.Attempt)
		<-ctx.Done()
		return ctx.Err()
	}), (&world{lines: &lines{}}).config(o.Name, o.Workers, quick()))
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return h.Run(ctx)
}

// process is a host process that a test has started.
type process struct {
	w       *world
	command *exec.Cmd
	stdin   io.Closer
	started chan string // "ID ATTEMPT" of every handler
	ended   chan struct{}
}

func (w *world) process(name string, workers int) *process {
	w.Helper()
	text, err := json.Marshal(order{URL: w.url, Schema: w.store.config.Schema, Name: name, Workers: workers})
	if err != nil {
		w.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), processVariable+"="+string(text))
	stdin, err := command.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	p := &process{w: w, command: command, stdin: stdin, started: make(chan string, 1000), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			line, ok := strings.CutPrefix(scanner.Text(), "started ")
			if !ok {
				slog.Info("host process", "says", scanner.Text())
				continue
			}
			p.started <- line
		}
	}()
	w.Cleanup(p.kill)
	return p
}

// await returns the next n starts.
func (p *process) await(n int) (starts []string) {
	p.w.Helper()
	for range n {
		select {
		case line := <-p.started:
			starts = append(starts, line)
		case <-p.ended:
			p.w.Fatalf("the host process ended after %d of %d starts", len(starts), n)
		case <-p.w.Context().Done():
			p.w.Fatal(p.w.Context().Err())
		}
	}
	return starts
}

// kill is kill -9.
func (p *process) kill() {
	if p.command.ProcessState != nil {
		return
	}
	_ = p.command.Process.Kill()
	<-p.ended
	_ = p.command.Wait()
	_ = p.stdin.Close()
}
