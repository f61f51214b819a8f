package inline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
)

func TestRunsAtOnce(t *testing.T) {
	t.Parallel()
	id := pawl.NewID()
	var got []pawl.JobInfo
	f := setup(t, func(ctx context.Context, a args) error {
		job := pawl.FromContext(ctx)
		if !job.LastAttempt() || time.Until(job.Deadline()) <= 50*time.Second {
			t.Errorf("last attempt %v, deadline %v", job.LastAttempt(), job.Deadline())
		}
		got = append(got, job.JobInfo)
		return nil
	}, func(c *inline.Config) { c.Connection = "now" })
	enqueued, err := work.Enqueue(t.Context(), f.jobs, args{7}, pawl.WithID(id), pawl.CorrelationID("request-1"), pawl.Tags("a"))
	if err != nil || enqueued.ID != id || enqueued.Status != pawl.Accepted || len(got) != 1 {
		t.Fatalf("%+v, %v, %d runs", enqueued, err, len(got))
	}
	want := pawl.JobInfo{
		ID: id, Kind: "work.v1", Queue: "2-default", Connection: "now", Attempt: 1, MaxTries: 1, Args: []byte(`{"n":7}`),
		CorrelationID: "request-1", Tags: []string{"a"}, EnqueuedAt: got[0].EnqueuedAt,
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if age := time.Since(got[0].EnqueuedAt); age < 0 || age > time.Minute {
		t.Errorf("enqueued %s ago", age)
	}
	if len(f.letters.all()) != 0 || len(f.log.kept) != 0 {
		t.Errorf("%d letters, log %v", len(f.letters.all()), f.log.kept)
	}
}

type downError struct{ code int }

func (e downError) Error() string { return fmt.Sprintf("down with %d", e.code) }

func TestDeaths(t *testing.T) {
	t.Parallel()
	down := downError{503}
	for name, test := range map[string]struct {
		handle    func(context.Context) error
		class     pawl.DeathClass
		reason    pawl.Reason
		exception string
		is        error
	}{
		"error":     {func(context.Context) error { return fmt.Errorf("call: %w", down) }, pawl.DeathExhausted, pawl.ReasonSync, "inline_test.downError", down},
		"transient": {func(context.Context) error { return pawl.RetryAfter(down, time.Hour) }, pawl.DeathExhausted, pawl.ReasonSync, "inline_test.downError", down},
		"permanent": {func(context.Context) error { return pawl.Permanent(down) }, pawl.DeathPermanent, pawl.ReasonPermanent, "inline_test.downError", down},
		"classified": {
			func(context.Context) error { return downError{404} }, pawl.DeathPermanent, pawl.ReasonPermanent, "inline_test.downError", downError{404},
		},
		"poison": {
			func(context.Context) error { return &pawl.PoisonError{Reason: pawl.ReasonSignature, Err: down} },
			pawl.DeathPoison, pawl.ReasonSignature, "*pawl.PoisonError", down,
		},
		"panic":   {func(context.Context) error { panic(down) }, pawl.DeathExhausted, pawl.ReasonSync, "*pawl.PanicError", down},
		"nil map": {func(context.Context) error { var s struct{ m map[int]int }; s.m[1]++; return nil }, pawl.DeathExhausted, pawl.ReasonSync, "*pawl.PanicError", nil},
		"goexit":  {func(context.Context) error { runtime.Goexit(); return nil }, pawl.DeathExhausted, pawl.ReasonSync, "pawl.sentinel", pawl.ErrGoexit},
		"fail": {
			func(ctx context.Context) error { return pawl.FromContext(ctx).Fail(ctx, down) },
			pawl.DeathPermanent, pawl.ReasonExplicit, "inline_test.downError", down,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			f := setup(t, func(ctx context.Context, _ args) error { runs++; return test.handle(ctx) }, func(c *inline.Config) {
				c.Classifiers = []pawl.Classifier{func(err error) pawl.Class {
					if errors.Is(err, downError{404}) {
						return pawl.ClassPermanent
					}
					return pawl.ClassUnknown
				}}
			})
			id := pawl.NewID()
			err := f.run(t.Context(), pawl.WithID(id), pawl.CorrelationID("request-1"))
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), id.String()) {
				t.Errorf("got %v", err)
			}
			letter := f.letters.only(t)
			if letter.Class != test.class || letter.Reason != test.reason || letter.ExceptionType != test.exception {
				t.Errorf("%s, %s, %s: %s", letter.Class, letter.Reason, letter.ExceptionType, letter.Message)
			}
			if letter.JobID != id || letter.Attempts != 1 || len(letter.History) != 1 || letter.StartedAt.IsZero() ||
				letter.Connection != "sync" || letter.Host != "machine" || letter.Server != "inline" ||
				letter.Version != "1.2.3" || letter.CorrelationID != "request-1" || len(letter.Envelope) == 0 {
				t.Errorf("letter %+v", letter)
			}
			if runs != 1 {
				t.Errorf("%d runs", runs)
			}
			f.wantDeathLine(t, letter)
		})
	}
}

