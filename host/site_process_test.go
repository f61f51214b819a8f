package host_test

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
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/storetest"
)

// orderVariable makes the test program a host process. It holds the JSON of an order.
const orderVariable = "PAWL_HOST_TEST_ORDER"

type order struct {
	Engine, Where, Name, Role string
	Workers                   int
}

// The test program is the host process too: this is where one begins.
func TestHostProcess(t *testing.T) {
	text := os.Getenv(orderVariable)
	if text == "" {
		t.Skip("it is run by other tests")
	}
	if err := hostProcess(text); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// roles are what a host process's store and handlers do. They tell of events by lines on the standard output.
var roles = map[string]func(store database, o order) (pawl.Store, func(ctx context.Context, job *pawl.Job, args workArgs) error){
	// Handlers work until they are stopped.
	"work": func(store database, _ order) (pawl.Store, func(context.Context, *pawl.Job, workArgs) error) {
		return store, func(ctx context.Context, job *pawl.Job, _ workArgs) error {
			fmt.Println("event", job.ID, job.Attempt)
			<-ctx.Done()
			return ctx.Err()
		}
	},
	// Start marks are never written.
	"unmarked": func(store database, _ order) (pawl.Store, func(context.Context, *pawl.Job, workArgs) error) {
		faulty := storetest.Fail(store)
		faulty.Hook("Start", func(ctx context.Context, _ func() error) error {
			fmt.Println("event claimed")
			<-ctx.Done()
			return ctx.Err()
		})
		return faulty, func(context.Context, *pawl.Job, workArgs) error {
			fmt.Println("event started")
			return nil
		}
	},
	// Job 0 takes the process down, beside others as soon as all of them run; what has been through two crashes does
	// what it is there for at once.
	"bomb": func(store database, o order) (pawl.Store, func(context.Context, *pawl.Job, workArgs) error) {
		var mu sync.Mutex
		running, all := 0, make(chan struct{})
		return store, func(ctx context.Context, job *pawl.Job, args workArgs) error {
			fmt.Println("event", job.ID, job.Attempt)
			if job.Attempt <= 2 {
				mu.Lock()
				if running++; running == o.Workers {
					close(all)
				}
				mu.Unlock()
				select {
				case <-all:
				case <-ctx.Done():
					return ctx.Err()
				}
				if args.N != 0 {
					<-ctx.Done()
					return ctx.Err()
				}
			}
			if args.N == 0 {
				os.Exit(3)
			}
			return nil
		}
	},
}

// hostProcess runs a host until its standard input ends, so that it does not outlive the test.
func hostProcess(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opened, err := engineOf(o.Engine).open(ctx, o.Where)
	if err != nil {
		return err
	}
	defer opened.Close()
	store, handle := roles[o.Role](opened, o)
	s := &site{runs: newLedger()}
	s.handle(handle)
	h, err := host.New(store, s.mux, quickConfig(o.Name, o.Workers, slog.New(slog.DiscardHandler)))
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
	s       *site
	command *exec.Cmd
	stdin   io.Closer
	events  chan string
	ended   chan struct{}
}

func (s *site) process(name, role string, workers int) *process {
	s.Helper()
	text, err := json.Marshal(order{s.engine.name, s.where, name, role, workers})
	if err != nil {
		s.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestHostProcess$")
	command.Env = append(os.Environ(), orderVariable+"="+string(text))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	p := &process{s: s, command: command, stdin: stdin, events: make(chan string, 10_000), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			if event, ok := strings.CutPrefix(scanner.Text(), "event "); ok {
				p.events <- event
			} else {
				fmt.Println(name, "says:", scanner.Text())
			}
		}
	}()
	s.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	if p.command.ProcessState != nil {
		return
	}
	_ = p.command.Process.Kill()
	p.wait()
}

// wait waits for the end of the process.
func (p *process) wait() {
	come(p.s, "the end of a process", p.ended)
	_ = p.command.Wait()
	_ = p.stdin.Close()
}
