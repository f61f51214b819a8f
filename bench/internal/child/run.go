package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/pawljobs/pawl/bench/internal/server"
)

// Meter reads the database's counters; *server.Server is one.
type Meter interface {
	Read(ctx context.Context) (server.Reading, error)
}

// Hooks are called before a phase begins, by its name. The child waits meanwhile.
type Hooks map[string]func(ctx context.Context) error

// Run has a child do the task. meter may be nil: nothing of a database is read then. When ctx ends the child is killed.
func Run(ctx context.Context, task Task, meter Meter, hooks Hooks) (Report, error) {
	program, err := os.Executable()
	if err != nil {
		return Report{}, err
	}
	command := exec.CommandContext(ctx, program, "-child", task.Side, task.Load)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		return Report{}, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return Report{}, err
	}
	if err := command.Start(); err != nil {
		return Report{}, err
	}
	c := conversation{in: json.NewEncoder(in), raw: in, out: bufio.NewReader(out), meter: meter, hooks: hooks}
	report, err := c.talk(ctx, task)
	_ = in.Close()
	if err != nil {
		_ = command.Process.Kill()
	}
	if ended := command.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return report, fmt.Errorf("%s of %s: %w", task.Load, task.Side, err)
	}
	return report, nil
}

// conversation is the parent's end of the line.
type conversation struct {
	in    *json.Encoder
	raw   io.Writer
	out   *bufio.Reader
	meter Meter
	hooks Hooks
	begin server.Reading
}

func (c *conversation) talk(ctx context.Context, task Task) (Report, error) {
	report := Report{Phases: map[string]Phase{}}
	if err := c.in.Encode(task); err != nil {
		return report, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return report, fmt.Errorf("it ended early: %w", err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return report, fmt.Errorf("unexpected %q: %w", line, err)
		}
		switch {
		case m.Begin != "":
			err = c.beginPhase(ctx, m)
		case m.End != "":
			err = c.endPhase(ctx, m, report.Phases)
		case m.Error != "":
			return report, errors.New(m.Error)
		default:
			report.Values = m.Values
			return report, nil
		}
		if err != nil {
			return report, err
		}
	}
}

func (c *conversation) beginPhase(ctx context.Context, m message) error {
	if hook := c.hooks[m.Begin]; hook != nil {
		if err := hook(ctx); err != nil {
			return fmt.Errorf("before %s: %w", m.Begin, err)
		}
	}
	var err error
	if c.begin, err = c.read(ctx); err != nil {
		return err
	}
	return c.goOn()
}

func (c *conversation) endPhase(ctx context.Context, m message, phases map[string]Phase) error {
	end, err := c.read(ctx)
	if err != nil {
		return err
	}
	phases[m.End] = Phase{
		Jobs: m.Jobs, Seconds: m.Seconds, Client: m.CPU,
		Server: max(0, end.CPU-c.begin.CPU), WAL: end.WAL - c.begin.WAL,
	}
	return c.goOn()
}

func (c *conversation) read(ctx context.Context) (server.Reading, error) {
	if c.meter == nil {
		return server.Reading{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return c.meter.Read(ctx)
}

func (c *conversation) goOn() error {
	_, err := io.WriteString(c.raw, "\n")
	return err
}
