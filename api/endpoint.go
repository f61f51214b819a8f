package api

import (
	"net/http"
	"reflect"
	"strings"
)

// Version is the version of the paths. What is served under it only ever grows.
const Version = "v1"

const prefix = "/api/" + Version

// endpoint is one route as both sides know it, so that client and server cannot drift apart: In is what it takes (its
// fields are in the path, the query or the body, as their tags say), Out what it answers.
type endpoint[In, Out any] struct{ route }

// route is an endpoint without its types.
type route struct {
	name     string // as the client's method, and in the description
	method   string
	path     string // beneath the prefix, with the names of In's path fields in braces
	needs    Role
	enqueues bool // tokens that only enqueue may use it too
	// repeats says that doing it twice is as good as once, so a client may try again.
	repeats bool
	slow    bool // it may take longer than others
	creates bool // it answers 201 when something new was stored
	doc     string
	in, out reflect.Type
}

// deed says in words what a route does: "set a kind's switch".
func (r route) deed() string {
	deed := r.doc
	if end := strings.IndexAny(deed, ".,:;"); end >= 0 {
		deed = deed[:end]
	}
	return strings.ToLower(deed[:1]) + deed[1:]
}

// in describes a route.
func to[In, Out any](r route) endpoint[In, Out] {
	r.in, r.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	if r.method == "" {
		r.method = http.MethodGet
	}
	r.repeats = r.repeats || r.method == http.MethodGet || r.method == http.MethodPut
	return endpoint[In, Out]{r}
}

// none is what a route takes, or answers, when that is nothing.
type none struct{}

// acting is in the body of everything that changes something.
type acting struct {
	By     string `json:"by,omitempty" doc:"the person who acts, where that is not the token itself: the audit trail says TOKEN/PERSON"`
	Reason string `json:"reason,omitempty" doc:"why, for the audit trail"`
}
