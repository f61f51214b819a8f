package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// Store is what the API opens to its clients.
type Store interface {
	pawl.Operator
	pawl.Enqueuer
}

// Config says who may come in, and how.
type Config struct {
	// Tokens let clients in. There has to be one at least: without, there is no API.
	Tokens []Token
	// HideFromViewers keeps args and messages from tokens that only look: what may tell of persons.
	HideFromViewers bool
	// Desk puts the jobs of dead letters back. Default: one that knows the store alone.
	Desk *ops.Desk
	// Outboxes are those that clients may look at and act on, by name: boxes of package outbox. Default: none.
	Outboxes map[string]pawl.Outbox
	// Timeout is how long one call may take. Default 30 s; calls about many have four times as long.
	Timeout time.Duration
	// MaxBody is how many bytes a request may have. Default 32 MiB.
	MaxBody int64
	// Version is that of the program, as it is told to clients.
	Version string
	// Logger gets what operators of the server have to know. Default: slog.Default.
	Logger *slog.Logger
}

const (
	defaultTimeout = 30 * time.Second
	slowFactor     = 4
	defaultMaxBody = 32 << 20
	maxMany        = 1000 // jobs or letters in one call
)

// Handler serves the API beneath /api/v1. Make one with New.
type Handler struct {
	store    Store
	desk     *ops.Desk
	boxes    map[string]pawl.Outbox
	tokens   atomic.Pointer[[]Token]
	hide     bool
	timeout  time.Duration
	maxBody  int64
	version  string
	log      *slog.Logger
	failures failures
	document document
	mux      *http.ServeMux
}

// New returns the API of a store.
func New(store Store, c Config) (*Handler, error) {
	if store == nil {
		return nil, &pawl.FieldError{Field: "store", Value: "nil", Rule: "must be a store"}
	}
	if len(c.Tokens) == 0 {
		return nil, &pawl.FieldError{Field: "tokens", Value: "", Rule: "must be at least one: without, there is no API"}
	}
	if c.Timeout < 0 || c.MaxBody < 0 {
		return nil, &pawl.FieldError{Field: "timeout and max body", Value: fmt.Sprint(c.Timeout, c.MaxBody), Rule: "must not be negative"}
	}
	for name, box := range c.Outboxes {
		if err := checkOutbox(name, box); err != nil {
			return nil, err
		}
	}
	h := &Handler{
		store: store, desk: c.Desk, boxes: maps.Clone(c.Outboxes), hide: c.HideFromViewers, timeout: c.Timeout,
		maxBody: c.MaxBody, version: c.Version, log: c.Logger, mux: http.NewServeMux(),
	}
	if h.desk == nil {
		desk, err := ops.New(store, nil)
		if err != nil {
			return nil, err
		}
		h.desk = desk
	}
	if h.timeout == 0 {
		h.timeout = defaultTimeout
	}
	if h.maxBody == 0 {
		h.maxBody = defaultMaxBody
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if err := h.Allow(c.Tokens); err != nil {
		return nil, err
	}
	served := table()
	document, err := describe(served)
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	h.document = document
	h.mount(served)
	return h, nil
}

// Allow replaces the tokens, while the API is served. Without any the API is as if it were not there.
func (h *Handler) Allow(tokens []Token) error {
	if err := checkTokens(tokens); err != nil {
		return err
	}
	tokens = slices.Clone(tokens)
	h.tokens.Store(&tokens)
	return nil
}

// served is a route with its work.
type served struct {
	route
	serve func(h *Handler, c call, w http.ResponseWriter, r *http.Request) error
}

// call is one request of one client.
type call struct {
	token Token
	hide  bool // args and messages
}

// by is who acts, for the audit trail: the token, and the person that it says it acts for.
func (c call) by(a acting) pawl.By {
	who := c.token.Name
	if a.By != "" {
		who += "/" + a.By
	}
	return pawl.By{Who: who, Door: "api", Why: a.Reason}
}

// on gives a route its work.
func on[In, Out any](e endpoint[In, Out], work func(h *Handler, ctx context.Context, c call, in In) (Out, error)) served {
	return served{e.route, func(h *Handler, c call, w http.ResponseWriter, r *http.Request) error {
		var in In
		if err := h.read(w, r, e.route, &in); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), h.limit(e.route))
		defer cancel()
		out, err := work(h, ctx, c, in)
		if err != nil {
			return err
		}
		return h.answer(w, out)
	}}
}

func (h *Handler) limit(r route) time.Duration {
	if r.slow {
		return slowFactor * h.timeout
	}
	return h.timeout
}

