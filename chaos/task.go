//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawljobs/pawl/chaos/internal/proof"
	"github.com/pawljobs/pawl/host"
)

// taskVariable makes this program one of the processes of a run. It holds the JSON of a task.
const taskVariable = "PAWL_CHAOS_TASK"

// task is what a process is to be.
type task struct {
	Role   string // worker or producer
	Name   string
	Folder string // of the run: its history goes there
	Store  string // postgres or sqlite
	URL    string // or the path of the file
	Looks  bool   // only looks: nothing has to wake it
	Seed   uint64
}

const (
	workerRole   = "worker"
	producerRole = "producer"
)

// The rhythms of the hosts, an eighth of the usual ones: a session lives for 2.5 s.
var intervals = host.Intervals{
	Beat: 400 * time.Millisecond, Silence: 1500 * time.Millisecond, DeadAfter: 2500 * time.Millisecond,
	Poll: 200 * time.Millisecond, Sweep: 200 * time.Millisecond, Alerts: 500 * time.Millisecond,
	GiveUp: 400 * time.Millisecond, Call: 3 * time.Second,
}

var drain = host.Drain{Handler: 800 * time.Millisecond, Server: 1300 * time.Millisecond, Host: 3 * time.Second}

// bound is how soon jobs of a dead host have to run again: the 30 s that belong to the usual 20, for this 2.5, and two
// seconds for a busy machine.
const bound = 3750*time.Millisecond + 2*time.Second

// monotonic is the machine's clock that nobody sets and that stands still while the machine is suspended. Its processes
// share it.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has it
	}
	return t.Nano()
}

// watch notes when this process stands still, for whom it speaks: itself, or (in the director, as "") the whole machine, as
// a virtual one does while it is moved or saved.
func watch(ctx context.Context, history *proof.Writer, target string) {
	const look, late = 50 * time.Millisecond, 400 * time.Millisecond
	for last := monotonic(); pause(ctx, look); {
		now := monotonic()
		if gap := time.Duration(now - last); gap > look+late {
			history.Write(proof.Event{What: proof.Frozen, Target: target, N: int(gap.Milliseconds())})
		}
		last = now
	}
}

// command is a line that the director sends to a process.
type command struct {
	Die    *float64 `json:"die,omitempty"`    // kill yourself in the next settle of a death, after that part of its usual time
	Settle string   `json:"settle,omitempty"` // fail the next settle: before or after its commit
	Hold   bool     `json:"hold,omitempty"`   // say when the next settle of a death begins, and wait for Go
	Go     bool     `json:"go,omitempty"`
	Pulse  bool     `json:"pulse,omitempty"`  // say how you are
	Finish bool     `json:"finish,omitempty"` // hand in no more jobs
}

// reply is a line that a process sends to the director.
type reply struct {
	Ready      bool `json:"ready,omitempty"`
	Settling   bool `json:"settling,omitempty"` // as Hold has asked
	Goroutines int  `json:"goroutines,omitempty"`
	Files      int  `json:"files,omitempty"`
}

// child is the inner half of a process.
type child struct {
	task
	history *proof.Writer

	mu  sync.Mutex
	out *json.Encoder
}

// runTask does what a task says and returns the exit status.
func runTask(text string) int {
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
		return 1
	}
	return 0
}

func (t task) run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	history, err := proof.Create(t.Folder, t.Name, monotonic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, history.Close()) }()
	c := &child{task: t, history: history, out: json.NewEncoder(os.Stdout)}
	if t.Role == producerRole {
		return produce(ctx, c)
	}
	return work(ctx, c)
}

// obey reads commands until the director is gone; then the process has no reason to live.
func (c *child) obey(do func(command)) {
	for in := json.NewDecoder(os.Stdin); ; {
		var order command
		if err := in.Decode(&order); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "%s: read command: %v\n", c.Name, err)
			}
			os.Exit(3)
		}
		do(order)
	}
}

func (c *child) say(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Encode(r); err != nil {
		fmt.Fprintf(os.Stderr, "%s: say: %v\n", c.Name, err)
	}
}

func (t task) logFile() (*os.File, error) {
	return os.OpenFile(filepath.Join(t.Folder, t.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}
