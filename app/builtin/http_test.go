package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/builtin"
	"github.com/pawljobs/pawl/classify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// here is what a test's own server needs.
func here(hosts ...string) builtin.Targets {
	return builtin.Targets{Hosts: hosts, HTTP: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MaxResponse: 1 << 10}
}

func handler(t *testing.T, targets builtin.Targets) *builtin.HTTP {
	t.Helper()
	h, err := builtin.NewHTTP(targets, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// class of what a host makes of an error.
func class(err error) pawl.Class { return pawl.ClassOf(pawl.Classify(err, classify.Default())) }

// runner of a job that makes no transition.
type runner struct{}

func (runner) Settle(context.Context, pawl.Outcome, error) error { return nil }
func (runner) Progress(context.Context, int, string) error       { return nil }
func (runner) Extend(_ context.Context, d time.Duration) (deadline time.Time, err error) {
	return time.Now().Add(d), nil
}

// attempt is the ctx of one.
func attempt(t *testing.T, id pawl.ID) context.Context {
	t.Helper()
	ctx, _, cancel, end := pawl.NewJobContext(t.Context(), pawl.JobInfo{ID: id, Attempt: 2}, runner{}, slog.New(slog.DiscardHandler), time.Now().Add(time.Minute))
	t.Cleanup(func() { end(); cancel(nil) })
	return ctx
}

func TestRequestIsWhatWasStated(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, body = r, string(text)
	}))
	t.Cleanup(server.Close)
	h := handler(t, here("127.0.0.1:*"))
	id := pawl.NewID()
	if err := h.Handle(attempt(t, id), builtin.HTTPRequestArgs{
		URL: server.URL + "/orders?x=1#part", JSON: json.RawMessage(`{"n": 18446744073709551616}`), Headers: map[string]string{"x-trace": "a\tb"},
	}); err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"method": {got.Method, "POST"}, "path": {got.RequestURI, "/orders?x=1"}, "body": {body, `{"n": 18446744073709551616}`},
		"type": {got.Header.Get("Content-Type"), "application/json"}, "key": {got.Header.Get("Idempotency-Key"), id.String()},
		"trace": {got.Header.Get("X-Trace"), "a\tb"}, "agent": {got.Header.Get("User-Agent"), "pawl"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if err := h.Handle(attempt(t, id), builtin.HTTPRequestArgs{URL: server.URL, Headers: map[string]string{"idempotency-key": "mine"}}); err != nil {
		t.Fatal(err)
	}
	if key := got.Header.Get("Idempotency-Key"); got.Method != "GET" || key != "mine" {
		t.Errorf("%s with key %q", got.Method, key)
	}
}

