package classify

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reply"
)

// Fixed limits of Response.
const (
	// MaxRetryAfter is the longest wait that a reply is trusted with.
	MaxRetryAfter = 24 * time.Hour

	maxExcerpt   = 300             // characters of the body that are kept
	maxLookedAt  = 4 << 10         // bytes of the body that the excerpt is made from
	maxDrained   = 64 << 10        // bytes that are read so that the connection can be used again
	maxDrainTime = 2 * time.Second // and how long that may take
)

// HTTPStatus returns the class of a status (RFC 9110): 408, 423, 425, 429 and 5xx are transient, 501, 505 and other 4xx
// permanent. Any other says nothing.
func HTTPStatus(status int) pawl.Class { return reply.Class(status) }

// HTTP knows errors with a method HTTPStatusCode() int, as StatusError and those of the AWS SDK have. For others
// write a rule, such as
//
//	classify.On(func(e *azcore.ResponseError) pawl.Class { return classify.HTTPStatus(e.StatusCode) })
func HTTP(err error) pawl.Class {
	if e, ok := err.(interface{ HTTPStatusCode() int }); ok {
		return HTTPStatus(e.HTTPStatusCode())
	}
	return pawl.ClassUnknown
}

// StatusError is an HTTP response that was no success.
type StatusError struct {
	Status  int
	Method  string // of the request
	URL     string // of the request, without user, password, query and what looks like a secret in its path
	Excerpt string // of the body: one line, at most 300 characters, secrets taken out
}

// Error names the request, the status and the excerpt.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.URL != "" {
		text = e.Method + " " + e.URL + ": " + text
	}
	if e.Excerpt != "" {
		text += ": " + e.Excerpt
	}
	return text
}

// HTTPStatusCode returns the status.
func (e *StatusError) HTTPStatusCode() int { return e.Status }

// Response turns a response into an error that says whether trying again can help:
//
//	response, err := client.Do(request)
//	if err != nil {
//		return err
//	}
//	if err := classify.Response(response); err != nil {
//		return fmt.Errorf("upload avatar: %w", err)
//	}
//	defer response.Body.Close()
//
// Below 300 it is nil, and the body is the caller's to read and close. Otherwise it is a *StatusError in
// the class of HTTPStatus; a redirect that was not followed, and 304, have no class. A transient reply with a header
// Retry-After, in seconds or as a date, becomes a pawl.RetryAfter of at most 24 hours. The body has been closed,
// and up to 64 KiB of it read within two seconds, so that the connection can be used again.
//
// Passwords, tokens and keys that the request carried, and what looks like one, are taken out of the excerpt. Whether
// the rest may be kept as evidence is for the downstream's owner to know.
func Response(response *http.Response) error {
	if response == nil {
		return errors.New("classify response: there is none")
	}
	if response.StatusCode < 300 {
		return nil
	}
	failure := &StatusError{Status: response.StatusCode}
	redact := newRedactor(response.Request)
	if request := response.Request; request != nil && request.URL != nil {
		failure.Method, failure.URL = method(request), redact.url(request.URL)
	}
	failure.Excerpt = redact.excerpt(response.Header, consume(response.Body))
	switch HTTPStatus(response.StatusCode) {
	case pawl.ClassPermanent:
		return pawl.Permanent(failure)
	case pawl.ClassTransient:
		if after, ok := reply.RetryAfter(response.Header, time.Now()); ok {
			return pawl.RetryAfter(failure, min(after, MaxRetryAfter))
		}
		return pawl.Transient(failure)
	}
	return failure
}

// method is what an empty one means.
func method(request *http.Request) string {
	if request.Method == "" {
		return http.MethodGet
	}
	return request.Method
}

// consume returns the beginning of a body, reads some more of it and closes it. A body that comes too slowly is closed
// while it is read.
func consume(body io.ReadCloser) (beginning []byte) {
	if body == nil {
		return nil
	}
	closed := make(chan struct{})
	hurry := time.AfterFunc(maxDrainTime, func() {
		defer close(closed)
		_ = body.Close()
	})
	defer func() {
		if hurry.Stop() {
			_ = body.Close()
			return
		}
		<-closed
	}()
	// An error of the body is nothing beside the status: what arrived before it is the excerpt.
	beginning, err := io.ReadAll(io.LimitReader(body, maxLookedAt))
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxDrained-maxLookedAt))
	}
	return beginning
}
