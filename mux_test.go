package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
)

// runner records the transitions of a job and fails as it is told.
type runner struct {
	settled []pawl.Outcome
	err     error
}

func (r *runner) Settle(_ context.Context, outcome pawl.Outcome, _ error) error {
	if r.err == nil {
		r.settled = append(r.settled, outcome)
	}
	return r.err
}
func (r *runner) Progress(context.Context, int, string) error { return r.err }
func (r *runner) Extend(_ context.Context, d time.Duration) (time.Time, error) {
	return noon.Add(d), r.err
}

// run calls a handler in a goroutine of its own, as a host does.
func run(t *testing.T, mux *pawl.Mux, info pawl.JobInfo) error {
	t.Helper()
	ctx, job, _, end := pawl.NewJobContext(t.Context(), info, &runner{}, nil, noon)
	defer end()
	results := make(chan error, 2)
	go mux.Run(ctx, job, func(err error) { results <- err })
	err := <-results
	select {
	case again := <-results:
		t.Fatalf("done was called twice, the second time with %v", again)
	default:
	}
	return err
}

func TestRunTurnsEveryEndIntoAnError(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		handle func(context.Context, mailArgs) error
		check  func(error) bool
	}{
		{"nil", func(context.Context, mailArgs) error { return nil }, func(err error) bool { return err == nil }},
		{"error", func(context.Context, mailArgs) error { return errBoom }, func(err error) bool { return errors.Is(err, errBoom) }},
		{"panic", func(context.Context, mailArgs) error { panic("bad") }, isPanic("bad")},
		{"panic with an error", func(context.Context, mailArgs) error { panic(errBoom) }, func(err error) bool { return isPanic("boom")(err) && errors.Is(err, errBoom) }},
		{"panic with nil", func(context.Context, mailArgs) error { panic(nil) }, isPanic("nil")},
		{"nil map", func(context.Context, mailArgs) error { return write(nil) }, isPanic("nil map")},
		{"Goexit", func(context.Context, mailArgs) error { runtime.Goexit(); return nil }, func(err error) bool { return errors.Is(err, pawl.ErrGoexit) }},
	} {
		mux := pawl.NewMux()
		pawl.Handle(mux, pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{}), row.handle)
		if err := run(t, mux, pawl.JobInfo{Kind: "mail.v1", Args: json.RawMessage(`{}`)}); !row.check(err) {
			t.Errorf("%s: got %v", row.name, err)
		}
	}
}

func write(m map[string]int) error {
	m["x"] = 1
	return nil
}

func isPanic(text string) func(error) bool {
	return func(err error) bool {
		var panicked *pawl.PanicError
		return errors.As(err, &panicked) && strings.Contains(err.Error(), text) && strings.Contains(panicked.Stack, "mux_test.go")
	}
}

func TestRunRefusesWhatItCannotHandOver(t *testing.T) {
	t.Parallel()
	mux := pawl.NewMux()
	pawl.Handle(mux, pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{}), func(context.Context, mailArgs) error { return nil })
	for _, row := range []struct {
		kind, args string
		want       pawl.Reason
	}{
		{"other.v1", `{}`, pawl.ReasonUnknownKind},
		{"mail.v1", `{"user":"x"}`, pawl.ReasonWrongArgs},
		{"mail.v1", `[]`, pawl.ReasonWrongArgs},
		{"mail.v1", ``, pawl.ReasonWrongArgs},
		{"mail.v1", `{} {}`, pawl.ReasonWrongArgs},
		{"mail.v1", `{"user":1e400}`, pawl.ReasonWrongArgs},
	} {
		err := run(t, mux, pawl.JobInfo{Kind: row.kind, Args: json.RawMessage(row.args)})
		var poison *pawl.PoisonError
		if !errors.As(err, &poison) || poison.Reason != row.want {
			t.Errorf("%s %s: got %v, want %s", row.kind, row.args, err, row.want)
		}
	}
}

type (
	mailV2 struct{ User, Copies int64 }
	mailV3 struct{ Users []int64 }
)

