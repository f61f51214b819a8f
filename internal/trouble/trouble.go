// Package trouble reports what fails again and again with a bounded number of log lines.
package trouble

import (
	"log/slog"
	"sync"
	"time"
)

// quiet is how long a trouble that goes on stays unmentioned.
const quiet = time.Minute

// Trouble is something that may fail again and again: the first failure is logged at Warn, then one a minute at most while it
// goes on, and its end at Info. What comes again within a minute is logged when it is still there after that, if at all.
type Trouble struct {
	log     *slog.Logger
	message string

	mu       sync.Mutex
	since    time.Time
	reported time.Time
	said     bool // of the trouble that goes on
	failures int
}

// New is a trouble that has not begun. The message says what does not work.
func New(log *slog.Logger, message string) *Trouble { return &Trouble{log: log, message: message} }

// Report tells of a failure.
func (t *Trouble) Report(err error, args ...any) {
	t.mu.Lock()
	now := time.Now()
	if t.failures == 0 {
		t.since = now
	}
	t.failures++
	failures, say := t.failures, t.reported.IsZero() || now.Sub(t.reported) >= quiet
	if say {
		t.reported, t.said = now, true
	}
	t.mu.Unlock()
	if say {
		t.log.Warn(t.message, append(args, "failures", failures, "error", err)...)
	}
}

// Over ends the trouble, if there was one.
func (t *Trouble) Over() {
	t.mu.Lock()
	failures, since, said := t.failures, t.since, t.said
	t.failures, t.said = 0, false
	t.mu.Unlock()
	if said {
		t.log.Info("over: "+t.message, "failures", failures, "after", time.Since(since))
	}
}

// Count is how many failures the trouble has had that goes on.
func (t *Trouble) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures
}

// Lasting is for how long the trouble has been going on.
func (t *Trouble) Lasting() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == 0 {
		return 0
	}
	return time.Since(t.since)
}
