package host

import (
	"context"
	"log/slog"
	"sync"
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
