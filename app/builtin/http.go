package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

// mostDownstreams is how many hosts have a circuit breaker of their own at a time.
const mostDownstreams = 256

// HTTP handles HTTPRequest.
type HTTP struct {
	log *slog.Logger
	now atomic.Pointer[caller]
}

// caller makes requests under one set of rules. Its connections are its own, so that none outlives them.
type caller struct {
	*targets
	transport *http.Transport
	log       *slog.Logger

	mu          sync.Mutex
	downstreams map[string]*downstream
	tick        uint64
}

// downstream is a host that is called.
type downstream struct {
	client *http.Client
	used   uint64
}

// NewHTTP returns a handler of HTTPRequest. A nil logger is slog.Default().
func NewHTTP(t Targets, log *slog.Logger) (*HTTP, error) {
	if log == nil {
		log = slog.Default()
	}
	h := &HTTP{log: log}
	return h, h.Allow(t)
}

// Allow says anew what may be reached, from the next request on. Targets that break a rule change nothing.
func (h *HTTP) Allow(t Targets) error {
	checked, err := t.checked()
	if err != nil {
		return fmt.Errorf("configure %s: %w", HTTPRequest.Name(), err)
	}
	before := h.now.Load()
	if before != nil && reflect.DeepEqual(before.Targets, t) {
		return nil
	}
	h.now.Store(newCaller(checked, h.log))
	if before != nil {
		before.transport.CloseIdleConnections()
	}
	return nil
}

// Close closes the connections that are kept.
func (h *HTTP) Close() { h.now.Load().transport.CloseIdleConnections() }

func newCaller(t *targets, log *slog.Logger) *caller {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: t.control}
	return &caller{targets: t, log: log, downstreams: map[string]*downstream{}, transport: &http.Transport{
		DialContext:            dialer.DialContext, // and no proxy, since what is behind one could not be looked at
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    20,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// Handle makes the request of one job.
func (h *HTTP) Handle(ctx context.Context, args HTTPRequestArgs) error {
	key := ""
	if job := pawl.FromContext(ctx); job != nil {
		key = job.ID.String()
	}
	request, err := args.request(key)
	if err != nil {
		return pawl.Permanent(fmt.Errorf("http request: %w", err))
	}
	now := h.now.Load()
	if err := now.allow(request.URL); err != nil {
		return fmt.Errorf("http request: %w", err)
	}
	client, err := now.client(request.URL.Scheme + "://" + request.URL.Host)
	if err != nil {
		return fmt.Errorf("http request: %w", err)
	}
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("http request: %w", bare(err))
	}
	if err := classify.Response(response); err != nil {
		if response.StatusCode < http.StatusBadRequest {
			err = fmt.Errorf("%w (redirects are not followed)", err)
		}
		return fmt.Errorf("http request: %w", err)
	}
	discard(response, now.MaxResponse)
	return nil
}

// discard reads as much of a response as is allowed, so that its connection can be used again. What is longer, or breaks
// off, is no failure: the status was the answer.
func discard(response *http.Response, most int64) {
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, most))
	_ = response.Body.Close()
}

// client returns the host's own, with its circuit breaker. Of too many hosts, the one that was called the longest ago
// begins anew.
func (c *caller) client(host string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	if d := c.downstreams[host]; d != nil {
		d.used = c.tick
		return d.client, nil
	}
	made, err := resilience.New(cutName(host), resilience.Options{
		Classifiers: []pawl.Classifier{classify.Default()}, Transport: c.transport, Logger: c.log,
	})
	if err != nil {
		return nil, err
	}
	if len(c.downstreams) >= mostDownstreams {
		oldest := ""
		for name, d := range c.downstreams {
			if oldest == "" || d.used < c.downstreams[oldest].used {
				oldest = name
			}
		}
		delete(c.downstreams, oldest)
	}
	client := made.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.downstreams[host] = &downstream{client: client, used: c.tick}
	return client, nil
}

// cutName fits a host into the name of a downstream.
func cutName(host string) string { return host[:min(len(host), 128)] }

// bare is an error of a call without its URL, whose query may hold a secret.
func bare(err error) error {
	var call *url.Error
	if errors.As(err, &call) && call.Err != nil {
		return call.Err
	}
	return err
}
