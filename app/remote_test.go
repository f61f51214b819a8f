package app

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/sqlite"
)

// far is a store with a server before it.
type far struct {
	*testing.T
	store  *sqlite.Store
	server *httptest.Server
	local  string // the store's name
	tokens map[api.Role]string
}

func setupFar(t *testing.T, changes ...func(*api.Config)) far {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	f := far{t, s, nil, "sqlite:" + path, map[api.Role]string{}}
	config := api.Config{Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&config)
	}
	for _, role := range []api.Role{api.RoleEnqueue, api.RoleViewer, api.RoleOperator, api.RoleAdmin} {
		secret, token, err := api.NewToken("the-"+string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		f.tokens[role], config.Tokens = secret, append(config.Tokens, token)
	}
	handler, err := api.New(s, config)
	if err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewServer(handler)
	t.Cleanup(f.server.Close)
	return f
}

// pawl runs one command, with a token of this role, and returns what it printed and its exit status.
func (f far) pawl(role api.Role, store string, args ...string) (out, talk string, code int) {
	f.Helper()
	var o, e bytes.Buffer
	environ := []string{"USER=kim", "PAWL_TOKEN=" + f.tokens[role]}
	p := &program{
		mux: pawl.NewMux(), in: strings.NewReader(""), out: &o, talk: &e, environ: environ,
		tty: func(any) bool { return false }, name: "pawl",
	}
	code = p.run(context.WithoutCancel(f.Context()), append([]string{"--store", store}, args...))
	return o.String(), e.String(), code
}

func (f far) die(n int) []pawl.ID {
	f.Helper()
	kind := pawl.NewKind[map[string]int]("email.welcome.v1", pawl.Policy{})
	all, ids := make([]pawl.DeadLetter, n), make([]pawl.ID, n)
	for i := range all {
		job, err := kind.New(f.Context(), f.store.Connection(), map[string]int{"user_id": i})
		if err != nil {
			f.Fatal(err)
		}
		ids[i] = pawl.LetterID("default", job.ID, 1)
		all[i] = pawl.DeadLetter{
			ID: ids[i], JobID: job.ID, Connection: "default", Queue: job.Queue, Kind: job.Kind, Envelope: job.Envelope,
			ExceptionType: "*errors.errorString", Message: "550 no such user", Detail: "stack", Attempts: 6, Fingerprint: "1-abc",
			Reason: pawl.ReasonBudget, History: []pawl.AttemptRecord{{Attempt: 1, Ending: pawl.EndReturned, Message: "550"}},
		}
	}
	if _, err := f.store.RecordDeaths(f.Context(), all); err != nil {
		f.Fatal(err)
	}
	return ids
}

// schedule adds a schedule whose kind no host runs any more.
func (f far) schedule(name, kind string) {
	f.Helper()
	session, err := f.store.OpenSession(f.Context(), pawl.HostInfo{Name: "gone", Kinds: []string{kind}})
	if err == nil {
		err = f.store.CloseSession(f.Context(), session)
	}
	if err == nil {
		err = f.store.AddSchedule(f.Context(), pawl.Schedule{Name: name, Spec: "@daily", Kind: kind}, pawl.By{Who: "kim", Door: "library"})
	}
	if err != nil {
		f.Fatal(err)
	}
}

// What a command prints, says and ends with is the same over the network as beside the store.
func TestFarAsNear(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	ids := f.die(3)
	job, _, code := f.pawl(api.RoleOperator, f.server.URL, "job", "enqueue", "email.welcome.v1", "--args", `{"n": 3889108265204450030}`, "--delay", "1h", "--tag", "vip")
	if code != 0 {
		t.Fatalf("enqueue: status %d", code)
	}
	job = strings.TrimSpace(job)
	unknown := pawl.NewID().String()
	f.schedule("nightly", "email.welcome.v1")
	if out, _, _ := f.pawl(api.RoleViewer, f.server.URL, "status"); !strings.Contains(out, "nightly") {
		t.Errorf("the status says nothing of a schedule that nobody serves:\n%s", out)
	}
	for _, args := range [][]string{
		{"status"},
		{"status", "--json"},
		{"dead", "groups"},
		{"dead", "groups", "--json"},
		{"dead", "list"},
		{"dead", "list", "--json"},
		{"dead", "list", "--plain"},
		{"dead", "list", "--group", "1-a"},
		{"dead", "list", "--limit", "2"},
		{"dead", "list", "--limit", "-1"},
		{"dead", "list", "--after", "x"},
		{"dead", "show", ids[0].String()},
		{"dead", "show", ids[0].String(), "--payload"},
		{"dead", "show", ids[0].String(), "--payload", "--json"},
		{"dead", "show", unknown},
		{"dead", "show", job},
		{"dead", "export", "--payload"},
		{"dead", "redrive", ids[0].String(), "--dry-run"},
		{"dead", "redrive", unknown},
		{"dead", "redrive", ids[0].String(), "--args", "{"},
		{"dead", "redrive", ids[0].String(), "--args", `"` + strings.Repeat("x", 1<<20) + `"`},
		{"dead", "retry", ids[0].String(), ids[1].String(), unknown, "--dry-run"},
		{"dead", "redrive", "--group", "1-abc", "--dry-run"},
		{"dead", "redrive", "--group", "1-abc", "--expect", "9", "--yes", "--reason", "x"},
		{"dead", "resolve", unknown, "--json"},
		{"job", "list"},
		{"job", "list", "--json"},
		{"job", "show", job},
		{"job", "show", job, "--payload", "--json"},
		{"job", "cancel", unknown},
		{"job", "run-now", job, "--dry-run"},
		{"job", "list", "--state", "odd"},
		{"job", "enqueue", "a", "--max-tries", "0"},
		{"queue", "list", "--json"},
		{"queue", "show", "2-default"},
		{"queue", "clear", "2-default", "--dry-run"},
		{"queue", "pause", "", "--reason", "x"},
		{"kind", "list"},
		{"kind", "show", "email.welcome.v1"},
		{"host", "list"},
		{"host", "show", "nobody"},
		{"alerts", "list", "--json"},
		{"schedule", "list"},
		{"schedule", "list", "--json"},
		{"schedule", "show", "nightly"},
		{"schedule", "show", "nightly", "--json"},
		{"schedule", "show", "nobody"},
		{"schedule", "next", "nightly", "-n", "3"},
		{"schedule", "add", "odd", "--spec", "61 * * * *", "--kind", "a"},
		{"schedule", "add", "odd", "--spec", "1h", "--kind", "nobodys.v1"},
		{"schedule", "delete", "nobody", "--yes"},
		{"schedule", "run-now", "nobody"},
		{"op", "list"},
		{"op", "show", unknown},
		{"audit", "list", "--action", "resolve"},
		{"audit", "list", "--subject", "\x00"},
	} {
		f.alike(args...)
	}
}

