package inline_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type args struct {
	N int `json:"n"`
}

var work = pawl.NewKind[args]("work.v1", pawl.Policy{MaxTries: 6, Timeout: time.Minute})

// letters records deaths in memory.
type letters struct {
	pawl.DeadLetters
	mu     sync.Mutex
	kept   []pawl.DeadLetter
	broken error
}

func (l *letters) RecordDeaths(ctx context.Context, deaths []pawl.DeadLetter) ([]pawl.Recorded, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(ctx.Err(), l.broken); err != nil {
		return nil, err
	}
	l.kept = append(l.kept, deaths...)
	out := make([]pawl.Recorded, len(deaths))
	for i, death := range deaths {
		out[i] = pawl.Recorded{ID: death.ID, New: true}
	}
	return out, nil
}

func (l *letters) all() []pawl.DeadLetter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]pawl.DeadLetter{}, l.kept...)
}

func (l *letters) only(t *testing.T) pawl.DeadLetter {
	t.Helper()
	kept := l.all()
	if len(kept) != 1 {
		t.Fatalf("%d letters, want 1", len(kept))
	}
	return kept[0]
}

// lines keeps log lines, each with how many letters there were when it was written.
type lines struct {
	letters *letters
	mu      sync.Mutex
	kept    []line
}

type line struct {
	level   slog.Level
	text    string
	attrs   map[string]string
	letters int
}

func (h *lines) Enabled(context.Context, slog.Level) bool { return true }
func (h *lines) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *lines) WithGroup(string) slog.Handler            { return h }
func (h *lines) Handle(_ context.Context, r slog.Record) error {
	l := line{level: r.Level, text: r.Message, attrs: map[string]string{}, letters: len(h.letters.all())}
	r.Attrs(func(a slog.Attr) bool { l.attrs[a.Key] = a.Value.String(); return true })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, l)
	return nil
}

func (h *lines) at(level slog.Level) (out []line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.kept {
		if l.level == level {
			out = append(out, l)
		}
	}
	return out
}

type fixture struct {
	jobs    *inline.Enqueuer
	letters *letters
	log     *lines
}

func setup(t *testing.T, handle func(context.Context, args) error, change ...func(*inline.Config)) fixture {
	t.Helper()
	mux := pawl.NewMux()
	pawl.Handle(mux, work, handle)
	f := fixture{letters: &letters{}}
	f.log = &lines{letters: f.letters}
	config := inline.Config{DeadLetters: f.letters, Logger: slog.New(f.log), Name: "machine", Version: "1.2.3"}
	for _, c := range change {
		c(&config)
	}
	var err error
	if f.jobs, err = inline.New(mux, config); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) run(ctx context.Context, options ...pawl.Option) error {
	_, err := work.Enqueue(ctx, f.jobs, args{1}, options...)
	return err
}