func TestNewKindRunsWhatTheOldOnesLeft(t *testing.T) {
	t.Parallel()
	v1 := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	v2 := pawl.NewKind("mail.v2", pawl.Policy{}, pawl.Replaces(v1, func(old mailArgs) (mailV2, error) {
		if old.User < 0 {
			return mailV2{}, errBoom
		}
		return mailV2{old.User, 1}, nil
	}))
	v3 := pawl.NewKind("mail.v3", pawl.Policy{}, pawl.Replaces(v2, func(old mailV2) (mailV3, error) {
		return mailV3{make([]int64, old.Copies)}, nil
	}))
	var got []mailV3
	mux := pawl.NewMux()
	pawl.Handle(mux, v3, func(_ context.Context, args mailV3) error { got = append(got, args); return nil })
	if diff := cmp.Diff([]string{"mail.v1", "mail.v2", "mail.v3"}, mux.Kinds()); diff != "" || mux.Err() != nil {
		t.Fatalf("registered %v, %v", mux.Kinds(), mux.Err())
	}
	for kind, args := range map[string]string{"mail.v1": `{"user":5}`, "mail.v2": `{"User":5,"Copies":1}`, "mail.v3": `{"Users":[0]}`} {
		if err := run(t, mux, pawl.JobInfo{Kind: kind, Args: json.RawMessage(args)}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if diff := cmp.Diff([]mailV3{{[]int64{0}}, {[]int64{0}}, {[]int64{0}}}, got); diff != "" {
		t.Error(diff)
	}
	var poison *pawl.PoisonError
	if err := run(t, mux, pawl.JobInfo{Kind: "mail.v1", Args: json.RawMessage(`{"user":-1}`)}); !errors.As(err, &poison) || !errors.Is(err, errBoom) {
		t.Errorf("args that cannot be raised: got %v", err)
	}
}

func TestMuxReportsMistakes(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, mailArgs) error { return nil }
	v1 := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	for name, register := range map[string]func(*pawl.Mux){
		"twice":      func(m *pawl.Mux) { pawl.Handle(m, v1, nothing); pawl.Handle(m, v1, nothing) },
		"no handler": func(m *pawl.Mux) { pawl.Handle(m, v1, nil) },
		"zero kind":  func(m *pawl.Mux) { pawl.Handle(m, pawl.Kind[mailArgs]{}, nothing) },
		"bad policy": func(m *pawl.Mux) { pawl.Handle(m, pawl.NewKind[mailArgs]("a", pawl.Policy{MaxTries: -1}), nothing) },
		"bad old kind": func(m *pawl.Mux) {
			old := pawl.NewKind[mailArgs]("", pawl.Policy{})
			pawl.Handle(m, pawl.NewKind("b", pawl.Policy{}, pawl.Replaces(old, func(a mailArgs) (mailArgs, error) { return a, nil })), nothing)
		},
	} {
		mux := pawl.NewMux()
		register(mux)
		if !errors.Is(mux.Err(), pawl.ErrInvalid) {
			t.Errorf("%s: got %v", name, mux.Err())
		}
	}
}

func TestMiddlewareWrapsInOrder(t *testing.T) {
	t.Parallel()
	var trail []string
	trace := func(name string) pawl.Middleware {
		return func(next pawl.Handler) pawl.Handler {
			return func(ctx context.Context, job *pawl.Job) error {
				trail = append(trail, name)
				return next(ctx, job)
			}
		}
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{}), func(context.Context, mailArgs) error { return nil }, trace("kind"))
	mux.Use(trace("outer"), trace("inner"))
	if err := run(t, mux, pawl.JobInfo{Kind: "mail.v1", Args: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"outer", "inner", "kind"}, trail); diff != "" {
		t.Error(diff)
	}
}

func TestMiddlewareSeesPanics(t *testing.T) {
	t.Parallel()
	var seen error
	mux := pawl.NewMux()
	pawl.Handle(mux, pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{}), func(context.Context, mailArgs) error { panic("bad") },
		func(next pawl.Handler) pawl.Handler {
			return func(ctx context.Context, job *pawl.Job) error {
				seen = next(ctx, job)
				return seen
			}
		})
	if err := run(t, mux, pawl.JobInfo{Kind: "mail.v1", Args: json.RawMessage(`{}`)}); !isPanic("bad")(err) || !isPanic("bad")(seen) {
		t.Errorf("got %v, the middleware saw %v", err, seen)
	}
	mux.Use(func(pawl.Handler) pawl.Handler { return func(context.Context, *pawl.Job) error { panic("middleware") } })
	if err := run(t, mux, pawl.JobInfo{Kind: "mail.v1", Args: json.RawMessage(`{}`)}); !isPanic("middleware")(err) {
		t.Errorf("a panic of the middleware: got %v", err)
	}
}

