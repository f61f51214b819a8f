package ops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

func TestRedriveMakesAFreshJobFromTheSnapshot(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	letter := s.die(t, "default", pawl.Policy{MaxTries: 3, Queue: "1-critical", RetryFor: time.Minute, Backoff: []time.Duration{time.Second}},
		[]pawl.Option{pawl.CorrelationID("request-1"), pawl.Tags("a", "b")}, nil)
	job, err := newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, Note: "look again"})
	if err != nil {
		t.Fatal(err)
	}
	stored, envelope := s.only(t)
	want := decode(t, letter.Envelope)
	want.ID, want.Origin = job, pawl.Origin{Source: pawl.OriginRedrive, Ref: letter.ID.String()}
	if diff := cmp.Diff(want, envelope); diff != "" || job == letter.JobID {
		t.Errorf("the new job differs in more than its id and origin: %s", diff)
	}
	if stored.Letter != letter.ID || !stored.EnqueuedAt.IsZero() || stored.Delay != 0 || !stored.RunAt.IsZero() || stored.Queue != "1-critical" {
		t.Errorf("stored as %+v", stored)
	}
	after := s.status(t, letter.ID)
	if after.Status != pawl.StatusRedriven || after.NewJobID != job || after.RedrivenBy != "ann" || after.Outcome != pawl.RedrivePending ||
		after.Note != "look again" || !bytes.Equal(after.Envelope, letter.Envelope) {
		t.Errorf("letter %+v", after)
	}
	if s.audit[0].By != ann {
		t.Errorf("audit %+v", s.audit[0])
	}
	_, err = newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann})
	if !errors.Is(err, pawl.ErrAlreadyRedriven) || !strings.Contains(err.Error(), job.String()) {
		t.Errorf("a second redrive gives %v", err)
	}
}

func TestRedriveRefusals(t *testing.T) {
	t.Parallel()
	flipped := func(l *pawl.DeadLetter) { l.Envelope[20] ^= 1 }
	for name, test := range map[string]struct {
		policy pawl.Policy
		change func(*pawl.DeadLetter)
		o      ops.RedriveOptions
		want   error
	}{
		"never":           {pawl.Policy{Redrive: pawl.RedriveNever}, nil, ops.RedriveOptions{}, pawl.ErrRedriveRefused},
		"damaged":         {pawl.Policy{}, flipped, ops.RedriveOptions{}, pawl.ErrRedriveRefused},
		"no envelope":     {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Envelope = nil }, ops.RedriveOptions{}, pawl.ErrRedriveRefused},
		"unknown outcome": {pawl.Policy{MaxTries: 1}, func(l *pawl.DeadLetter) { l.Reason = pawl.ReasonLost }, ops.RedriveOptions{}, pawl.ErrConfirm},
		"interrupted":     {pawl.Policy{MaxTries: 1}, func(l *pawl.DeadLetter) { l.Reason = pawl.ReasonInterrupted }, ops.RedriveOptions{}, pawl.ErrConfirm},
		"connection":      {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Connection = "gone" }, ops.RedriveOptions{}, pawl.ErrRedriveRefused},
		"closed":          {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Status = pawl.StatusResolved }, ops.RedriveOptions{}, pawl.ErrConflict},
		"args":            {pawl.Policy{}, nil, ops.RedriveOptions{Args: json.RawMessage(`{"n":NaN}`)}, pawl.ErrInvalid},
		"no args":         {pawl.Policy{}, nil, ops.RedriveOptions{Args: json.RawMessage{}}, pawl.ErrInvalid},
		"deep args":       {pawl.Policy{}, nil, ops.RedriveOptions{Args: json.RawMessage(strings.Repeat("[", 65) + strings.Repeat("]", 65))}, pawl.ErrInvalid},
		"large args":      {pawl.Policy{}, nil, ops.RedriveOptions{Args: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}, pawl.ErrInvalid},
		"past deadline":   {pawl.Policy{}, nil, ops.RedriveOptions{RetryUntil: time.Now().Add(-time.Second)}, pawl.ErrInvalid},
		"two deadlines":   {pawl.Policy{}, nil, ops.RedriveOptions{RetryUntil: time.Now().Add(time.Hour), RetryFor: time.Hour}, pawl.ErrInvalid},
		"negative":        {pawl.Policy{}, nil, ops.RedriveOptions{RetryFor: -1}, pawl.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore("default")
			letter := s.die(t, "default", test.policy, nil, test.change)
			before := s.status(t, letter.ID)
			desk := newDesk(t, s)
			if err := desk.CheckRedrive(t.Context(), letter.ID, test.o); !errors.Is(err, test.want) {
				t.Errorf("the check gives %v, want %v", err, test.want)
			}
			test.o.By = ann
			if job, err := desk.Redrive(t.Context(), letter.ID, test.o); !errors.Is(err, test.want) || !job.IsZero() {
				t.Errorf("got job %s, %v, want %v", job, err, test.want)
			}
			if diff := cmp.Diff(before, s.status(t, letter.ID)); diff != "" || len(s.jobs) != 0 || len(s.audit) != 0 {
				t.Errorf("something was changed: %s, %d jobs", diff, len(s.jobs))
			}
		})
	}
	desk := newDesk(t, newStore("default"))
	if _, err := desk.Redrive(t.Context(), pawl.NewID(), ops.RedriveOptions{By: ann}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("a letter that is not there: %v", err)
	}
}

func TestConfirmedRedriveOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	letter := s.die(t, "default", pawl.Policy{MaxTries: 1}, nil, func(l *pawl.DeadLetter) { l.Reason = pawl.ReasonLost })
	if _, err := newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, Confirmed: true}); err != nil {
		t.Fatal(err)
	}
	if job, _ := s.only(t); !job.Once {
		t.Error("the new job may run twice")
	}
}

func TestEditedArgs(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	letter := s.die(t, "default", pawl.Policy{}, nil, nil)
	args := json.RawMessage(`{"n": 3889108265204450030, "n":2}`)
	if _, err := newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, Args: args}); err != nil {
		t.Fatal(err)
	}
	if _, envelope := s.only(t); string(envelope.Args) != string(args) {
		t.Errorf("args %s", envelope.Args)
	}
	if kept := decode(t, s.status(t, letter.ID).Envelope); string(kept.Args) != `{"n":1}` {
		t.Errorf("the letter has args %s", kept.Args)
	}
	why := s.audit[0].By.Why
	if !strings.HasPrefix(why, "mended; args edited: 33 bytes sha256:") || !strings.Contains(why, "were 7 bytes sha256:") || strings.Contains(why, "388910") {
		t.Errorf("the trail says %q", why)
	}
}

func TestDeadlinesOfARedrive(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	expired := func(t *testing.T, s *store) pawl.DeadLetter {
		letter := s.die(t, "default", pawl.Policy{}, []pawl.Option{pawl.RetryUntil(soon)}, nil)
		envelope := decode(t, letter.Envelope)
		envelope.RetryUntil = time.Now().Add(-time.Second)
		s.letters[letter.ID].Envelope = envelope.Encode()
		return letter
	}
	s := newStore("default")
	letter := expired(t, s)
	desk := newDesk(t, s)
	if _, err := desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann}); !errors.Is(err, pawl.ErrRedriveRefused) {
		t.Errorf("a deadline that has passed: %v", err)
	}
	if _, err := desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, RetryUntil: soon}); err != nil {
		t.Fatal(err)
	}
	if _, envelope := s.only(t); !envelope.RetryUntil.Equal(soon) {
		t.Errorf("retry until %s", envelope.RetryUntil)
	}
	s = newStore("default")
	letter = expired(t, s)
	if _, err := newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, RetryFor: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, envelope := s.only(t); !envelope.RetryUntil.IsZero() || envelope.Policy.RetryFor != time.Hour {
		t.Errorf("deadline %s, %s", envelope.RetryUntil, envelope.Policy.RetryFor)
	}
	s = newStore("default")
	letter = s.die(t, "default", pawl.Policy{RetryFor: time.Minute}, nil, nil)
	if _, err := newDesk(t, s).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann, RetryUntil: soon}); err != nil {
		t.Fatal(err)
	}
	if _, envelope := s.only(t); !envelope.RetryUntil.Equal(soon) || envelope.Policy.RetryFor != 0 {
		t.Errorf("deadline %s, %s", envelope.RetryUntil, envelope.Policy.RetryFor)
	}
}

