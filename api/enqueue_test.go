package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// envelope is what is stored of the job that an answer names.
func (w world) envelope(id any) (pawl.JobView, pawl.Envelope) {
	w.Helper()
	job, err := pawl.ParseID(fmt.Sprint(id))
	if err != nil {
		w.Fatal(err)
	}
	view, err := w.store.Job(w.Context(), job)
	if err != nil {
		w.Fatal(err)
	}
	envelope, err := pawl.DecodeEnvelope(view.Envelope)
	if err != nil {
		w.Fatal(err)
	}
	return view, envelope
}

// Whatever JSON is given comes to the handler byte for byte.
func TestArgsAreKeptAsGiven(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, args := range []string{
		`{"n":3889108265204450030}`, `{"b":1,"a":2,"b":3}`, `{ "spaced" : [ 1 , 2 ] }`, `"\u0000 \ud800 <&> \u2028"`, "\"\u2028 é\"", `1e400`, `-0`, `0.10`,
		`null`, `{}`, `[]`, `""`, strings.Repeat("[", 64) + strings.Repeat("]", 64), `"` + strings.Repeat("x", 1<<20-2) + `"`,
	} {
		answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", "{ \"kind\" : \"a\", \"args\":\n"+args+" }")
		if answer.StatusCode != http.StatusCreated {
			t.Errorf("%.60s: %s: %s", args, answer.Status, answer.body)
			continue
		}
		if _, envelope := w.envelope(answer.object(t)["id"]); string(envelope.Args) != args {
			t.Errorf("%.60s came out as %.60s", args, envelope.Args)
		}
	}
}

func TestEveryFieldOfANewJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := pawl.NewID()
	until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Millisecond)
	answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{
		"id": %q, "kind": "ledger.credit.v1", "args": {"n": 1}, "queue": "1-critical", "delay_ms": 3600000, "max_tries": 3,
		"backoff_ms": [1000, 60000], "jitter": 0.5, "timeout_ms": 30000, "retry_until": %q, "correlation_id": "request-7",
		"tags": ["vip", "eu"], "unique": {"key": "k", "scope": "period", "period_ms": 86400000}, "ordering_key": "account-7",
		"limit_key": "customer-7", "redrive": "one-by-one", "starts_off": true}`, id, until.Format(time.RFC3339Nano)))
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s", answer.Status, answer.body)
	}
	view, e := w.envelope(id)
	if view.State != pawl.JobScheduled || view.Queue != "1-critical" || time.Until(view.RunAt) < 59*time.Minute {
		t.Errorf("the job is %+v", view)
	}
	p := e.Policy
	if e.Kind != "ledger.credit.v1" || !e.RetryUntil.Equal(until) || e.CorrelationID != "request-7" || len(e.Tags) != 2 ||
		e.Unique != (pawl.Unique{Key: "k", Scope: pawl.UniqueForPeriod, Period: 24 * time.Hour}) || e.OrderingKey != "account-7" || e.LimitKey != "customer-7" {
		t.Errorf("the envelope is %+v", e)
	}
	if p.MaxTries != 3 || len(p.Backoff) != 2 || p.Backoff[1] != time.Minute || p.Jitter != 0.5 || p.Timeout != 30*time.Second ||
		p.Redrive != pawl.RedriveOneByOne || !p.StartsOff {
		t.Errorf("the policy is %+v", p)
	}
	answer = w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"kind":"a","args":{},"run_at":"2100-01-01T00:00:00+01:00"}`)
	if view, _ = w.envelope(answer.object(t)["id"]); !view.RunAt.Equal(time.Date(2099, 12, 31, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("the job is %+v", view)
	}
	answer = w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"kind":"a","args":{},"retry_for_ms":86400000}`)
	if _, e = w.envelope(answer.object(t)["id"]); e.Policy.RetryFor != 24*time.Hour {
		t.Errorf("the policy is %+v", e.Policy)
	}
	// What is not said has the defaults of the library.
	answer = w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"kind":"a","args":{}}`)
	_, e = w.envelope(answer.object(t)["id"])
	if got, want := fmt.Sprintf("%+v", e.Policy), fmt.Sprintf("%+v", pawl.DefaultPolicy()); got != want {
		t.Errorf("the policy is %s, want %s", got, want)
	}
}