// wantDeathLine checks that there is one Error line, written after the record.
func (f fixture) wantDeathLine(t *testing.T, letter pawl.DeadLetter) {
	t.Helper()
	found := f.log.at(slog.LevelError)
	if len(found) != 1 || found[0].text != "job dead-lettered" || found[0].letters != 1 {
		t.Fatalf("error lines %+v", found)
	}
	want := map[string]string{
		"job": letter.JobID.String(), "kind": letter.Kind, "queue": letter.Queue, "attempt": "1", "class": letter.Class.String(),
		"reason": string(letter.Reason), "letter": letter.ID.String(), "correlation_id": letter.CorrelationID,
	}
	if diff := cmp.Diff(want, found[0].attrs); diff != "" {
		t.Error(diff)
	}
}

func TestDeathsWithoutARun(t *testing.T) {
	t.Parallel()
	ran := false
	f := setup(t, func(context.Context, args) error { ran = true; return nil })
	job, err := work.New(t.Context(), f.jobs.Connection(), args{1}, pawl.RetryFor(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	late, broken, unknown, wrong := job, job, job, job
	late.EnqueuedAt = time.Now().Add(-2 * time.Hour)
	broken.Envelope = append([]byte{}, job.Envelope...)
	broken.Envelope[20] ^= 1
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	envelope.Kind = "nobody.v1"
	unknown = pawl.NewJobFrom(envelope)
	envelope.Kind, envelope.Args = "work.v1", []byte(`[1]`)
	wrong = pawl.NewJobFrom(envelope)
	for _, test := range []struct {
		job    pawl.NewJob
		class  pawl.DeathClass
		reason pawl.Reason
	}{
		{late, pawl.DeathExhausted, pawl.ReasonDeadline},
		{broken, pawl.DeathPoison, pawl.ReasonUndecodable},
		{unknown, pawl.DeathPoison, pawl.ReasonUnknownKind},
		{wrong, pawl.DeathPoison, pawl.ReasonWrongArgs},
	} {
		f.letters.kept = nil
		_, err := f.jobs.Enqueue(t.Context(), []pawl.NewJob{test.job})
		letter := f.letters.only(t)
		if err == nil || letter.Class != test.class || letter.Reason != test.reason || string(letter.Envelope) != string(test.job.Envelope) {
			t.Errorf("%s: %v, %s, %s", test.reason, err, letter.Class, letter.Reason)
		}
	}
	if ran {
		t.Error("a handler ran")
	}
}

func TestWhatNeedsAWaitIsRefused(t *testing.T) {
	t.Parallel()
	runs := 0
	f := setup(t, func(context.Context, args) error { runs++; return nil })
	for name, options := range map[string][]pawl.Option{
		"delay":         {pawl.Delay(time.Nanosecond)},
		"run at":        {pawl.RunAt(time.Now().Add(-time.Hour))},
		"unique period": {pawl.UniqueFor("k", time.Hour)},
	} {
		if err := f.run(t.Context(), options...); !errors.Is(err, pawl.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fine, err1 := work.New(t.Context(), f.jobs.Connection(), args{1})
	delayed, err2 := work.New(t.Context(), f.jobs.Connection(), args{2}, pawl.Delay(time.Hour))
	off, err3 := pawl.NewKind[args]("off.v1", pawl.Policy{StartsOff: true}).New(t.Context(), f.jobs.Connection(), args{3})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, other := range []pawl.NewJob{delayed, off} {
		if _, err := f.jobs.Enqueue(t.Context(), []pawl.NewJob{fine, other}); !errors.Is(err, pawl.ErrUnsupported) || !strings.Contains(err.Error(), other.ID.String()) {
			t.Errorf("in a batch: %v", err)
		}
	}
	if runs != 0 || len(f.letters.all()) != 0 {
		t.Errorf("%d runs, %d letters", runs, len(f.letters.all()))
	}
	for _, option := range []pawl.Option{pawl.UniqueWhileWaiting("k"), pawl.UniqueWhileUnfinished("k"), pawl.Delay(0)} {
		if err := f.run(t.Context(), option); err != nil {
			t.Error(err)
		}
	}
	if runs != 3 {
		t.Errorf("%d runs", runs)
	}
}

func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, func(ctx context.Context, _ args) error {
		job := pawl.FromContext(ctx)
		if err := job.Release(ctx, time.Second); !errors.Is(err, pawl.ErrUnsupported) || job.Finished() {
			t.Errorf("release gives %v, finished %v", err, job.Finished())
		}
		return job.Delete(ctx)
	})
	if err := f.run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnIDThatDiesTwiceLeavesTwoLetters(t *testing.T) {
	t.Parallel()
	f := setup(t, func(context.Context, args) error { return downError{503} })
	id := pawl.NewID()
	for range 2 {
		if err := f.run(t.Context(), pawl.WithID(id)); err == nil {
			t.Fatal("no error")
		}
	}
	kept := f.letters.all()
	if len(kept) != 2 || kept[0].ID == kept[1].ID || kept[0].JobID != kept[1].JobID {
		t.Errorf("letters %v", kept)
	}
}

func TestRecordThatFails(t *testing.T) {
	t.Parallel()
	down, full := downError{503}, errors.New("disk full")
	f := setup(t, func(context.Context, args) error { return down })
	f.letters.broken = full
	if err := f.run(t.Context()); !errors.Is(err, down) || !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if found := f.log.at(slog.LevelError); len(found) != 0 {
		t.Errorf("a death that was not recorded is logged as one: %v", found)
	}
}

func TestFailThatCannotBeRecordedLeavesTheAttemptUnfinished(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	var f fixture
	f = setup(t, func(ctx context.Context, _ args) error {
		job := pawl.FromContext(ctx)
		f.letters.broken = full
		if err := job.Fail(ctx, downError{1}); !errors.Is(err, full) || job.Finished() {
			t.Errorf("fail gives %v, finished %v", err, job.Finished())
		}
		f.letters.broken = nil
		return job.Fail(ctx, downError{2})
	})
	if err := f.run(t.Context()); !errors.Is(err, downError{2}) {
		t.Errorf("got %v", err)
	}
	f.letters.only(t)
}

func TestWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	f := setup(t, func(context.Context, args) error { return downError{503} }, func(c *inline.Config) { c.DeadLetters = nil })
	if err := f.run(t.Context()); !errors.Is(err, downError{503}) {
		t.Errorf("got %v", err)
	}
	if found := f.log.at(slog.LevelError); len(found) != 0 {
		t.Errorf("error lines %v", found)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	var order []int
	f := setup(t, func(_ context.Context, a args) error {
		if order = append(order, a.N); a.N%2 == 1 {
			return downError{a.N}
		}
		return nil
	})
	results, err := work.EnqueueMany(t.Context(), f.jobs, []args{{0}, {1}, {2}, {3}, {4}})
	if !errors.Is(err, downError{1}) || !errors.Is(err, downError{3}) || results != nil {
		t.Errorf("%v, %v", results, err)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, order); diff != "" {
		t.Error(diff)
	}
	kept := f.letters.all()
	if len(kept) != 2 {
		t.Fatalf("%d letters", len(kept))
	}
	for _, letter := range kept {
		if !strings.Contains(err.Error(), letter.JobID.String()) {
			t.Errorf("job %s is not named in %v", letter.JobID, err)
		}
	}
}

func TestTransitionsCountOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, func(ctx context.Context, _ args) error {
		job := pawl.FromContext(ctx)
		if err := errors.Join(job.Progress(ctx, 50, "half"), job.Delete(ctx)); err != nil {
			t.Error(err)
		}
		if err := job.Fail(ctx, downError{1}); !errors.Is(err, pawl.ErrFinished) {
			t.Errorf("second transition gives %v", err)
		}
		panic("late")
	})
	if err := f.run(t.Context()); err != nil || len(f.letters.all()) != 0 {
		t.Errorf("%v, %d letters", err, len(f.letters.all()))
	}
	if warnings := f.log.at(slog.LevelWarn); len(warnings) != 1 || !strings.Contains(warnings[0].attrs["error"], "late") {
		t.Errorf("warnings %v", warnings)
	}
}

func TestRetryOfALetterIsLinked(t *testing.T) {
	t.Parallel()
	f := setup(t, func(context.Context, args) error { return downError{503} })
	job, err := work.New(t.Context(), f.jobs.Connection(), args{1})
	if err != nil {
		t.Fatal(err)
	}
	job.Letter, job.EnqueuedAt = pawl.NewID(), time.Now().Add(-time.Hour).UTC()
	if _, err := f.jobs.Enqueue(t.Context(), []pawl.NewJob{job}); err == nil {
		t.Error("no error")
	}
	if letter := f.letters.only(t); letter.Previous != job.Letter || !letter.EnqueuedAt.Equal(job.EnqueuedAt) {
		t.Errorf("previous %s, enqueued %s", letter.Previous, letter.EnqueuedAt)
	}
}

func TestHandlersOwnJobsFollowItsCorrelation(t *testing.T) {
	t.Parallel()
	var f fixture
	var seen []string
	f = setup(t, func(ctx context.Context, a args) error {
		seen = append(seen, pawl.FromContext(ctx).CorrelationID)
		if a.N == 1 {
			return f.nested(ctx)
		}
		return nil
	})
	ctx := pawl.ContextWithCorrelationID(t.Context(), "request")
	if err := f.run(ctx, pawl.CorrelationID("own")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"own", "own"}, seen); diff != "" {
		t.Error(diff)
	}
}

func (f fixture) nested(ctx context.Context) error {
	_, err := work.Enqueue(ctx, f.jobs, args{2})
	return err
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	twice := pawl.NewMux()
	for range 2 {
		pawl.Handle(twice, work, func(context.Context, args) error { return nil })
	}
	for name, err := range map[string]error{
		"no mux":     second(inline.New(nil, inline.Config{})),
		"bad mux":    second(inline.New(twice, inline.Config{})),
		"connection": second(inline.New(pawl.NewMux(), inline.Config{Connection: "a\n"})),
	} {
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	jobs, err := inline.New(pawl.NewMux(), inline.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil || jobs.Connection().Name != "sync" {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