func TestManyRefusesWhatIsDoneOneByOne(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	one := s.die(t, "default", pawl.Policy{Redrive: pawl.RedriveOneByOne}, nil, nil)
	any1, any2 := s.die(t, "default", pawl.Policy{}, nil, nil), s.die(t, "default", pawl.Policy{}, nil, nil)
	missing := pawl.NewID()
	desk := newDesk(t, s)
	results := desk.RedriveMany(t.Context(), []pawl.ID{any1.ID, one.ID, missing, any2.ID, any1.ID}, ops.RedriveOptions{By: ann})
	for i, want := range []error{nil, pawl.ErrRedriveRefused, pawl.ErrNotFound, nil, pawl.ErrAlreadyRedriven} {
		if !errors.Is(results[i].Err, want) || results[i].Job.IsZero() != (want != nil) {
			t.Errorf("%d: %+v, want %v", i, results[i], want)
		}
	}
	if err := results.Err(); !errors.Is(err, pawl.ErrNotFound) || !strings.Contains(err.Error(), one.ID.String()) {
		t.Errorf("joined: %v", err)
	}
	if err := desk.RedriveMany(t.Context(), []pawl.ID{one.ID}, ops.RedriveOptions{By: ann}).Err(); !errors.Is(err, pawl.ErrRedriveRefused) {
		t.Errorf("a list of one: %v", err)
	}
	if err := desk.RetryMany(t.Context(), []pawl.ID{one.ID}, ops.RetryOptions{By: ann}).Err(); !errors.Is(err, pawl.ErrRedriveRefused) {
		t.Errorf("retry in a list of one: %v", err)
	}
	if _, err := desk.Redrive(t.Context(), one.ID, ops.RedriveOptions{By: ann}); err != nil {
		t.Errorf("alone: %v", err)
	}
	if err := desk.RedriveMany(t.Context(), []pawl.ID{any1.ID}, ops.RedriveOptions{By: ann, Args: json.RawMessage(`{}`)}).Err(); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("args for many: %v", err)
	}
}

// Letters of large jobs are moved a few at a time, however many there are: a batch is held in memory, and is one
// transaction.
func TestBatchesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	calls := 0
	s.failMoves = func(after bool) error {
		if !after {
			calls++
		}
		return nil
	}
	ids := make([]pawl.ID, 20)
	for i := range ids {
		ids[i] = s.die(t, "default", pawl.Policy{}, nil, func(letter *pawl.DeadLetter) {
			envelope := decode(t, letter.Envelope)
			envelope.Args = []byte(`"` + strings.Repeat("x", 1000<<10) + `"`)
			letter.Envelope = envelope.Encode()
		}).ID
	}
	results := newDesk(t, s).RedriveMany(t.Context(), ids, ops.RedriveOptions{By: ann})
	if err := results.Err(); err != nil || len(s.jobs) != len(ids) {
		t.Errorf("%d jobs for %d letters, %v", len(s.jobs), len(ids), err)
	}
	for i, result := range results {
		if result.Letter != ids[i] || result.Job.IsZero() {
			t.Errorf("%d: %+v", i, result)
		}
	}
	if calls != 3 {
		t.Errorf("20 MB were moved in %d calls, want 3", calls)
	}
}

func TestRetryPutsTheJobBackAsItWas(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	letter := s.die(t, "default", pawl.Policy{MaxTries: 3, RetryFor: 2 * time.Hour}, nil, nil)
	job, err := newDesk(t, s).Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann, Note: "n"})
	if err != nil || job != letter.JobID {
		t.Fatalf("job %s, %v", job, err)
	}
	stored, _ := s.only(t)
	if stored.ID != letter.JobID || !bytes.Equal(stored.Envelope, letter.Envelope) || !stored.EnqueuedAt.Equal(letter.EnqueuedAt) ||
		stored.Letter != letter.ID || stored.Delay != 0 || !stored.RunAt.IsZero() {
		t.Errorf("stored as %+v", stored)
	}
	if after := s.status(t, letter.ID); after.Status != pawl.StatusRedriven || after.NewJobID != letter.JobID || after.Note != "n" {
		t.Errorf("letter %+v", after)
	}
	if s.audit[0].Action != pawl.ActionRetry {
		t.Errorf("audit %+v", s.audit)
	}
}

func TestRetryRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy pawl.Policy
		change func(*pawl.DeadLetter)
		want   error
	}{
		"damaged":         {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Envelope[9] ^= 1 }, pawl.ErrRedriveRefused},
		"connection":      {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Connection = "gone" }, pawl.ErrRedriveRefused},
		"deadline":        {pawl.Policy{RetryFor: time.Minute}, nil, pawl.ErrRedriveRefused},
		"never":           {pawl.Policy{Redrive: pawl.RedriveNever}, nil, pawl.ErrRedriveRefused},
		"unknown outcome": {pawl.Policy{MaxTries: 1}, func(l *pawl.DeadLetter) { l.Reason = pawl.ReasonLost }, pawl.ErrConfirm},
		"no job":          {pawl.Policy{}, func(l *pawl.DeadLetter) { l.JobID = pawl.ID{} }, pawl.ErrRedriveRefused},
		"another's":       {pawl.Policy{}, func(l *pawl.DeadLetter) { l.JobID = pawl.NewID() }, pawl.ErrRedriveRefused},
		"redriven":        {pawl.Policy{}, func(l *pawl.DeadLetter) { l.Status = pawl.StatusRedriven }, pawl.ErrAlreadyRedriven},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore("default")
			letter := s.die(t, "default", test.policy, nil, test.change)
			before := s.status(t, letter.ID)
			desk := newDesk(t, s)
			if err := desk.CheckRetry(t.Context(), letter.ID, ops.RetryOptions{}); !errors.Is(err, test.want) {
				t.Errorf("the check gives %v", err)
			}
			if job, err := desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann}); !errors.Is(err, test.want) || !job.IsZero() {
				t.Errorf("got job %s, %v, want %v", job, err, test.want)
			}
			if diff := cmp.Diff(before, s.status(t, letter.ID)); diff != "" || len(s.jobs) != 0 {
				t.Errorf("something was changed: %s, %d jobs", diff, len(s.jobs))
			}
		})
	}
}

func TestNobodyActsWithoutAName(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	letter := s.die(t, "default", pawl.Policy{}, nil, nil)
	desk := newDesk(t, s)
	nobody := pawl.By{Door: "cli"}
	_, redrive := desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: nobody})
	_, retry := desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: nobody})
	_, forget := desk.Forget(t.Context(), letter.ID, nobody)
	ids := []pawl.ID{letter.ID}
	for name, err := range map[string]error{
		"redrive": redrive, "retry": retry, "forget": forget,
		"redrive many": desk.RedriveMany(t.Context(), ids, ops.RedriveOptions{By: nobody}).Err(),
		"retry many":   desk.RetryMany(t.Context(), ids, ops.RetryOptions{By: nobody}).Err(),
		"resolve":      desk.Resolve(t.Context(), letter.ID, nobody, ""),
		"discard":      desk.Discard(t.Context(), letter.ID, nobody, ""),
		"reopen":       desk.Reopen(t.Context(), letter.ID, nobody, ""),
		"forget many":  desk.ForgetMany(t.Context(), ids, nobody).Err(),
	} {
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.status(t, letter.ID).Status != pawl.StatusDead || len(s.audit) != 0 {
		t.Error("something was changed")
	}
	if err := desk.Resolve(t.Context(), letter.ID, pawl.By{Who: "bot"}, ""); err != nil || s.audit[0].By.Door != "library" {
		t.Errorf("%v, %+v", err, s.audit)
	}
}

func TestClosingAndForgetting(t *testing.T) {
	t.Parallel()
	s := newStore("default")
	a, b := s.die(t, "default", pawl.Policy{}, nil, nil), s.die(t, "default", pawl.Policy{}, nil, nil)
	desk, missing := newDesk(t, s), pawl.NewID()
	results := desk.ResolveMany(t.Context(), []pawl.ID{a.ID, missing, b.ID}, ann, "done by hand")
	if results[0].Err != nil || !errors.Is(results[1].Err, pawl.ErrNotFound) || results[2].Err != nil {
		t.Errorf("results %+v", results)
	}
	if got := s.status(t, a.ID); got.Status != pawl.StatusResolved || got.Note != "done by hand" {
		t.Errorf("letter %+v", got)
	}
	if err := desk.Discard(t.Context(), a.ID, ann, ""); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("discard of a closed letter: %v", err)
	}
	if err := desk.Reopen(t.Context(), a.ID, ann, ""); err != nil || s.status(t, a.ID).Status != pawl.StatusDead {
		t.Errorf("reopen: %v", err)
	}
	if err := desk.Discard(t.Context(), a.ID, ann, ""); err != nil || s.status(t, a.ID).Status != pawl.StatusDiscarded {
		t.Errorf("discard: %v", err)
	}
	for _, want := range []bool{true, false} {
		if found, err := desk.Forget(t.Context(), a.ID, ann); found != want || err != nil {
			t.Errorf("forget: %v, %v", found, err)
		}
	}
	results = desk.ForgetMany(t.Context(), []pawl.ID{a.ID, b.ID}, ann)
	if !errors.Is(results[0].Err, pawl.ErrNotFound) || results[1].Err != nil {
		t.Errorf("results %+v", results)
	}
}

func TestNewIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := ops.New(nil, nil); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("no letters: %v", err)
	}
	s := newStore("default")
	for _, connections := range []map[string]pawl.Enqueuer{{"reports": s}, {"default": nil}} {
		if _, err := ops.New(s, connections); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%v: %v", connections, err)
		}
	}
}
