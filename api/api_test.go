package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/sqlite"
)

// world is a store behind a server, with a token of each role.
type world struct {
	*testing.T
	store  *sqlite.Store
	server *httptest.Server
	tokens map[api.Role]string
	log    *lines
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var roles = []api.Role{api.RoleEnqueue, api.RoleViewer, api.RoleOperator, api.RoleAdmin}

func setup(t *testing.T, changes ...func(*api.Config)) world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return serve(t, store, store, changes...)
}

func serve(t *testing.T, store *sqlite.Store, served api.Store, changes ...func(*api.Config)) world {
	t.Helper()
	w := world{T: t, store: store, tokens: map[api.Role]string{}, log: &lines{}}
	config := api.Config{Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, role := range roles {
		secret, token, err := api.NewToken("the-"+string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		w.tokens[role] = secret
		config.Tokens = append(config.Tokens, token)
	}
	for _, change := range changes {
		change(&config)
	}
	handler, err := api.New(served, config)
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(handler)
	t.Cleanup(w.server.Close)
	return w
}

func (w world) dial(role api.Role) *api.Client {
	w.Helper()
	client, err := api.Dial(w.Context(), w.server.URL, w.tokens[role], api.ClientConfig{HTTP: w.server.Client()})
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// reply is an answer as it came.
type reply struct {
	*http.Response
	body []byte
}

// ask sends one request as a program in any language does.
func (w world) ask(role api.Role, method, path, body string, headers ...string) reply {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if role != "" {
		request.Header.Set("Authorization", "Bearer "+w.tokens[role])
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.server.Client().Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return reply{response, answer}
}

// object is the answer as a JSON object.
func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(r.body, &object); err != nil {
		t.Fatalf("%s: %v: %s", r.Status, err, r.body)
	}
	return object
}

// refused checks that the answer is a problem with this status and code, and returns it.
func (w world) refused(r reply, status int, code string) map[string]any {
	w.Helper()
	p := r.object(w.T)
	if r.StatusCode != status || p["code"] != code || p["status"] != float64(status) || r.Header.Get("Content-Type") != "application/problem+json" {
		w.Errorf("the answer is %s %s (%s), want %d %s", r.Status, r.body, r.Header.Get("Content-Type"), status, code)
	}
	return p
}

// letters records deaths of jobs that can be run again.
func (w world) letters(n int, changes ...func(*pawl.DeadLetter)) []pawl.ID {
	w.Helper()
	kind := pawl.NewKind[json.RawMessage]("mail.v1", pawl.Policy{})
	all, ids := make([]pawl.DeadLetter, n), make([]pawl.ID, n)
	for i := range all {
		job, err := kind.New(w.Context(), w.store.Connection(), json.RawMessage(`{"to":"ada@example.org"}`))
		if err != nil {
			w.Fatal(err)
		}
		ids[i] = pawl.LetterID("default", job.ID, 1)
		all[i] = pawl.DeadLetter{
			ID: ids[i], JobID: job.ID, Connection: "default", Queue: job.Queue, Kind: job.Kind, Envelope: job.Envelope,
			ExceptionType: "*net.OpError", Message: "no answer from ada@example.org", Detail: "stack of ada@example.org", Attempts: 6,
			Reason: pawl.ReasonBudget, Fingerprint: "1-abc", History: []pawl.AttemptRecord{{Attempt: 1, Ending: pawl.EndReturned, Message: "ada@example.org"}},
		}
		for _, change := range changes {
			change(&all[i])
		}
	}
	if _, err := w.store.RecordDeaths(w.Context(), all); err != nil {
		w.Fatal(err)
	}
	return ids
}
