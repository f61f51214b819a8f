package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// ClientConfig says how a client gets to its server. The zero value is fine.
type ClientConfig struct {
	// HTTP sends the requests. Default: a client of its own that gives up after three minutes. Redirects are not followed,
	// whatever it says: they would lead a token elsewhere.
	HTTP *http.Client
	// InsecureHTTP lets the token travel unencrypted to another machine. Without, http:// is for this machine alone.
	InsecureHTTP bool
}

// Client operates a store over the network. It is a pawl.Operator and a pawl.Enqueuer, and has the methods of ops.Desk,
// each of which is one call on the server. It may be used by several goroutines.
//
// Calls that are as good when done twice are tried again, twice, when the server could not be reached or was busy. The
// others are not; their error says when it is not known whether they were done.
type Client struct {
	base       string
	token      string
	http       *http.Client
	own        *http.Transport // closed with the client
	connection pawl.Connection
	about      about
	desk       *ops.Desk // over the client itself, for what takes several calls
}

const (
	defaultClientTimeout = 3 * time.Minute
	tries                = 3
	firstPause           = 200 * time.Millisecond
	longestPause         = 5 * time.Second // that a server may ask for
	maxAnswer            = 256 << 20
)

// Dial returns a client of the API at an address such as https://pawl.example.org, once the server there has said that it
// knows the token.
func Dial(ctx context.Context, address, token string, c ClientConfig) (*Client, error) {
	base, err := baseOf(address, c.InsecureHTTP)
	if err != nil {
		return nil, err
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, &pawl.FieldError{Field: "token", Value: "", Rule: "must be given, without spaces or control characters"}
	}
	client := &Client{base: base, token: token}
	if c.HTTP != nil {
		given := *c.HTTP
		client.http = &given
	} else {
		client.own = http.DefaultTransport.(*http.Transport).Clone()
		client.http = &http.Client{Transport: client.own, Timeout: defaultClientTimeout}
	}
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.about, err = send(ctx, client, aboutRoute, none{}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	client.connection = pawl.Connection{Name: client.about.Connection, Policy: client.about.Policy.Read()}
	client.desk, err = ops.New(client, nil)
	return client, err
}

// baseOf reads the address of a server. What is shown of it in an error has no password.
func baseOf(address string, insecure bool) (string, error) {
	refused := func(rule string) error {
		shown, _, _ := strings.Cut(address, "?")
		if at := strings.LastIndex(shown, "@"); at >= 0 {
			shown = "…" + shown[at:]
		}
		return &pawl.FieldError{Field: "address", Value: shown, Rule: rule}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", refused("must be a URL such as https://pawl.example.org")
	case u.User != nil:
		return "", refused("must carry no user or password: the token lets the client in")
	case u.RawQuery != "" || u.Fragment != "":
		return "", refused("must have no query and no fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return "", refused("must be https:// for another machine: the token would be seen on its way")
	}
	return strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), prefix) + prefix, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Address is the URL of the server.
func (c *Client) Address() string { return strings.TrimSuffix(c.base, prefix) }

// TokenName and Role are what the server knows the client's token as.
func (c *Client) TokenName() string { return c.about.Token }

// Role is what the client's token may do.
func (c *Client) Role() Role { return c.about.Role }

// Connection names the store behind the server, and what jobs inherit there.
func (c *Client) Connection() pawl.Connection { return c.connection }

// Close lets go of connections that are idle. An http.Client that was handed in is left alone.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// spliced is what has a field that must reach the server byte for byte.
type spliced interface {
	splice() (body any, name string, raw json.RawMessage)
}

func encodeBody(in any) ([]byte, error) {
	s, ok := in.(spliced)
	if !ok {
		return wire.Encode(in)
	}
	body, name, raw := s.splice()
	encoded, err := wire.Encode(body)
	if err != nil || raw == nil {
		return encoded, err
	}
	out := bytes.TrimSuffix(bytes.TrimSpace(encoded), []byte("}"))
	if len(out) > 1 {
		out = append(out, ',')
	}
	return fmt.Appendf(out, "%q:%s}", name, raw), nil
}

// send does one call, again where that makes sense.
func send[In, Out any](ctx context.Context, c *Client, e endpoint[In, Out], in In) (out Out, err error) {
	var body []byte
	if e.method != http.MethodGet {
		if body, err = encodeBody(in); err != nil {
			return out, err
		}
	}
	at := c.base + writeParams(e.path, in)
	for try := 1; ; try++ {
		answer, err := c.exchange(ctx, e.route, at, body)
		if err == nil {
			if err = json.Unmarshal(answer, &out); err != nil {
				err = fmt.Errorf("%s %s: the answer does not fit: %w", e.method, at, err)
			}
			return out, err
		}
		pause, again := pauseBefore(err, try)
		if !e.repeats || !again || try == tries {
			return out, e.told(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return out, e.told(err)
		}
	}
}

// unreached is a failure to get an answer from the API.
type unreached struct {
	err    error
	status int  // of an answer that was none of the API; 0: none at all
	unsent bool // the server has not seen the request
	after  time.Duration
}

func (u *unreached) Error() string { return u.err.Error() }
func (u *unreached) Unwrap() error { return u.err }

// told adds to a failure that nobody knows what became of the call.
func (r route) told(err error) error {
	var lost *unreached
	if r.repeats || !errors.As(err, &lost) || lost.unsent {
		return err
	}
	return fmt.Errorf("%w (whether it was done is not known)", err)
}

// pauseBefore says whether a failure may pass by itself, and how long to wait for that.
func pauseBefore(err error, try int) (time.Duration, bool) {
	pause := firstPause << (2 * (try - 1))
	pause += rand.N(pause / 2)
	var lost *unreached
	var refused *Error
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return 0, false
	case errors.As(err, &lost):
		gateway := lost.status == http.StatusBadGateway || lost.status == http.StatusServiceUnavailable || lost.status == http.StatusGatewayTimeout
		return max(pause, lost.after), (lost.status == 0 || gateway) && lost.after <= longestPause
	case errors.As(err, &refused) && (errors.Is(err, pawl.ErrBusy) || refused.Code == codeThrottled):
		return max(pause, refused.after), refused.after <= longestPause
	}
	return 0, false
}

// exchange sends one request, and reads the answer.
func (c *Client) exchange(ctx context.Context, r route, at string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, at, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, at, err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		var network *net.OpError
		return nil, &unreached{err: err, unsent: errors.As(err, &network) && network.Op == "dial"}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, &unreached{err: fmt.Errorf("%s %s: %w", r.method, at, err)}
	}
	return readAnswer(r, at, response, answer)
}

// readAnswer tells an answer of the API from one of whatever else is at that address.
func readAnswer(r route, at string, response *http.Response, answer []byte) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	after := time.Duration(seconds) * time.Second
	if response.StatusCode/100 == 2 && kind == "application/json" {
		return answer, nil
	}
	var p problem
	if kind == "application/problem+json" && json.Unmarshal(answer, &p) == nil && p.Code != "" {
		refused := p.error()
		refused.Status, refused.after = response.StatusCode, after
		if refused.Code == codeUnauthorized || refused.Code == codeForbidden || refused.Code == codeNoRoute || refused.Code == codeThrottled {
			return nil, fmt.Errorf("%s %s: %w", r.method, at, refused)
		}
		return nil, refused
	}
	if kind == "" {
		kind = "no content type"
	}
	where := "check the address, and what stands before the server"
	if response.StatusCode == http.StatusNotFound {
		where += "; a server for which no token is configured has no API"
	}
	return nil, &unreached{status: response.StatusCode, after: after, err: fmt.Errorf(
		"%s %s: status %s with %s is no answer of Pawl's API: %s", r.method, at, response.Status, kind, where)}
}
