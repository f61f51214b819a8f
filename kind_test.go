package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
)

// memory is an Enqueuer that keeps what it is given.
type memory struct {
	connection pawl.Connection
	jobs       []pawl.NewJob
	err        error
}

func (m *memory) Connection() pawl.Connection { return m.connection }

func (m *memory) Enqueue(_ context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if m.err != nil {
		return nil, m.err
	}
	m.jobs = append(m.jobs, jobs...)
	results := make([]pawl.Enqueued, len(jobs))
	for i, job := range jobs {
		results[i].ID = job.ID
	}
	return results, nil
}

// last decodes what was stored last.
func (m *memory) last(t *testing.T) (pawl.NewJob, pawl.Envelope) {
	t.Helper()
	job := m.jobs[len(m.jobs)-1]
	e, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return job, e
}

type mailArgs struct {
	User int64 `json:"user"`
}

func enqueue(t *testing.T, to *memory, kind pawl.Kind[mailArgs], options ...pawl.Option) (pawl.NewJob, pawl.Envelope) {
	t.Helper()
	if _, err := kind.Enqueue(t.Context(), to, mailArgs{7}, options...); err != nil {
		t.Fatal(err)
	}
	return to.last(t)
}

func TestPolicyClosestStatementWins(t *testing.T) {
	t.Parallel()
	to := &memory{connection: pawl.Connection{Policy: pawl.Policy{MaxTries: 3, Timeout: time.Hour, Queue: "9-slow", Jitter: 0.5}}}
	kind := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Timeout: time.Minute, RetryFor: time.Hour})

	_, e := enqueue(t, to, kind)
	want := pawl.DefaultPolicy()
	want.MaxTries, want.Timeout, want.Queue, want.Jitter, want.RetryFor = 3, time.Minute, "9-slow", 0.5, time.Hour
	if diff := cmp.Diff(want, e.Policy); diff != "" {
		t.Errorf("kind over connection over default (-want +got):\n%s", diff)
	}

	_, e = enqueue(t, to, kind, pawl.MaxTries(1), pawl.InQueue("1-now"), pawl.Timeout(time.Second), pawl.Backoff(time.Second))
	want.MaxTries, want.Queue, want.Timeout, want.Backoff, want.Jitter = 1, "1-now", time.Second, []time.Duration{time.Second}, 0
	if diff := cmp.Diff(want, e.Policy); diff != "" {
		t.Errorf("the call over all; its backoff is exact (-want +got):\n%s", diff)
	}

	until := time.Now().Add(24 * time.Hour).Truncate(time.Millisecond).UTC()
	_, e = enqueue(t, to, kind, pawl.RetryUntil(until))
	if e.Policy.RetryFor != 0 || !e.RetryUntil.Equal(until) || !e.Deadline(noon).Equal(until) {
		t.Errorf("the call's absolute deadline does not replace the kind's: %v, %v", e.Policy.RetryFor, e.RetryUntil)
	}
	_, e = enqueue(t, to, kind)
	if got := e.Deadline(noon); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("RetryFor counts from the enqueue: got %v", got)
	}
}

