//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// process is a running child, as its director sees it.
type process struct {
	name    string
	command *exec.Cmd
	ready   chan struct{} // closed when it says so
	exited  chan struct{}
	replies chan reply // to pulses
	settles chan bool  // a settle waits for Go

	mu    sync.Mutex
	in    io.WriteCloser
	asked string // how it was asked to end
}

// spawn starts a process of this same program.
func spawn(t task, history *proof.Writer) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), taskVariable+"="+string(text))
	// A group of its own, so that an interrupt at the terminal reaches the director alone; and should the director be
	// killed, so is a process that it has stopped.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := t.logFile()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stderr = log
	p := &process{
		name: t.Name, command: command, ready: make(chan struct{}), exited: make(chan struct{}), replies: make(chan reply, 1),
		settles: make(chan bool, 1),
	}
	if p.in, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", t.Name, err)
	}
	history.Write(proof.Event{What: proof.Spawned, Target: t.Name})
	go p.watch(out, history)
	return p, nil
}

// watch listens until the process ends, and notes how.
func (p *process) watch(out io.Reader, history *proof.Writer) {
	defer close(p.exited)
	for in := json.NewDecoder(out); ; {
		var r reply
		if err := in.Decode(&r); err != nil {
			break
		}
		if r.Ready {
			close(p.ready)
			continue
		}
		if r.Settling {
			select {
			case p.settles <- true:
			default:
			}
			continue
		}
		select {
		case p.replies <- r:
		default:
		}
	}
	e := proof.Event{What: proof.Exited, Target: p.name}
	if err := p.command.Wait(); err != nil {
		e.Text = err.Error()
	}
	p.mu.Lock()
	e.Kind = p.asked
	p.mu.Unlock()
	history.Write(e)
}

// send gives an order. A process that is gone does not hear it.
func (p *process) send(order command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = json.NewEncoder(p.in).Encode(order)
}

// end asks the process to end by a signal.
func (p *process) end(how string, signal syscall.Signal) {
	p.mu.Lock()
	p.asked = how
	p.mu.Unlock()
	p.signal(signal)
}

// finish asks the producer to hand in no more jobs, and to end.
func (p *process) finish() {
	p.mu.Lock()
	p.asked = proof.ByTerm
	p.mu.Unlock()
	p.send(command{Finish: true})
}

// signal fails only for a process that is gone.
func (p *process) signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

func (p *process) gone() bool { return closed(p.exited) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
