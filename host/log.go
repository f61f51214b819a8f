package host

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// jobHandler adds a job's fixed keys to a logger when the first line is written: most attempts write none.
type jobHandler struct {
	base  slog.Handler
	attrs func() []slog.Attr
	once  sync.Once
	full  slog.Handler
}

func (h *jobHandler) handler() slog.Handler {
	h.once.Do(func() { h.full = h.base.WithAttrs(h.attrs()) })
	return h.full
}

func (h *jobHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.base.Enabled(ctx, level)
}

func (h *jobHandler) Handle(ctx context.Context, record slog.Record) error {
	return h.handler().Handle(ctx, record)
}

func (h *jobHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.handler().WithAttrs(attrs) }

func (h *jobHandler) WithGroup(name string) slog.Handler { return h.handler().WithGroup(name) }

// quiet is how long a trouble that goes on stays unmentioned.
const quiet = time.Minute

// trouble reports something that fails again and again with a bounded number of lines: the first failure, one a
// minute while it goes on, and its end.
type trouble struct {
	log     *slog.Logger
	message string

	mu       sync.Mutex
	since    time.Time
	reported time.Time
	said     bool // of the trouble that goes on
	failures int
}

func (t *trouble) report(err error, args ...any) {
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

// over ends the trouble, if there was one.
func (t *trouble) over() {
	t.mu.Lock()
	failures, since, said := t.failures, t.since, t.said
	t.failures, t.said = 0, false
	t.mu.Unlock()
	if said {
		t.log.Info("over: "+t.message, "failures", failures, "after", time.Since(since))
	}
}