// The ctx of a job tells a timeout from other ends, to itself and to what is derived from it.
func TestJobContext(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ cause, want error }{
		{pawl.ErrTimeout, context.DeadlineExceeded},
		{pawl.ErrShutdown, context.Canceled},
		{pawl.ErrCancelled, context.Canceled},
		{pawl.ErrLeaseLost, context.Canceled},
	} {
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, job, _, end := pawl.NewJobContext(parent, pawl.JobInfo{}, &runner{}, nil, noon)
		derived, stop := context.WithCancel(ctx)
		if ctx.Err() != nil || derived.Err() != nil {
			t.Errorf("ended before its time: %v, %v", ctx.Err(), derived.Err())
		}
		if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(noon) {
			t.Errorf("deadline: got %v", deadline)
		}
		if err := job.Extend(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		if deadline, _ := ctx.Deadline(); !deadline.Equal(noon.Add(time.Hour)) {
			t.Errorf("deadline after Extend: got %v", deadline)
		}
		cancel(row.cause)
		<-derived.Done()
		for name, c := range map[string]context.Context{"ctx": ctx, "derived": derived} {
			if !errors.Is(c.Err(), row.want) || context.Cause(c) != row.cause {
				t.Errorf("%s after %v: got %v, cause %v", name, row.cause, c.Err(), context.Cause(c))
			}
		}
		stop()
		end()
	}
	ctx, _, _, end := pawl.NewJobContext(t.Context(), pawl.JobInfo{}, &runner{}, nil, noon)
	end()
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after its attempt: got %v", ctx.Err())
	}
}

func TestJobMakesOneTransition(t *testing.T) {
	t.Parallel()
	r := &runner{err: pawl.ErrLeaseLost}
	ctx, job, _, end := pawl.NewJobContext(t.Context(), pawl.JobInfo{Attempt: 2, MaxTries: 2}, r, nil, noon)
	if pawl.FromContext(ctx) != job || !job.LastAttempt() || job.Logger() == nil || !job.Deadline().Equal(noon) {
		t.Error("the ctx does not carry the attempt")
	}
	if err := job.Delete(ctx); !errors.Is(err, pawl.ErrLeaseLost) || job.Finished() {
		t.Errorf("a failed transition finished the attempt: %v", err)
	}
	r.err = nil
	for name, refused := range map[string]error{
		"negative delay": job.Release(ctx, -1), "huge delay": job.Release(ctx, 1<<62), "Fail(nil)": job.Fail(ctx, nil),
		"percent": job.Progress(ctx, 101, ""), "note": job.Progress(ctx, 1, "\x00"), "extension": job.Extend(ctx, 0),
	} {
		if !errors.Is(refused, pawl.ErrInvalid) {
			t.Errorf("%s: got %v", name, refused)
		}
	}
	if err := errors.Join(job.Progress(ctx, 50, "half"), job.Extend(ctx, time.Hour)); err != nil || !job.Deadline().Equal(noon.Add(time.Hour)) {
		t.Errorf("got %v, deadline %v", err, job.Deadline())
	}
	if err := job.Fail(ctx, errBoom); err != nil || !job.Finished() || !errors.Is(job.Failure(), errBoom) {
		t.Errorf("Fail: %v, %v", err, job.Failure())
	}
	if err := job.Release(ctx, 0); !errors.Is(err, pawl.ErrFinished) {
		t.Errorf("second transition: got %v", err)
	}
	if diff := cmp.Diff([]pawl.Outcome{pawl.Dead{Class: pawl.DeathPermanent, Reason: pawl.ReasonExplicit}}, r.settled); diff != "" {
		t.Error(diff)
	}
	if !end() {
		t.Error("end does not report the transition")
	}
}

func TestJobIsOfNoUseAfterItsAttempt(t *testing.T) {
	t.Parallel()
	r := &runner{}
	ctx, job, _, end := pawl.NewJobContext(t.Context(), pawl.JobInfo{}, r, nil, noon)
	if end() {
		t.Error("end reports a transition that nobody made")
	}
	for name, err := range map[string]error{
		"Delete": job.Delete(ctx), "Release": job.Release(ctx, 0), "Fail": job.Fail(ctx, errBoom),
		"Progress": job.Progress(ctx, 1, ""), "Extend": job.Extend(ctx, 1),
	} {
		if !errors.Is(err, pawl.ErrFinished) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var none *pawl.Job = pawl.FromContext(t.Context())
	if err := none.Delete(ctx); !errors.Is(err, pawl.ErrNoJob) || none.Logger() == nil {
		t.Errorf("outside an attempt: got %v", err)
	}
	if len(r.settled) > 0 {
		t.Errorf("settled %v", r.settled)
	}
}