// mount gives every path its methods.
func (h *Handler) mount(table []served) {
	paths := map[string][]served{}
	for _, s := range table {
		paths[s.path] = append(paths[s.path], s)
	}
	for at, methods := range paths {
		h.mux.Handle(prefix+at, h.methods(methods))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := h.authenticate(r); !ok {
			h.refuseStranger(w, r)
			return
		}
		h.refuse(w, r, &Error{Status: http.StatusNotFound, Code: codeNoRoute, Detail: fmt.Sprintf("there is no %s: see %s/openapi.json", asked(r), prefix)})
	})
}

func (h *Handler) methods(routes []served) http.Handler {
	var allowed []string
	for _, s := range routes {
		allowed = append(allowed, s.method)
		if s.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := h.authenticate(r)
		if !ok {
			h.refuseStranger(w, r)
			return
		}
		for _, s := range routes {
			if s.method == r.Method || s.method == http.MethodGet && r.Method == http.MethodHead {
				h.serve(s, token, w, r)
				return
			}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		h.refuse(w, r, &Error{Status: http.StatusMethodNotAllowed, Code: codeMethod, Detail: fmt.Sprintf("%s takes %s, not %s", r.URL.Path, strings.Join(allowed, ", "), r.Method)})
	})
}

func (h *Handler) serve(s served, token Token, w http.ResponseWriter, r *http.Request) {
	if !token.Role.may(s.route) {
		h.refuse(w, r, &Error{
			Status: http.StatusForbidden, Code: codeForbidden,
			Detail: fmt.Sprintf("token %s has the role %s: to %s it needs the role %s", token.Name, token.Role, s.deed(), s.needs),
		})
		return
	}
	// The server's own limits are for health checks: a body takes longer to come in, and an answer to be made.
	control := http.NewResponseController(w)
	patience := time.Now().Add(h.limit(s.route) + 10*time.Second)
	_, _ = control.SetReadDeadline(patience), control.SetWriteDeadline(patience) // not every ResponseWriter has them
	err := s.serve(h, call{token, h.hide && token.Role == RoleViewer}, w, r)
	if err == nil {
		return
	}
	refusal := asError(err)
	if refusal.Status >= http.StatusInternalServerError {
		h.log.Warn("api: a call failed", "route", s.name, "token", token.Name, "error", err)
		if token.Role == RoleEnqueue && refusal.field == nil {
			refusal.Detail = "the store has failed: the server's log says more"
		}
	}
	h.refuse(w, r, refusal)
}

// Serves reports that a request is for the API, where a server has other things too.
func Serves(r *http.Request) bool {
	return r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/")
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(*h.tokens.Load()) == 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch escaped := r.URL.EscapedPath(); {
	case escaped == prefix+"/":
		r = at(r, prefix)
	case path.Clean(escaped) != escaped:
		r = at(r, "/") // the mux would answer with a redirect
	}
	h.mux.ServeHTTP(w, r)
}

// asked is the path of the request as the client has sent it.
func asked(r *http.Request) string {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return sent.Path
	}
	return r.URL.Path
}

func at(r *http.Request, path string) *http.Request {
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = path, ""
	return r
}

// read fills in from the path, the query and the body.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, to route, in any) error {
	if err := readParams(r, in); err != nil {
		return err
	}
	if to.method == http.MethodGet {
		return nil
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return &Error{Status: http.StatusUnsupportedMediaType, Code: codeMediaType, Detail: fmt.Sprintf("the body is %q: it must be application/json", kind)}
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge,
			Detail: fmt.Sprintf("the body has more than %d bytes: send less at a time", h.maxBody),
			field:  &pawl.FieldError{Field: "body", Value: "", Rule: fmt.Sprintf("must have at most %d bytes", h.maxBody)},
		}
	}
	if err != nil { // the client's doing, as a connection is that ends early
		return &pawl.FieldError{Field: "body", Value: fmt.Sprint(err), Rule: "must come whole, in time and well formed"}
	}
	if len(bodyFields(reflect.TypeOf(in).Elem())) == 0 && len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	return decodeBody(body, in)
}

// answer writes what was asked for.
func (h *Handler) answer(w http.ResponseWriter, out any) error {
	body, err := wire.Encode(out)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created, ok := out.(interface{ status() int }); ok {
		status = created.status()
	}
	h.write(w, status, "application/json", body)
	return nil
}

// refuse writes a problem.
func (h *Handler) refuse(w http.ResponseWriter, _ *http.Request, e *Error) {
	if e.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.after+time.Second-1)/time.Second)))
	}
	body, err := wire.Encode(e.problem())
	if err != nil {
		h.log.Error("api: a problem cannot be told", "error", err)
	}
	h.write(w, e.Status, "application/problem+json", body)
}

func (h *Handler) write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone, if it fails
}
