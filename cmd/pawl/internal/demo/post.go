package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// profileClient posts profiles to the downstream.
type profileClient struct {
	url    string
	client *http.Client
}

// answerError is an answer that is not a success.
type answerError struct {
	Status  int
	Problem string // the beginning of the answer's text
}

func (e *answerError) Error() string {
	return fmt.Sprintf("the downstream answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Problem)
}

// post returns nil when the downstream has taken the profile. The key is the job's id, so that the downstream can
// recognise a repeat.
func (c profileClient) post(ctx context.Context, p profile, key string) error {
	body, err := json.Marshal(p)
	if err != nil {
		return pawl.Permanent(fmt.Errorf("encode profile: %w", err))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+profilesPath, bytes.NewReader(body))
	if err != nil {
		return pawl.Permanent(fmt.Errorf("post profile: %w", err))
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(keyHeader, key)
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("post profile: %w", err) // the network's fault: says nothing, so it is tried again
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 500))
	if err != nil {
		return fmt.Errorf("post profile: read answer: %w", err)
	}
	if err := classifyAnswer(response.StatusCode, response.Header, text, time.Now()); err != nil {
		return fmt.Errorf("post profile: %w", err)
	}
	return nil
}

// classifyAnswer says what an HTTP status means for another try (RFC 9110, section 15): 408, 423, 425, 429 and 5xx may
// pass, but for 501 and 505; other 4xx will not. Retry-After is honoured. Redirects and the like are answers that
// nobody has planned for; they are tried again.
func classifyAnswer(status int, header http.Header, text []byte, now time.Time) error {
	if status >= 200 && status <= 299 {
		return nil
	}
	err := &answerError{status, strings.ToValidUTF8(strings.TrimSpace(string(text)), "\uFFFD")}
	switch {
	case status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported:
		return pawl.Permanent(err)
	case status == http.StatusRequestTimeout, status == http.StatusLocked, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500:
		return pawl.RetryAfter(err, retryAfter(header.Get("Retry-After"), now))
	case status >= 400:
		return pawl.Permanent(err)
	}
	return pawl.Transient(err)
}

// retryAfter reads seconds or an HTTP date (RFC 9110, section 10.2.3), at most an hour; 0 where there is neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, time.Hour)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), time.Hour)
	}
	return 0
}