// Bad input names the field, stores nothing, and is told from other errors by ErrInvalid.
func TestEnqueueRefusesBadInput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 257)
	good := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for _, row := range []struct {
		field   string
		kind    pawl.Kind[mailArgs]
		options []pawl.Option
	}{
		{"max tries", good, []pawl.Option{pawl.MaxTries(0)}},
		{"max tries", good, []pawl.Option{pawl.MaxTries(-1)}},
		{"max tries", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{MaxTries: -1}), nil},
		{"backoff", good, []pawl.Option{pawl.Backoff()}},
		{"backoff", good, []pawl.Option{pawl.Backoff(time.Second, -1)}},
		{"backoff", good, []pawl.Option{pawl.Backoff(math.MaxInt64)}},
		{"backoff", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Backoff: []time.Duration{}}), nil},
		{"jitter", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Jitter: math.NaN()}), nil},
		{"jitter", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Jitter: math.Inf(1)}), nil},
		{"redrive rule", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Redrive: 9}), nil},
		{"timeout", good, []pawl.Option{pawl.Timeout(0)}},
		{"timeout", pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{Timeout: -1}), nil},
		{"delay", good, []pawl.Option{pawl.Delay(-1)}},
		{"delay", good, []pawl.Option{pawl.Delay(math.MaxInt64)}},
		{"run at", good, []pawl.Option{pawl.RunAt(time.Time{})}},
		{"retry for", good, []pawl.Option{pawl.RetryFor(0)}},
		{"retry until", good, []pawl.Option{pawl.RetryUntil(past)}}, // case 7
		{"retry until", good, []pawl.Option{pawl.RetryUntil(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC))}},
		{"retry until", good, []pawl.Option{pawl.RetryUntil(future), pawl.Delay(2 * time.Hour)}},
		{"retry until", good, []pawl.Option{pawl.RetryFor(time.Hour), pawl.RunAt(time.Now().Add(2 * time.Hour))}},
		{"kind", pawl.NewKind[mailArgs]("", pawl.Policy{}), nil},
		{"kind", pawl.Kind[mailArgs]{}, nil},
		{"kind", pawl.NewKind[mailArgs](long[:129], pawl.Policy{}), nil},
		{"kind", pawl.NewKind[mailArgs]("a\nb", pawl.Policy{}), nil},
		{"kind", pawl.NewKind[mailArgs]("a\xff", pawl.Policy{}), nil},
		{"queue", good, []pawl.Option{pawl.InQueue("")}},
		{"queue", good, []pawl.Option{pawl.InQueue(long[:129])}},
		{"queue", good, []pawl.Option{pawl.InQueue("a\x00")}},
		{"correlation id", good, []pawl.Option{pawl.CorrelationID(long[:65])}},
		{"unique key", good, []pawl.Option{pawl.UniqueWhileWaiting("")}},
		{"unique key", good, []pawl.Option{pawl.UniqueWhileUnfinished(long)}},
		{"unique period", good, []pawl.Option{pawl.UniqueFor("k", 0)}},
		{"unique key", good, []pawl.Option{pawl.UniqueWhileWaiting("a"), pawl.UniqueFor("b", time.Hour)}},
		{"delay", good, []pawl.Option{pawl.RunAt(future), pawl.Delay(time.Minute)}},
		{"run at", good, []pawl.Option{pawl.Delay(time.Minute), pawl.RunAt(future)}},
		{"tags", good, []pawl.Option{pawl.Tags(strings.Split(strings.Repeat("x ", 20)+"x", " ")...)}},
		{"tag", good, []pawl.Option{pawl.Tags("")}},
		{"tag", good, []pawl.Option{pawl.Tags(long[:65])}},
		{"id", good, []pawl.Option{pawl.WithID(pawl.ID{})}},
	} {
		to := &memory{}
		_, err := row.kind.Enqueue(t.Context(), to, mailArgs{}, row.options...)
		var fault *pawl.FieldError
		if !errors.As(err, &fault) || fault.Field != row.field || !errors.Is(err, pawl.ErrInvalid) || fault.Rule == "" {
			t.Errorf("%s: got %v", row.field, err)
		}
		if len(to.jobs) > 0 {
			t.Errorf("%s: a refused job was stored", row.field)
		}
	}
}

// Case 18: args come back byte for byte, or are refused with the reason.
func TestArgsAreKeptOrRefused(t *testing.T) {
	t.Parallel()
	raw := pawl.NewKind[json.RawMessage]("raw.v1", pawl.Policy{})
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	kept := []string{
		`{"n":3889108265204450030}`, `"\u0000"`, `"\ud800"`, `{}`, `null`, ` {"b": 1, "a": 2, "b": 3} `, `"<&>é"`, `1e999`,
		nested(64), `"` + strings.Repeat("x", 1<<20-2) + `"`, `"[[[[\"{{{"`,
	}
	for _, args := range kept {
		to := &memory{}
		if _, err := raw.Enqueue(t.Context(), to, json.RawMessage(args)); err != nil {
			t.Errorf("%.40s: %v", args, err)
			continue
		}
		if _, e := to.last(t); string(e.Args) != args {
			t.Errorf("%.40s came back as %.40s", args, e.Args)
		}
	}
	for _, args := range []string{
		"", "{", "NaN", "{} {}", "\"\xff\"", nested(65), `"` + strings.Repeat("x", 1<<20-1) + `"`, strings.Repeat("[", 1<<20),
	} {
		to := &memory{}
		if _, err := raw.Enqueue(t.Context(), to, json.RawMessage(args)); !errors.Is(err, pawl.ErrInvalid) || len(to.jobs) > 0 {
			t.Errorf("%.40q was not refused: %v", args, err)
		}
	}
	for _, number := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := pawl.NewKind[float64]("f.v1", pawl.Policy{}).Enqueue(t.Context(), &memory{}, number); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%v was not refused: %v", number, err)
		}
	}
}

func TestEnqueueNamesTheJobWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	kind := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	result, err := kind.Enqueue(t.Context(), &memory{err: errBoom}, mailArgs{})
	if !errors.Is(err, errBoom) || result.ID.IsZero() {
		t.Errorf("got %v, %v: the caller cannot repeat the enqueue", result, err)
	}
}

func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	kind := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	to := &memory{}
	results, err := kind.EnqueueMany(t.Context(), to, []mailArgs{{1}, {2}, {3}})
	if err != nil || len(results) != 3 || len(to.jobs) != 3 || results[2].ID != to.jobs[2].ID {
		t.Errorf("got %v, %v", results, err)
	}
	for name, option := range map[string]pawl.Option{"id": pawl.WithID(pawl.NewID()), "unique": pawl.UniqueWhileWaiting("k")} {
		if _, err := kind.EnqueueMany(t.Context(), to, []mailArgs{{1}, {2}}, option); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s for several jobs: got %v", name, err)
		}
	}
}

func TestContextTravels(t *testing.T) {
	t.Parallel()
	kind := pawl.NewKind[mailArgs]("mail.v1", pawl.Policy{})
	to := &memory{}
	send := func(ctx context.Context, options ...pawl.Option) pawl.Envelope {
		if _, err := kind.Enqueue(ctx, to, mailArgs{}, options...); err != nil {
			t.Fatal(err)
		}
		_, e := to.last(t)
		return e
	}
	if e := send(t.Context()); e.CorrelationID != e.ID.String() {
		t.Errorf("made: got %q", e.CorrelationID)
	}
	ctx, _, _, end := pawl.NewJobContext(t.Context(), pawl.JobInfo{CorrelationID: "job", TraceParent: "tp", TraceState: "ts"}, nil, nil, noon)
	defer end()
	if e := send(ctx); e.CorrelationID != "job" || e.TraceParent != "tp" || e.TraceState != "ts" {
		t.Errorf("the running job's: got %q, %q, %q", e.CorrelationID, e.TraceParent, e.TraceState)
	}
	ctx = pawl.ContextWithTrace(pawl.ContextWithCorrelationID(ctx, "ctx"), "tp2", "")
	if e := send(ctx); e.CorrelationID != "ctx" || e.TraceParent != "tp2" {
		t.Errorf("the ctx's: got %q, %q", e.CorrelationID, e.TraceParent)
	}
	if e := send(ctx, pawl.CorrelationID("option")); e.CorrelationID != "option" {
		t.Errorf("the option's: got %q", e.CorrelationID)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	a, b := pawl.NewID(), pawl.NewID()
	if a == b || a.String() >= b.String() {
		t.Errorf("ids do not grow: %s, %s", a, b)
	}
	for _, id := range []pawl.ID{a, {}} {
		text, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		back := pawl.NewID()
		if err := json.Unmarshal(text, &back); err != nil || back != id {
			t.Errorf("%s came back as %s, %v", id, back, err)
		}
	}
	for _, text := range []string{"", "x", a.String() + "0", "{" + a.String() + "}", strings.ReplaceAll(a.String(), "-", "")} {
		if _, err := pawl.ParseID(text); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q is not refused: %v", text, err)
		}
	}
	letter := pawl.LetterID("default", a, 1)
	if letter != pawl.LetterID("default", a, 1) {
		t.Error("the same death has two ids")
	}
	if letter == pawl.LetterID("default", a, 2) || letter == pawl.LetterID("other", a, 1) || letter == pawl.LetterID("default", b, 1) {
		t.Error("two deaths share an id")
	}
}
