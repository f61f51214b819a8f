package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/host"
)

// Over a whole run of mixed outcomes every death has exactly one Error line and every retried attempt exactly one Warn
// line, each with the keys that it is found by; nothing else is an Error, alerts that fail included.
func TestLinesOfAMixedRun(t *testing.T) {
	virtual(t, func(w *world) {
		three := []pawl.Option{pawl.MaxTries(3), pawl.Backoff(time.Second)}
		outcomes := []struct {
			run     func(ctx context.Context, job *pawl.Job) error
			options []pawl.Option
			retries int
			reason  pawl.Reason // "": it succeeds
		}{
			{run: func(context.Context, *pawl.Job) error { return nil }},
			{run: func(_ context.Context, j *pawl.Job) error { return failUntil(j, 3) }, options: three, retries: 2},
			{run: func(_ context.Context, j *pawl.Job) error { return failUntil(j, 9) }, options: three, retries: 2, reason: pawl.ReasonBudget},
			{run: func(context.Context, *pawl.Job) error { return pawl.Permanent(errNoLuck) }, reason: pawl.ReasonPermanent},
			{run: func(context.Context, *pawl.Job) error { panic(errNoLuck) }, options: three, retries: 2, reason: pawl.ReasonBudget},
			{run: func(context.Context, *pawl.Job) error { runtime.Goexit(); return nil }, options: three, retries: 2, reason: pawl.ReasonBudget},
			{run: func(ctx context.Context, _ *pawl.Job) error { <-ctx.Done(); return ctx.Err() }, options: append(three, pawl.Timeout(time.Second)), retries: 2, reason: pawl.ReasonTimeout},
			{run: func(context.Context, *pawl.Job) error { time.Sleep(time.Minute); return errNoLuck }, options: append(three, pawl.Timeout(time.Second)), retries: 2, reason: pawl.ReasonTimeout},
			{run: func(ctx context.Context, j *pawl.Job) error { return j.Fail(ctx, errNoLuck) }, reason: pawl.ReasonExplicit},
			{run: func(ctx context.Context, j *pawl.Job) error { return errors.Join(j.Fail(ctx, errNoLuck), errNoLuck) }, reason: pawl.ReasonExplicit},
			{run: func(ctx context.Context, j *pawl.Job) error { return errors.Join(j.Delete(ctx), errNoLuck) }},
			{run: func(ctx context.Context, j *pawl.Job) error { return j.Release(ctx, time.Second) }, options: three, reason: pawl.ReasonBudget},
			{run: func(_ context.Context, j *pawl.Job) error { return pawl.RetryAfter(failUntil(j, 2), time.Minute) }, options: three, retries: 1},
			{run: func(context.Context, *pawl.Job) error { return errNoLuck }, options: append(three, pawl.RetryUntil(time.Now().Add(2*time.Minute)), pawl.Backoff(time.Minute)), retries: 1, reason: pawl.ReasonDeadline},
		}
		w.handle(func(ctx context.Context, args workArgs) error {
			return outcomes[args.N%len(outcomes)].run(ctx, pawl.FromContext(ctx))
		})
		logger := w.config.Logger
		w.config.Sinks = []pawl.Sink{alert.Log(logger), &sink{name: "bad", deliver: func(context.Context, pawl.Alert) error { return errNoLuck }}}
		const rounds = 3
		ids := make([]pawl.ID, rounds*len(outcomes))
		retries, deaths := 0, 0
		for i := range ids {
			o := outcomes[i%len(outcomes)]
			ids[i] = w.put(i, o.options...)
			retries += o.retries
			if o.reason != "" {
				deaths++
			}
		}
		damaged := w.put(0)
		w.with(damaged, func(j *fakeJob) { j.Envelope = []byte(strings.Replace(string(j.Envelope), "test", "tset", 1)) })
		h := w.start()
		w.pass(20 * time.Minute)
		checkLines(w, h.Stats(), retries, deaths+1)
		died := w.deathLines()
		for i, id := range append(ids, damaged) {
			reason := pawl.Reason("undecodable")
			if id != damaged {
				reason = outcomes[i%len(outcomes)].reason
			}
			if got, want := died[id.String()], map[bool]int{true: 1}[reason != ""]; got != want {
				t.Errorf("job %d (%s) has %d Error lines, want %d", i, reason, got, want)
			}
			if reason != "" && id != damaged && w.letterOf(id).Reason != reason {
				t.Errorf("job %d died by %q, want %q", i, w.letterOf(id).Reason, reason)
			}
		}
		h.clean()
	})
}

func failUntil(job *pawl.Job, attempt int) error {
	if job.Attempt < attempt {
		return errNoLuck
	}
	return nil
}

func checkLines(w *world, stats host.Stats, retries, deaths int) {
	w.Helper()
	errorLines, warnings := w.lines.at(slog.LevelError, ""), w.lines.at(slog.LevelWarn, "job attempt failed")
	w.equal("retries, by the stats", stats.Retried, retries)
	w.equal("deaths, by the stats", stats.Died(), deaths)
	w.equal("Warn lines of retried attempts", len(warnings), retries)
	w.equal("Error lines", len(errorLines), deaths)
	seen := map[string]bool{}
	for _, entry := range warnings {
		key := fmt.Sprint(entry["job"], entry["attempt"])
		if entry["kind"] != work.Name() || seen[key] {
			w.Errorf("a Warn line that is wrong or doubled: %v", entry)
		}
		seen[key] = true
	}
	for _, entry := range errorLines {
		if entry["msg"] != "job dead-lettered" || entry["letter"] == nil || entry["class"] == nil || entry["reason"] == nil || entry["correlation_id"] == nil {
			w.Errorf("an Error line that lacks something: %v", entry)
		}
	}
}
