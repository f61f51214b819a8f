package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
)

// failing is a store one of whose calls fails.
type failing struct {
	*sqlite.Store
	err error
}

func (f failing) Jobs(context.Context, pawl.JobFilter, pawl.Page) (pawl.JobPage, error) {
	return pawl.JobPage{}, f.err
}

var sentinels = []error{
	pawl.ErrInvalid, pawl.ErrNotFound, pawl.ErrConflict, pawl.ErrAlreadyRedriven, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrUnsupported,
	pawl.ErrFinished, pawl.ErrLeaseLost, pawl.ErrSessionLost, pawl.ErrBusy, pawl.ErrClosed, pawl.ErrSchema, pawl.ErrBatchEnded,
}

// What a store says comes out of the client as it went in, but for the name of an error at its end that the code says.
func TestErrorsPassThrough(t *testing.T) {
	t.Parallel()
	base := setup(t)
	for _, sentinel := range sentinels {
		w := serve(t, base.store, failing{base.store, fmt.Errorf("list jobs: letter 7: %w", sentinel)})
		_, err := w.dial(api.RoleOperator).Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{})
		want := "list jobs: letter 7: " + sentinel.Error()
		if slices.Contains([]error{pawl.ErrConflict, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrBatchEnded}, sentinel) {
			want = "list jobs: letter 7" // the code says the rest
		}
		if err == nil || err.Error() != want {
			t.Errorf("%v: the text is %v", sentinel, err)
		}
		for _, other := range sentinels {
			if errors.Is(err, other) != (other == sentinel) {
				t.Errorf("%v is %v: %v", err, other, errors.Is(err, other))
			}
		}
	}
	for _, field := range []*pawl.FieldError{
		{Field: "max tries", Value: 0, Rule: "must be at least 1"},
		{Field: "text", Value: strings.Repeat("é\n\"", 500), Rule: "must have at most 1000 bytes"},
	} {
		w := serve(t, base.store, failing{base.store, fmt.Errorf("list: %w", field)})
		_, err := w.dial(api.RoleOperator).Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{})
		var got *pawl.FieldError
		if !errors.As(err, &got) || !errors.Is(err, pawl.ErrInvalid) || got.Field != field.Field || got.Rule != field.Rule || got.Error() != field.Error() {
			t.Errorf("got %v, want %v", err, field)
		}
	}
	w := serve(t, base.store, failing{base.store, errors.New("disk on fire")})
	_, err := w.dial(api.RoleOperator).Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{})
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != 500 || refused.Code != "failed" || err.Error() != "disk on fire" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(w.log.String(), "disk on fire") {
		t.Error("the server's log does not say so")
	}
	w = serve(t, base.store, failing{base.store, context.DeadlineExceeded})
	if _, err = w.dial(api.RoleOperator).Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A call ends when its time is over.
func TestTimeout(t *testing.T) {
	t.Parallel()
	base := setup(t)
	w := serve(t, base.store, hanging{base.store}, func(c *api.Config) { c.Timeout = 10 * time.Millisecond })
	w.refused(w.ask(api.RoleViewer, "GET", "/api/v1/jobs", ""), http.StatusServiceUnavailable, "timeout")
}

type hanging struct{ *sqlite.Store }

func (hanging) Jobs(ctx context.Context, _ pawl.JobFilter, _ pawl.Page) (pawl.JobPage, error) {
	<-ctx.Done()
	return pawl.JobPage{}, ctx.Err()
}

const anyToken = "pawl_token-of-nobody"

func TestWrongServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"no API": {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "a server for which no token is configured has no API"},
		"HTML":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Welcome</html>") }, "200 OK with text/html is no answer"},
		"a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>no upstream</html>", http.StatusBadGateway)
		}, "502 Bad Gateway with text/plain is no answer"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example.org/", http.StatusFound)
		}, "302 Found"},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[]")
		}, "the answer does not fit"},
		"another API": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"title":"Not Found"}`)
		}, "404 Not Found with application/problem+json is no answer"},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			defer server.Close()
			_, err := api.Dial(t.Context(), server.URL, anyToken, api.ClientConfig{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), anyToken) {
				t.Errorf("it says: %v", err)
			}
		})
	}
	w := setup(t)
	_, err := api.Dial(t.Context(), w.server.URL, anyToken, api.ClientConfig{})
	if err == nil || !strings.Contains(err.Error(), "no valid token") || !strings.Contains(err.Error(), w.server.URL) || strings.Contains(err.Error(), anyToken) {
		t.Errorf("a wrong token: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	_, err = api.Dial(t.Context(), "http://"+listener.Addr().String(), anyToken, api.ClientConfig{})
	if err == nil || !strings.Contains(err.Error(), listener.Addr().String()) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"":                              "must be a URL",
		"pawl.example.org":              "must be a URL",
		"ftp://pawl.example.org":        "must be a URL",
		"https://":                      "must be a URL",
		"http://pawl.example.org":       "must be https:// for another machine",
		"http://10.0.0.7:7295":          "must be https:// for another machine",
		"https://ada:pw@pawl.example":   "no user or password",
		"https://pawl.example/?token=x": "no query",
		"https://pawl.example/#x":       "no query and no fragment",
	} {
		_, err := api.Dial(t.Context(), address, anyToken, api.ClientConfig{})
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "token=x") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, token := range []string{"", "a b", "a\n", "é"} {
		if _, err := api.Dial(t.Context(), "http://127.0.0.1:1", token, api.ClientConfig{}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	w := setup(t)
	for _, address := range []string{w.server.URL, w.server.URL + "/", w.server.URL + "/api/v1", strings.Replace(w.server.URL, "127.0.0.1", "localhost", 1)} {
		client, err := api.Dial(t.Context(), address, w.tokens[api.RoleViewer], api.ClientConfig{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if client.Role() != api.RoleViewer || client.TokenName() != "the-viewer" || client.Connection().Name != "default" {
			t.Errorf("%s is %s, a %s of %s", address, client.TokenName(), client.Role(), client.Connection().Name)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// flaky fails the first tries of every route in one way.
type flaky struct {
	http.RoundTripper
	fails int32
	how   func(send func() (*http.Response, error)) (*http.Response, error)
	seen  atomic.Int32
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if n := f.seen.Add(1); n > 1 && n <= 1+f.fails { // the first one dials
		return f.how(func() (*http.Response, error) { return f.RoundTripper.RoundTrip(r) })
	}
	return f.RoundTripper.RoundTrip(r)
}

// What may be done twice is tried again; the rest is not, and says that nobody knows.
func TestTriesAgain(t *testing.T) {
	t.Parallel()
	cutOff := func(send func() (*http.Response, error)) (*http.Response, error) {
		answer, err := send()
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, errors.New("connection cut")
	}
	gateway := func(func() (*http.Response, error)) (*http.Response, error) {
		recorder := httptest.NewRecorder()
		http.Error(recorder, "no upstream", http.StatusBadGateway)
		return recorder.Result(), nil
	}
	undialled := func(func() (*http.Response, error)) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	dial := func(w world, fails int32, how func(func() (*http.Response, error)) (*http.Response, error)) (*api.Client, *flaky) {
		f := &flaky{RoundTripper: w.server.Client().Transport, fails: fails, how: how}
		client, err := api.Dial(w.Context(), w.server.URL, w.tokens[api.RoleAdmin], api.ClientConfig{HTTP: &http.Client{Transport: f}})
		if err != nil {
			w.Fatal(err)
		}
		return client, f
	}
	w := setup(t)
	by := pawl.By{Who: "ada"}
	ids := w.letters(3)
	work := pawl.NewKind[struct{}]("mail.v1", pawl.Policy{})

	client, f := dial(w, 2, gateway)
	if _, err := client.Queues(t.Context()); err != nil || f.seen.Load() != 4 {
		t.Errorf("%d requests, %v", f.seen.Load(), err)
	}
	client, f = dial(w, 9, gateway)
	if _, err := client.Queues(t.Context()); err == nil || !strings.Contains(err.Error(), "502") || f.seen.Load() != 4 {
		t.Errorf("%d requests, %v", f.seen.Load(), err)
	}
	client, f = dial(w, 1, cutOff)
	job, err := work.Enqueue(t.Context(), client, struct{}{})
	if err != nil || job.Status != pawl.Repeated || f.seen.Load() != 3 {
		t.Errorf("an enqueue that was cut off: %+v, %d requests, %v", job, f.seen.Load(), err)
	}
	if page, err := w.store.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
	client, f = dial(w, 1, cutOff)
	_, err = client.Redrive(t.Context(), ids[0], ops.RedriveOptions{By: by})
	if err == nil || !strings.Contains(err.Error(), "connection cut (whether it was done is not known)") || f.seen.Load() != 2 {
		t.Errorf("a redrive that was cut off: %d requests, %v", f.seen.Load(), err)
	}
	if _, err = client.Redrive(t.Context(), ids[0], ops.RedriveOptions{By: by}); !errors.Is(err, pawl.ErrAlreadyRedriven) {
		t.Errorf("and again: %v", err)
	}
	client, _ = dial(w, 1, undialled)
	_, err = client.Redrive(t.Context(), ids[1], ops.RedriveOptions{By: by})
	if err == nil || strings.Contains(err.Error(), "not known") {
		t.Errorf("a redrive that was never sent: %v", err)
	}
	client, f = dial(w, 9, cutOff)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Queues(ctx); !errors.Is(err, context.Canceled) && err == nil || f.seen.Load() > 2 {
		t.Errorf("%d requests after the end, %v", f.seen.Load(), err)
	}
}

// The client's desk does what the desk beside a store does.
func TestDeskOverTheNetwork(t *testing.T) {
	t.Parallel()
	w := setup(t)
	client := w.dial(api.RoleOperator)
	ids := w.letters(1203)
	by := pawl.By{Who: "ada", Why: "mended"}
	o := ops.RedriveOptions{By: by}

	if err := client.CheckRedrive(t.Context(), ids[0], o); err != nil {
		t.Error(err)
	}
	args := `{ "to" : 3889108265204450030,"to":1,  "b": "\u2028<&>" }`
	job, err := client.Redrive(t.Context(), ids[0], ops.RedriveOptions{By: by, Args: []byte(args), Note: "new address"})
	if err != nil {
		t.Fatal(err)
	}
	view, err := w.store.Job(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := pawl.DecodeEnvelope(view.Envelope)
	if err != nil || string(envelope.Args) != args {
		t.Errorf("the new args are %s, %v", envelope.Args, err)
	}
	if _, err := client.Redrive(t.Context(), ids[0], o); !errors.Is(err, pawl.ErrAlreadyRedriven) || !strings.Contains(err.Error(), job.String()) {
		t.Errorf("twice: %v", err)
	}
	if err := client.CheckRedriveMany(t.Context(), ids[0], o); !errors.Is(err, pawl.ErrAlreadyRedriven) {
		t.Errorf("checked: %v", err)
	}
	for _, bad := range []string{`{`, `{} {}`, ``} {
		if _, err := client.Redrive(t.Context(), ids[1], ops.RedriveOptions{By: by, Args: []byte(bad)}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("args %q: %v", bad, err)
		}
	}
	retried, err := client.Retry(t.Context(), ids[1], ops.RetryOptions{By: by})
	if letter, _ := w.store.Letter(t.Context(), ids[1]); err != nil || retried != letter.JobID {
		t.Errorf("retried as %s, %v", retried, err)
	}
	if err := client.CheckRetry(t.Context(), ids[1], ops.RetryOptions{}); !errors.Is(err, pawl.ErrAlreadyRedriven) {
		t.Errorf("checked: %v", err)
	}
	unknown := pawl.NewID()
	results := client.RedriveMany(t.Context(), append(slices.Clone(ids), unknown), o)
	if len(results) != 1204 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		want := map[int]error{0: pawl.ErrAlreadyRedriven, 1: pawl.ErrAlreadyRedriven, 1203: pawl.ErrNotFound}[i]
		if !errors.Is(r.Err, want) || r.Job.IsZero() != (want != nil) || i < 1203 && r.Letter != ids[i] {
			t.Errorf("%d: %+v", i, r)
		}
	}
	more := w.letters(2)
	for name, act := range map[string]func() ops.Results{
		"note":    func() ops.Results { return client.NoteMany(t.Context(), more, by, "asked") },
		"discard": func() ops.Results { return client.DiscardMany(t.Context(), more[:1], by, "") },
		"resolve": func() ops.Results { return client.ResolveMany(t.Context(), more[1:], by, "") },
	} {
		if err := act().Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = errors.Join(client.ReopenMany(t.Context(), more, by, "").Err(), client.RetryMany(t.Context(), more[:1], ops.RetryOptions{By: by}).Err(),
		client.ForgetMany(t.Context(), more[1:], by).Err())
	if err != nil {
		t.Error(err)
	}
	if err := client.ForgetMany(t.Context(), more[1:], by).Err(); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("forgotten twice: %v", err)
	}
	if err := client.ResolveMany(t.Context(), more[:1], pawl.By{}, "").Err(); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("by nobody: %v", err)
	}
	status, err := ops.ReadStatus(t.Context(), client, ops.StatusOptions{})
	if err != nil || status.Well() {
		t.Errorf("the status is %+v, %v", status, err)
	}
}
