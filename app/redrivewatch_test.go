package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// said is what a command printed, and its exit status.
func said(t *testing.T, store string, args ...string) string {
	t.Helper()
	var out, talk strings.Builder
	p := &program{in: strings.NewReader(""), out: &out, talk: &talk, tty: func(any) bool { return false }, name: "pawl"}
	code := p.run(t.Context(), append([]string{"--store", store}, args...))
	return out.String() + talk.String() + "status " + strconv.Itoa(code)
}

// A redrive that is watched tells of every attempt, and ends with what became of the job.
func TestRedriveIsWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	letters := map[string]string{}
	mux := pawl.NewMux()
	for name, run := range map[string]func(job *pawl.Job) error{
		"good.v1": func(job *pawl.Job) error {
			if job.Attempt < 3 {
				return errors.New("still away")
			}
			return nil
		},
		"bad.v1":  func(*pawl.Job) error { return pawl.Permanent(errors.New("no such user")) },
		"gone.v1": nil, // no host has it
	} {
		kind := pawl.NewKind[int](name, pawl.Policy{Backoff: []time.Duration{time.Millisecond}})
		if run != nil {
			pawl.Handle(mux, kind, func(ctx context.Context, _ int) error { return run(pawl.FromContext(ctx)) })
		}
		letters[name] = recordDeath(t, s, kind)
	}
	h, err := host.New(s, mux, host.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"good.v1": {nil, []string{"attempt 1 returned", "still away", "attempt 2 returned", "It has succeeded: letter " + letters["good.v1"] + " is resolved.", "status 0"}},
		"bad.v1":  {[]string{"--json"}, []string{`"outcome":"died again","attempts":1,"next_letter_id":"`, "It has died again, after 1 attempt.", "pawl --store", "status 6"}},
		"gone.v1": {[]string{"--wait", "1s"}, []string{"no live host has registered kind gone.v1", "has not ended within 1s", "status 1"}},
	} {
		got := said(t, "sqlite:"+path, append([]string{"dead", "redrive", letters[name], "--watch"}, c.args...)...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, got)
			}
		}
	}
	if got := said(t, "sqlite:"+path, "dead", "redrive", "--kind", "bad.v1", "--watch", "--yes", "--reason", "x"); !strings.HasSuffix(got, "status 2") {
		t.Errorf("of many: %s", got)
	}
}

// recordDeath records the death of a job of a kind, and returns the letter's id.
func recordDeath(t *testing.T, s *sqlite.Store, kind pawl.Kind[int]) string {
	t.Helper()
	job, err := kind.New(t.Context(), s.Connection(), 1)
	if err != nil {
		t.Fatal(err)
	}
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "a"}, pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 1, Envelope: job.Envelope,
	}, pawl.Dead{Class: pawl.DeathPermanent, Reason: pawl.ReasonPermanent}, job.EnqueuedAt, errors.New("no such user"))
	recorded, err := s.RecordDeaths(t.Context(), []pawl.DeadLetter{letter})
	if err != nil {
		t.Fatal(err)
	}
	return recorded[0].ID.String()
}
