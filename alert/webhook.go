package alert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reach"
)

// WebhookConfig says where messages about deaths are posted.
type WebhookConfig struct {
	URL          string        // https. Required. It is a secret: whoever has it can post
	Name         string        // of the sink, 1-128 bytes. Default "webhook"
	Secret       []byte        // signs every request, at least 16 bytes; see VerifySignature. Default: no signature
	AllowHTTP    bool          // allows http as well
	AllowPrivate bool          // allows loopback, private and link-local addresses
	Timeout      time.Duration // for a whole delivery. Default 8 s; at most pawl.AlertBudget
	LinkBase     string        // URL of the dashboard, such as https://ops.example.com/jobs; "/dead/" and the letter's id are added. Default: no links
}

// Webhook posts messages. Make one with NewWebhook.
type Webhook struct {
	name     string
	target   *url.URL
	secret   []byte
	timeout  time.Duration
	linkBase string
	client   *http.Client
}

// NewWebhook checks the configuration and returns the sink. It connects to nothing yet. Redirects are not followed, and
// proxies of the environment are not used, since what is behind one could not be checked.
func NewWebhook(config WebhookConfig) (*Webhook, error) {
	w, err := newWebhook(config)
	if err != nil {
		return nil, fmt.Errorf("configure webhook alerts: %w", err)
	}
	return w, nil
}

func newWebhook(config WebhookConfig) (*Webhook, error) {
	w := &Webhook{secret: bytes.Clone(config.Secret), linkBase: config.LinkBase}
	var err error
	if w.name, err = checkName(config.Name, "webhook"); err != nil {
		return nil, err
	}
	if w.target, err = checkTarget(config.URL, config.AllowHTTP); err != nil {
		return nil, err
	}
	if w.timeout, err = checkTimeout(config.Timeout); err != nil {
		return nil, err
	}
	if len(config.Secret) > 0 && len(config.Secret) < 16 {
		return nil, &pawl.FieldError{Field: "secret", Value: fmt.Sprintf("%d bytes", len(config.Secret)), Rule: "must have at least 16 bytes"}
	}
	dialer := &net.Dialer{}
	if !config.AllowPrivate {
		dialer.Control = reach.PublicOnly
	}
	w.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true, // alerts are rare: nothing is left open between them
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, checkLinkBase(config.LinkBase)
}

// checkTarget shows at most the host of a URL that it refuses.
func checkTarget(text string, allowHTTP bool) (*url.URL, error) {
	target, err := url.Parse(text)
	rule := "must be an https URL"
	if allowHTTP {
		rule = "must be an https or http URL"
	}
	if err != nil {
		return nil, &pawl.FieldError{Field: "url", Value: "(not shown)", Rule: rule}
	}
	if target.Host == "" || target.Scheme != "https" && !(allowHTTP && target.Scheme == "http") {
		return nil, &pawl.FieldError{Field: "url", Value: target.Scheme + "://" + target.Host, Rule: rule}
	}
	return target, nil
}

// Name is the sink's name.
func (w *Webhook) Name() string { return w.name }

// Deliver posts one message. A status from 200 to 299 is a delivery; any other is an error with the status and the
// beginning of the answer, at most 200 bytes. It returns at the latest after the configured timeout or when ctx is done.
func (w *Webhook) Deliver(ctx context.Context, alert pawl.Alert) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	body, err := payload(alert, w.linkBase)
	if err != nil {
		return fmt.Errorf("compose webhook message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.target.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post to %s: %s", w.target.Host, w.redact(inner(err).Error()))
	}
	request.GetBody = nil // one attempt: the transport must not repeat it
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pawl-alert")
	request.Header.Set("Idempotency-Key", idempotencyKey(alert.Key))
	if len(w.secret) > 0 {
		request.Header.Set(SignatureHeader, sign(w.secret, body, time.Now()))
	}
	response, err := w.client.Do(request)
	if err != nil {
		return w.failure(ctx, err)
	}
	defer response.Body.Close()
	return w.judge(response)
}

// failure makes a new error without the URL that net/http puts into its own.
func (w *Webhook) failure(ctx context.Context, err error) error {
	text := oneLine(w.redact(inner(err).Error()), 500)
	if ctx.Err() != nil {
		return fmt.Errorf("post to %s: %w: %s", w.target.Host, context.Cause(ctx), text)
	}
	return fmt.Errorf("post to %s: %s", w.target.Host, text)
}

func (w *Webhook) judge(response *http.Response) error {
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return nil
	}
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	text := fmt.Sprintf("post to %s: status %d", w.target.Host, response.StatusCode)
	if response.StatusCode >= 300 && response.StatusCode <= 399 {
		text += ", a redirect, which is not followed"
	}
	if shown := atMost(oneLine(w.redact(string(answer)), 4<<10), 200); shown != "" {
		text += ": " + shown
	}
	return errors.New(text)
}

// inner takes the URL off an error of net/http.
func inner(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// redact takes out whatever a server or library may have repeated of the URL's secret parts.
func (w *Webhook) redact(text string) string {
	secrets := []string{string(w.secret), w.target.RequestURI(), w.target.RawQuery}
	if w.target.User != nil {
		password, _ := w.target.User.Password()
		secrets = append(secrets, w.target.User.String(), password)
	}
	secrets = append(secrets, strings.Split(w.target.Path, "/")...)
	for _, values := range w.target.Query() {
		secrets = append(secrets, values...)
	}
	for _, secret := range secrets {
		if len(secret) >= 6 {
			text = strings.ReplaceAll(text, secret, "(not shown)")
		}
	}
	return text
}

// idempotencyKey is a header value that is the same for every repeat of a delivery: the key itself where a header can
// hold it, else its hash.
func idempotencyKey(key string) string {
	if escaped := url.QueryEscape(key); len(escaped) <= 200 {
		return escaped
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// atMost cuts at a rune boundary.
func atMost(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
