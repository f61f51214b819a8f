package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// counts is a look at how far a run is.
type counts struct {
	total     int // jobs that are or were in the store
	waiting   int
	scheduled int // mostly waiting for a retry
	running   int
	dead      int
	unsent    int // alerts
}

func (c counts) open() int { return c.waiting + c.scheduled + c.running }
func (c counts) done() int { return max(c.total-c.open()-c.dead, 0) }

// look counts. The open jobs are read before the letters and alerts of those that have ended.
func (r *run) look(ctx context.Context) (counts, error) {
	c := counts{total: r.before.total + int(r.intake.enqueued.Load())}
	queues, err := r.store.Queues(ctx)
	if err != nil {
		return c, fmt.Errorf("look at queues: %w", err)
	}
	for _, q := range queues {
		c.waiting += q.Waiting
		c.scheduled += q.Scheduled
		c.running += q.Reserved
	}
	letters, err := r.store.CountLetters(ctx, pawl.LetterFilter{})
	if err != nil {
		return c, fmt.Errorf("count dead letters: %w", err)
	}
	c.dead = r.before.dead + letters - r.before.letters
	sinks, err := r.store.Sinks(ctx)
	if err != nil {
		return c, fmt.Errorf("look at alerts: %w", err)
	}
	for _, s := range sinks {
		c.unsent += s.Pending
	}
	return c, nil
}

// progress shows counts while a run goes on: in place on a terminal, else a line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	every    time.Duration // between lines where it is no terminal

	begun time.Time
	last  time.Time
	drawn bool
}

func newProgress(out io.Writer, terminal bool, now time.Time) *progress {
	return &progress{out: out, terminal: terminal, every: 5 * time.Second, begun: now, last: now}
}

func (p *progress) show(c counts, now time.Time) {
	line := fmt.Sprintf("%5.1f s  done %d of %d, dead %d", now.Sub(p.begun).Seconds(), c.done(), c.total, c.dead)
	if c.open() > 0 {
		line += fmt.Sprintf(", running %d, retrying %d", c.running, c.scheduled)
	} else if c.unsent > 0 {
		line += fmt.Sprintf(", alerts to send %d", c.unsent)
	}
	if p.terminal {
		p.drawn = true
		fmt.Fprintf(p.out, "\r\x1b[K%s  %s", bar(c.done()+c.dead, c.total, 10), line)
		return
	}
	if now.Sub(p.last) >= p.every {
		p.last = now
		fmt.Fprintln(p.out, line)
	}
}

// end leaves the terminal's line free for what comes next.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// note prints a line of its own.
func (p *progress) note(text string) {
	p.end()
	fmt.Fprintln(p.out, text)
}

func bar(part, whole, width int) string {
	filled := 0
	if whole > 0 {
		filled = min(part*width/whole, width)
	}
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", width-filled) + "]"
}
