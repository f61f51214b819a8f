package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// HTTPRequest is the kind of a job that makes one HTTP request. A status from 200 to 299 is a success. Others, and
// failures of the network, are retried or not as package classify says: 503 is retried, after what its Retry-After asks
// for, and 400 is not. A redirect is not followed.
var HTTPRequest = pawl.NewKind[HTTPRequestArgs]("http.request.v1", pawl.Policy{})

// HTTPRequestArgs say what is requested. They are stored and shown: what is secret does not belong here.
type HTTPRequestArgs struct {
	// Method is GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS. Default: POST with a body, else GET.
	Method string `json:"method,omitempty"`
	// URL is absolute, https unless the host allows http, without user and password.
	URL string `json:"url"`
	// Headers are sent as they are. Idempotency-Key is the job's id unless it is here; Host, and those that say how a
	// message is transferred, are refused.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as it is.
	Body string `json:"body,omitempty"`
	// JSON is sent as it is, as application/json, in the place of a Body.
	JSON json.RawMessage `json:"json,omitempty"`
}

// UnmarshalJSON refuses what it does not know: a misspelt name would otherwise be a request that differs from what was
// meant.
func (a *HTTPRequestArgs) UnmarshalJSON(text []byte) error {
	type plain HTTPRequestArgs
	return decodeStrictly(text, (*plain)(a))
}

func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// ours are headers that the transport sets itself, or that would lead a request elsewhere than its URL says.
var ours = []string{
	"Host", "Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// request makes the request of a job, or says which of its args breaks which rule.
func (a HTTPRequestArgs) request(key string) (*http.Request, error) {
	if a.Body != "" && len(a.JSON) > 0 {
		return nil, &pawl.FieldError{Field: "body", Value: "with json", Rule: "must not be given with json"}
	}
	method := a.Method
	body := a.JSON
	if len(body) == 0 {
		body = []byte(a.Body)
	}
	switch {
	case method == "" && len(body) > 0:
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	case !slices.Contains(methods, method):
		return nil, &pawl.FieldError{Field: "method", Value: method, Rule: "must be one of " + strings.Join(methods, ", ")}
	}
	target, err := parseTarget(a.URL)
	if err != nil {
		return nil, err
	}
	request := &http.Request{Method: method, URL: target, Host: target.Host, Header: http.Header{
		"Idempotency-Key": {key}, "User-Agent": {"pawl"},
	}}
	if len(a.JSON) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if err := a.addHeaders(request.Header); err != nil {
		return nil, err
	}
	setBody(request, body)
	return request, nil
}

// parseTarget shows of a URL that it refuses at most the scheme and the host.
func parseTarget(text string) (*url.URL, error) {
	target, err := url.Parse(text)
	if err != nil {
		return nil, &pawl.FieldError{Field: "url", Value: "(not shown)", Rule: "must be a URL"}
	}
	refuse := func(rule string) (*url.URL, error) {
		return nil, &pawl.FieldError{Field: "url", Value: target.Scheme + "://" + target.Host, Rule: rule}
	}
	switch {
	case target.Opaque != "" || target.Hostname() == "":
		return refuse("must be an absolute URL such as https://api.example.com/orders")
	case target.User != nil:
		return refuse("must not have a user or password")
	case strings.ContainsFunc(target.Host, func(r rune) bool { return r > '~' || r <= ' ' }):
		return refuse("must have a host of ASCII letters: write another one as its xn-- name")
	}
	target.Fragment, target.RawFragment = "", ""
	return target, nil
}

func (a HTTPRequestArgs) addHeaders(header http.Header) error {
	seen := map[string]bool{}
	for name, value := range a.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isToken(name):
			return &pawl.FieldError{Field: "header", Value: name, Rule: "must have a name of letters, digits and hyphens"}
		case slices.Contains(ours, canonical):
			return &pawl.FieldError{Field: "header", Value: name, Rule: "must not be stated: it is the transport's own"}
		case seen[canonical]:
			return &pawl.FieldError{Field: "header", Value: name, Rule: "must be stated once"}
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return &pawl.FieldError{Field: "header", Value: name, Rule: "must have a value without control characters"}
		}
		seen[canonical] = true
		header.Set(canonical, value)
	}
	return nil
}

// isToken is RFC 9110's token.
func isToken(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r))
	})
}

// setBody lets a request be sent more than once.
func setBody(request *http.Request, body []byte) {
	if len(body) == 0 {
		return
	}
	request.ContentLength = int64(len(body))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	request.Body, _ = request.GetBody()
}

// refused is a request that must not be made.
func refused(format string, args ...any) error { return pawl.Permanent(fmt.Errorf(format, args...)) }
