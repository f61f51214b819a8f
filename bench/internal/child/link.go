package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Link is the child's end of the line.
type Link struct {
	in  *bufio.Reader
	out *json.Encoder
}

// Accept reads the task.
func Accept(in io.Reader, out io.Writer) (*Link, Task, error) {
	l := &Link{in: bufio.NewReader(in), out: json.NewEncoder(out)}
	line, err := l.in.ReadBytes('\n')
	if err != nil {
		return nil, Task{}, fmt.Errorf("read task: %w", err)
	}
	var task Task
	if err := json.Unmarshal(line, &task); err != nil {
		return nil, Task{}, fmt.Errorf("read task: %w", err)
	}
	return l, task, nil
}

// Phase runs what is to be measured; run returns how many jobs it dealt with.
func (l *Link) Phase(name string, run func() (jobs int, err error)) error {
	if err := l.say(message{Begin: name}); err != nil {
		return err
	}
	began, cpu := time.Now(), CPU()
	jobs, err := run()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return l.say(message{End: name, Jobs: jobs, Seconds: time.Since(began).Seconds(), CPU: CPU() - cpu})
}

// Finish sends what else was measured, and the error, if any.
func (l *Link) Finish(values map[string]float64, err error) error {
	m := message{Values: values}
	if err != nil {
		m.Error = err.Error()
	}
	return l.out.Encode(m)
}

// say sends a line and waits for the parent.
func (l *Link) say(m message) error {
	if err := l.out.Encode(m); err != nil {
		return err
	}
	_, err := l.in.ReadString('\n')
	return err
}

// CPU is the processor time that this process has used so far.
func CPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