// What the library refuses is refused in its words, and nothing is stored.
func TestNewJobsAreChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	kind := func(name, args string, options ...pawl.Option) error {
		_, err := pawl.NewKind[json.RawMessage](name, pawl.Policy{}).New(t.Context(), w.store.Connection(), json.RawMessage(args), options...)
		return err
	}
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for fields, want := range map[string]error{
		`"kind":"","args":{}`:                                                        kind("", `{}`),
		`"args":{}`:                                                                  kind("", `{}`),
		"\"kind\":\"a\xff\",\"args\":{}":                                             nil,
		"\"kind\":\"a\",\"args\":{},\"tags\":[\"\xc3\"]":                             nil,
		"\"kind\":\"a\",\"args\":\"\xff\"":                                           kind("a", "\"\xff\""),
		`"kind":"a\nb","args":{}`:                                                    kind("a\nb", `{}`),
		`"kind":"a","args":{},"queue":""`:                                            kind("a", `{}`, pawl.InQueue("")),
		`"kind":"a","args":{},"max_tries":0`:                                         kind("a", `{}`, pawl.MaxTries(0)),
		`"kind":"a","args":{},"backoff_ms":[]`:                                       kind("a", `{}`, pawl.Backoff()),
		`"kind":"a","args":{},"backoff_ms":[-1]`:                                     kind("a", `{}`, pawl.Backoff(-time.Millisecond)),
		`"kind":"a","args":{},"timeout_ms":0`:                                        kind("a", `{}`, pawl.Timeout(0)),
		`"kind":"a","args":{},"delay_ms":-1`:                                         kind("a", `{}`, pawl.Delay(-time.Millisecond)),
		`"kind":"a","args":{},"delay_ms":999999999999999`:                            nil,
		`"kind":"a","args":{},"retry_until":"2020-01-01T00:00:00Z"`:                  kind("a", `{}`, pawl.RetryUntil(past)),
		`"kind":"a","args":{},"retry_for_ms":0`:                                      kind("a", `{}`, pawl.RetryFor(0)),
		`"kind":"a","args":{},"correlation_id":""`:                                   kind("a", `{}`, pawl.CorrelationID("")),
		`"kind":"a","args":{},"tags":[""]`:                                           kind("a", `{}`, pawl.Tags("")),
		`"kind":"a","args":{},"unique":{"key":"","scope":"waiting"}`:                 kind("a", `{}`, pawl.UniqueWhileWaiting("")),
		`"kind":"a","args":{},"unique":{"key":"k","scope":"period"}`:                 kind("a", `{}`, pawl.UniqueFor("k", 0)),
		`"kind":"a","args":` + strings.Repeat("[", 65) + strings.Repeat("]", 65):     kind("a", strings.Repeat("[", 65)+strings.Repeat("]", 65)),
		`"kind":"a","args":"` + strings.Repeat("x", 1<<20) + `"`:                     kind("a", `"`+strings.Repeat("x", 1<<20)+`"`),
		`"kind":"a","args":{},"delay_ms":1,"run_at":"2100-01-01T00:00:00Z"`:          nil,
		`"kind":"a","args":{},"retry_for_ms":1,"retry_until":"2100-01-01T00:00:00Z"`: nil,
		`"kind":"a","args":{},"unique":{"key":"k","scope":"ever"}`:                   nil,
		`"kind":"a","args":{},"unique":{"key":"k","scope":"waiting","period_ms":1}`:  nil,
		`"kind":"a","args":{},"jitter":0.5`:                                          nil,
		`"kind":"a","args":{},"redrive":"perhaps"`:                                   nil,
		`"kind":"a","args":{},"envelope_base64":"UFdMAQ=="`:                          nil,
		`"envelope_base64":"UFdMAQ=="`:                                               nil,
		`"kind":"a","args":{},"letter_id":"` + pawl.NewID().String() + `"`:           nil,
		`"kind":"a","args":{},"jobs":[]`:                                             nil,
	} {
		p := w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", "{"+fields+"}"), http.StatusBadRequest, "invalid")
		if want != nil && p["detail"] != want.Error() {
			t.Errorf("%.80s: it says %v, and the library %v", fields, p["detail"], want)
		}
	}
	w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"jobs":[]}`), http.StatusBadRequest, "invalid")
	p := w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"jobs":[{"kind":"a","args":{}},{"kind":"a","args":{},"max_tries":-1}]}`), http.StatusBadRequest, "invalid")
	if detail := fmt.Sprint(p["detail"]); !strings.HasPrefix(detail, "job 2 of 2: enqueue a: invalid max tries") {
		t.Errorf("it says %s", detail)
	}
	w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"jobs":[`+strings.TrimSuffix(strings.Repeat(`{"kind":"a","args":1},`, 1001), ",")+`]}`), 400, "invalid")
	if jobs, err := w.store.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{}); err != nil || len(jobs.Jobs) > 0 {
		t.Errorf("%d jobs were stored, %v", len(jobs.Jobs), err)
	}
}

func TestEnqueueRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := pawl.NewID().String()
	one := `{"kind":"a","args":{},"id":"` + id + `","unique":{"key":"k","scope":"unfinished"}}`
	for i, want := range []struct {
		body, status string
		code         int
	}{
		{one, "accepted", 201},
		{one, "repeated", 200},
		{`{"kind":"b","args":{},"unique":{"key":"k","scope":"unfinished"}}`, "duplicate", 200},
	} {
		answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", want.body)
		object := answer.object(t)
		if answer.StatusCode != want.code || object["status"] != want.status || object["id"] != id {
			t.Errorf("%d: %s: %s", i, answer.Status, answer.body)
		}
	}
	var jobs []string
	for range 1000 {
		jobs = append(jobs, `{"kind":"a","args":{}}`)
	}
	answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"jobs":[`+strings.Join(append(jobs[1:], one), ",")+`]}`)
	all, _ := answer.object(t)["jobs"].([]any)
	if answer.StatusCode != 201 || len(all) != 1000 || all[999].(map[string]any)["status"] != "repeated" {
		t.Errorf("%s: %d answers", answer.Status, len(all))
	}
}