func TestAnswersAreClassified(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch r.URL.Path {
		case "/later":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/bad":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": "no such field", "password": "hush hush"}`)
		case "/elsewhere":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/endless":
			for range 1 << 12 {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		}
	}))
	t.Cleanup(server.Close)
	h := handler(t, here("127.0.0.1:*"))
	for path, want := range map[string]struct {
		class pawl.Class
		after time.Duration
		text  string
	}{
		"/":          {},
		"/endless":   {},
		"/cut":       {},
		"/later":     {pawl.ClassTransient, time.Hour, "503 Service Unavailable"},
		"/bad":       {pawl.ClassPermanent, 0, "no such field"},
		"/elsewhere": {pawl.ClassUnknown, 0, "redirects are not followed"},
	} {
		calls.Store(0)
		err := h.Handle(attempt(t, pawl.NewID()), builtin.HTTPRequestArgs{URL: server.URL + path})
		if want.text == "" {
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err == nil || class(err) != want.class || pawl.AfterOf(err) != want.after || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: class %v after %v, %v", path, class(err), pawl.AfterOf(err), err)
		}
		if strings.Contains(err.Error(), "hush hush") {
			t.Errorf("%s: the answer's secret is kept: %v", path, err)
		}
		if calls.Load() != 1 {
			t.Errorf("%s: %d calls", path, calls.Load())
		}
	}
}

// What somebody who can enqueue might try.
func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	public := builtin.Targets{Hosts: []string{"*:*"}, HTTP: true}
	only := builtin.Targets{Hosts: []string{"api.example.com", "*.example.org"}}
	for name, row := range map[string]struct {
		targets builtin.Targets
		args    string
		want    string
	}{
		"loopback":              {public, `{"url": "http://127.0.0.1:PORT/"}`, "is not a public one"},
		"loopback by name":      {public, `{"url": "http://localhost:PORT/"}`, "is not a public one"},
		"loopback in IPv6":      {public, `{"url": "http://[::1]:PORT/"}`, "is not a public one"},
		"mapped into IPv6":      {public, `{"url": "http://[::ffff:127.0.0.1]:PORT/"}`, "is not a public one"},
		"metadata":              {public, `{"url": "http://169.254.169.254/latest"}`, "is not a public one"},
		"NAT64 of metadata":     {public, `{"url": "http://[64:ff9b::a9fe:a9fe]/"}`, "is not a public one"},
		"private":               {public, `{"url": "http://10.0.0.1/"}`, "is not a public one"},
		"nowhere":               {public, `{"url": "http://0.0.0.0:PORT/"}`, "is not a public one"},
		"another network":       {here("*:*"), `{"url": "http://10.0.0.1/"}`, "is not a public one"},
		"http":                  {only, `{"url": "http://api.example.com/"}`, "is not https"},
		"a file":                {public, `{"url": "file:///etc/passwd"}`, "must be an absolute URL"},
		"another scheme":        {public, `{"url": "gopher://x/"}`, "neither https nor http"},
		"another host":          {only, `{"url": "https://example.com/"}`, "not among those"},
		"a suffix":              {only, `{"url": "https://evil-example.org/"}`, "not among those"},
		"the parent":            {only, `{"url": "https://example.org/"}`, "not among those"},
		"another port":          {only, `{"url": "https://api.example.com:22/"}`, "not among those"},
		"a user":                {only, `{"url": "https://api.example.com@evil.net/"}`, "must not have a user"},
		"a backslash":           {only, `{"url": "https://evil.net\\@api.example.com/"}`, "must be"},
		"another alphabet":      {public, `{"url": "https://ехample.com/"}`, "host of ASCII"},
		"relative":              {public, `{"url": "/etc/passwd"}`, "must be an absolute URL"},
		"no host":               {public, `{"url": "https:///x"}`, "must be an absolute URL"},
		"opaque":                {public, `{"url": "https:api.example.com"}`, "must be an absolute URL"},
		"a line end in the URL": {public, `{"url": "https://x\r\nHost: y/"}`, "must be a URL"},
		"a method":              {public, `{"url": "https://x/", "method": "CONNECT"}`, "must be one of GET"},
		"a method with more":    {public, `{"url": "https://x/", "method": "GET / HTTP/1.1\r\nX: y\r\n"}`, "must be one of GET"},
		"another Host":          {public, `{"url": "https://x/", "headers": {"hOsT": "y"}}`, "it is the transport's own"},
		"a framing header":      {public, `{"url": "https://x/", "headers": {"Transfer-Encoding": "chunked"}}`, "it is the transport's own"},
		"a header's line end":   {public, `{"url": "https://x/", "headers": {"X": "a\r\nY: b"}}`, "without control characters"},
		"a header's name":       {public, `{"url": "https://x/", "headers": {"X: y\r\nZ": "a"}}`, "letters, digits and hyphens"},
		"a header twice":        {public, `{"url": "https://x/", "headers": {"X-A": "a", "x-a": "b"}}`, "must be stated once"},
		"an address unlike":     {builtin.Targets{Hosts: []string{"[::1]:*"}, HTTP: true}, `{"url": "http://[::2]:PORT/"}`, "not among those"},
		"an address at length":  {builtin.Targets{Hosts: []string{"[0:0:0:0:0:0:0:1]:*"}, HTTP: true}, `{"url": "http://[::1]:PORT/"}`, "is not a public one"},
		"two bodies":            {public, `{"url": "https://x/", "body": "a", "json": 1}`, "must not be given with json"},
	} {
		var args builtin.HTTPRequestArgs
		if err := json.Unmarshal([]byte(strings.ReplaceAll(row.args, "PORT", port)), &args); err != nil {
			t.Fatal(name, err)
		}
		err := handler(t, row.targets).Handle(attempt(t, pawl.NewID()), args)
		if err == nil || class(err) != pawl.ClassPermanent || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: class %v, %v", name, class(err), err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls were made", calls.Load())
	}
}

// A misspelt name is not a request that differs from what was meant.
func TestUnknownArgsAreRefused(t *testing.T) {
	t.Parallel()
	var request builtin.HTTPRequestArgs
	var command builtin.CommandRunArgs
	for text, into := range map[string]any{
		`{"url": "https://x", "heders": {}}`: &request, `[]`: &request, `{"url": 7}`: &request, `{"command": "a", "arg": []}`: &command,
	} {
		if err := json.Unmarshal([]byte(text), into); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// What is allowed is asked when a connection is made, of the address that it is made to; and new rules hold at once, for
// connections that are there too.
func TestRulesHoldAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	h := handler(t, here("127.0.0.1:*"))
	args := builtin.HTTPRequestArgs{URL: server.URL}
	if err := h.Handle(attempt(t, pawl.NewID()), args); err != nil {
		t.Fatal(err)
	}
	if err := h.Allow(builtin.Targets{Hosts: []string{"https://x"}}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a bad pattern: %v", err)
	}
	if err := h.Handle(attempt(t, pawl.NewID()), args); err != nil {
		t.Errorf("after rules that were refused: %v", err)
	}
	if err := h.Allow(builtin.Targets{Hosts: []string{"127.0.0.1:*"}, HTTP: true}); err != nil {
		t.Fatal(err)
	}
	if err := h.Handle(attempt(t, pawl.NewID()), args); err == nil || !strings.Contains(err.Error(), "is not a public one") {
		t.Errorf("the kept connection is used: %v", err)
	}
	if err := h.Allow(builtin.Targets{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Handle(attempt(t, pawl.NewID()), args); err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("nothing is allowed: %v", err)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "*.", "a b", "https://x", "x:0", "x:99999", "x:y", "x/y", "*x.com", "ü.de", "x:*:*"} {
		if err := (builtin.Targets{Hosts: []string{bad}}).Check(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
	for _, good := range []string{"*", "*:*", "API.example.com.", "x:8443", "*.example.com:*", "127.0.0.1", "[::1]:80", "::1", "my_host"} {
		if err := (builtin.Targets{Hosts: []string{good}}).Check(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// A host that refuses connections is retried; a call that is cancelled ends.
func TestFailuresOfTheNetwork(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := gone.Addr().String()
	_ = gone.Close()
	h := handler(t, here("127.0.0.1:*"))
	err = h.Handle(attempt(t, pawl.NewID()), builtin.HTTPRequestArgs{URL: "http://" + address + "/?token=hush", Method: "POST"})
	if class(err) != pawl.ClassTransient || strings.Contains(err.Error(), "hush") {
		t.Errorf("class %v: %v", class(err), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Handle(ctx, builtin.HTTPRequestArgs{URL: "http://" + address}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