// alike runs a command over the network and beside the store.
func (f far) alike(args ...string) {
	f.Helper()
	nearOut, nearTalk, nearCode := f.pawl(api.RoleAdmin, f.local, args...)
	farOut, farTalk, farCode := f.pawl(api.RoleAdmin, f.server.URL, args...)
	farOut, farTalk = strings.ReplaceAll(farOut, f.server.URL, f.local), strings.ReplaceAll(farTalk, f.server.URL, f.local)
	if mask(farOut) != mask(nearOut) || mask(farTalk) != mask(nearTalk) || farCode != nearCode {
		f.Errorf("pawl %.80s\nfar:  %d\n%.2000s%.2000s\nnear: %d\n%.2000s%.2000s", strings.Join(args, " "), farCode, farOut, farTalk, nearCode, nearOut, nearTalk)
	}
}

// Whoever acts from afar is in the audit trail, with the token.
func TestActsFromAfar(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	ids := f.die(4)
	for _, c := range []struct {
		role api.Role
		args []string
		code int
		says string
	}{
		{api.RoleOperator, []string{"dead", "redrive", ids[0].String(), "--reason", "mended"}, 0, ids[0].String()},
		{api.RoleOperator, []string{"dead", "redrive", ids[0].String()}, exitPrecondition, "went on as job"},
		{api.RoleOperator, []string{"dead", "resolve", ids[1].String(), "--by", "grace"}, 0, ids[1].String()},
		{api.RoleOperator, []string{"dead", "forget", ids[2].String(), "--yes"}, 0, ids[2].String()},
		{api.RoleOperator, []string{"queue", "pause", "3-bulk", "--reason", "x"}, 0, "is paused"},
		{api.RoleOperator, []string{"kind", "off", "a", "--reason", "x"}, exitDenied, "to set a kind's switch it needs the role admin"},
		{api.RoleAdmin, []string{"kind", "off", "a", "--reason", "x"}, 0, "switched off"},
		{api.RoleViewer, []string{"dead", "resolve", ids[3].String()}, exitDenied, "to close open letters it needs the role operator"},
		{api.RoleEnqueue, []string{"dead", "list"}, exitDenied, "to list dead letters it needs the role viewer"},
		{"", []string{"dead", "list"}, exitUsage, "PAWL_TOKEN"},
		{api.RoleAdmin, []string{"migrate", "up"}, exitUsage, "is the API of a server"},
		{api.RoleAdmin, []string{"--connection", "reports", "dead", "list"}, exitPrecondition, `is connection "default", not "reports"`},
		{api.RoleAdmin, []string{"--token-file", filepath.Join(t.TempDir(), "none"), "dead", "list"}, exitError, "read token"},
	} {
		out, talk, code := f.pawl(c.role, f.server.URL, c.args...)
		if code != c.code || !strings.Contains(out+talk, c.says) {
			t.Errorf("pawl %s: status %d\n%s%s", strings.Join(c.args, " "), code, out, talk)
		}
		if token := f.tokens[c.role]; token != "" && strings.Contains(out+talk, token) {
			t.Errorf("pawl %s shows the token", strings.Join(c.args, " "))
		}
	}
	trail, _, _ := f.pawl(api.RoleViewer, f.server.URL, "audit", "list")
	for _, want := range []string{"the-operator/kim\tapi\tredrive", "the-operator/grace\tapi\tresolve", "the-admin/kim\tapi\tswitch"} {
		if !strings.Contains(trail, want) {
			t.Errorf("the trail lacks %q:\n%s", want, trail)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(f.tokens[api.RoleViewer]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, talk, code := f.pawl("", f.server.URL, "--token-file", file, "dead", "show", ids[3].String()); code != 0 || !strings.Contains(out, "--token-file") {
		t.Errorf("with a file: status %d\n%s%s", code, out, talk)
	}
	if _, talk, code := f.pawl(api.RoleViewer, "http://pawl.example.org", "dead", "list"); code != exitUsage || !strings.Contains(talk, "--insecure-http") {
		t.Errorf("unencrypted: status %d\n%s", code, talk)
	}
}

// A recurring job's whole life, from afar.
func TestSchedulesFromAfar(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	f.schedule("other", "report.v1") // its kind was registered once
	for _, c := range []struct {
		role api.Role
		args []string
		code int
		says string
	}{
		{api.RoleViewer, []string{"add", "nightly", "--spec", "30 2 * * *", "--kind", "report.v1"}, exitDenied, "to add a schedule it needs the role operator"},
		{api.RoleOperator, []string{"add", "nightly", "--spec", "30 2 * * *", "--zone", "Asia/Kathmandu", "--kind", "report.v1", "--args", `{"n":  3889108265204450030}`, "--backoff", "1s,2s", "--redrive", "one-by-one", "--from", "2020-01-01"}, 0, "Schedule nightly is added: its next tick is"},
		{api.RoleOperator, []string{"add", "nightly", "--spec", "1h", "--kind", "report.v1"}, exitPrecondition, "is there already"},
		{api.RoleOperator, []string{"set", "nightly", "--spec", "1h", "--reason", "oftener"}, 0, "is changed"},
		{api.RoleViewer, []string{"show", "nightly"}, 0, `{"n":  3889108265204450030}`},
		{api.RoleViewer, []string{"show", "nightly"}, 0, "Policy       backoff [1s 2s], redrive one-by-one"},
		{api.RoleOperator, []string{"pause", "nightly", "--reason", "x"}, 0, "is paused"},
		{api.RoleOperator, []string{"run-now", "nightly"}, 0, "-"},
		{api.RoleOperator, []string{"run-now", "nightly"}, exitPrecondition, "has not ended, and its overlap rule is skip"},
		{api.RoleOperator, []string{"resume", "nightly"}, 0, "is resumed"},
		{api.RoleOperator, []string{"delete", "nightly", "--yes"}, 0, "is deleted"},
		{api.RoleOperator, []string{"show", "nightly"}, exitNotFound, "not found"},
	} {
		out, talk, code := f.pawl(c.role, f.server.URL, append([]string{"schedule"}, c.args...)...)
		if code != c.code || !strings.Contains(out+talk, c.says) {
			t.Errorf("pawl schedule %s: status %d\n%s%s", strings.Join(c.args, " "), code, out, talk)
		}
	}
	trail, _, _ := f.pawl(api.RoleViewer, f.server.URL, "audit", "list", "--subject", "schedule nightly")
	for _, action := range []string{"add", "set", "pause", "run-now", "pause", "delete"} {
		if !strings.Contains(trail, "the-operator/kim\tapi\t"+action+"\t") {
			t.Errorf("the trail lacks %s:\n%s", action, trail)
		}
	}
}

// The name of a token is one that a configuration can have.
func TestTokenName(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	if _, talk, code := f.pawl(api.RoleAdmin, f.local, "token", "new", "bad!"); code != exitUsage || !strings.Contains(talk, `invalid token name "bad!"`) {
		t.Errorf("status %d, and it says %q", code, talk)
	}
}

// The host that is watched may be the one through which it is watched.
func TestDrainOfTheServerItself(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	if _, err := f.store.OpenSession(t.Context(), pawl.HostInfo{Name: "far-1"}); err != nil {
		t.Fatal(err)
	}
	var gone atomic.Bool
	handler := f.server.Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/drain") {
			gone.Store(true)
		}
	}))
	t.Cleanup(server.Close)
	_, talk, code := f.pawl(api.RoleOperator, server.URL, "host", "drain", "far-1", "--watch", "--reason", "x")
	if code != 1 || !strings.Contains(talk, "is asked to end") || !strings.Contains(talk, "whether host far-1 (session 1) has left cannot be seen: ") {
		t.Errorf("status %d, and it says %q", code, talk)
	}
}

// What is hidden from a viewer is not said to be damaged, or gone.
func TestHiddenFromAViewer(t *testing.T) {
	t.Parallel()
	f := setupFar(t, func(c *api.Config) { c.HideFromViewers = true })
	letter := f.die(1)[0].String()
	out, talk, code := f.pawl(api.RoleViewer, f.server.URL, "dead", "show", letter)
	if code != exitOK || strings.Contains(out, "cannot be trusted") || !strings.Contains(out, "dead redrive "+letter) {
		t.Errorf("status %d\n%s%s", code, out, talk)
	}
}
