package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/builtin"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// A host of your own that runs the kind too. The program pawl does this from its configuration.
func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fmt.Println(r.Method, r.URL.Path) }))
	defer server.Close()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "jobs.db"), sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	requests, err := builtin.NewHTTP(builtin.Targets{
		Hosts: []string{"127.0.0.1:*"}, HTTP: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer requests.Close()
	mux := pawl.NewMux()
	pawl.Handle(mux, builtin.HTTPRequest, requests.Handle)
	args := builtin.HTTPRequestArgs{URL: server.URL + "/orders", JSON: json.RawMessage(`{"id": 7}`)}
	if _, err := builtin.HTTPRequest.Enqueue(ctx, store, args); err != nil {
		log.Fatal(err)
	}
	h, err := host.New(store, mux, host.Config{StopWhenEmpty: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	if err := h.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: POST /orders
}