// A client enqueues through the same interface as a store, and what a kind states goes with the job.
func TestClientEnqueues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	client := w.dial(api.RoleEnqueue)
	credit := pawl.NewKind[map[string]int64]("ledger.credit.v1", pawl.Policy{
		MaxTries: 1, StartsOff: true, Redrive: pawl.RedriveNever, Backoff: []time.Duration{time.Second}, Jitter: 0.2,
	})
	id := pawl.NewID()
	for i, want := range []pawl.EnqueueStatus{pawl.Accepted, pawl.Repeated} {
		job, err := credit.Enqueue(t.Context(), client, map[string]int64{"n": 3889108265204450030}, pawl.WithID(id), pawl.Delay(time.Hour), pawl.Tags("vip"))
		if err != nil || job != (pawl.Enqueued{ID: id, Status: want}) {
			t.Errorf("%d: %+v, %v", i, job, err)
		}
	}
	view, e := w.envelope(id)
	if string(e.Args) != `{"n":3889108265204450030}` || e.Policy.MaxTries != 1 || e.Policy.Jitter != 0.2 || e.Policy.Redrive != pawl.RedriveNever || view.State != pawl.JobScheduled {
		t.Errorf("%+v, %+v", view, e)
	}
	many, err := credit.EnqueueMany(t.Context(), client, make([]map[string]int64, 1000))
	if err != nil || len(many) != 1000 {
		t.Errorf("%d, %v", len(many), err)
	}
	if _, err := credit.EnqueueMany(t.Context(), client, make([]map[string]int64, 1001)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("1,001: %v", err)
	}
	letter := pawl.NewJob{ID: view.ID, Kind: view.Kind, Queue: view.Queue, Envelope: view.Envelope, Letter: pawl.NewID()}
	if _, err := client.Enqueue(t.Context(), []pawl.NewJob{letter}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("passed off as a redrive: %v", err)
	}
	if none, err := client.Enqueue(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("nothing: %v, %v", none, err)
	}
}
