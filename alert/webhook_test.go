package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
)

const secretPath = "/services/T0001/B0002/abcdefSECRET"

type received struct {
	header http.Header
	body   []byte
}

// receiver answers with the status and keeps the requests.
func receiver(t *testing.T, status int, answer string) (target string, requests chan received) {
	t.Helper()
	requests = make(chan received, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s, %v", r.Method, err)
		}
		requests <- received{r.Header, body}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL + secretPath, requests
}

func newWebhook(t *testing.T, target string, change func(*alert.WebhookConfig)) *alert.Webhook {
	t.Helper()
	config := alert.WebhookConfig{URL: target, AllowHTTP: true, AllowPrivate: true, LinkBase: "https://ops.example.com/jobs"}
	if change != nil {
		change(&config)
	}
	sink, err := alert.NewWebhook(config)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// post delivers and returns the one request, and the text that Slack and Discord show.
func post(t *testing.T, change func(*alert.WebhookConfig), letters ...pawl.DeadLetter) (received, string) {
	t.Helper()
	target, requests := receiver(t, http.StatusNoContent, "")
	if err := newWebhook(t, target, change).Deliver(t.Context(), oneAlert(letters...)); err != nil {
		t.Fatal(err)
	}
	if len(requests) != 1 {
		t.Fatalf("%d requests", len(requests))
	}
	request := <-requests
	var body struct {
		Text, Content string
		Mentions      struct{ Parse []string } `json:"allowed_mentions"`
	}
	if err := json.Unmarshal(request.body, &body); err != nil {
		t.Fatal(err)
	}
	if body.Text != body.Content || body.Mentions.Parse == nil || len(body.Mentions.Parse) != 0 {
		t.Errorf("body %s", request.body)
	}
	return request, body.Text
}

func TestWebhookTellsWhatDied(t *testing.T) {
	t.Parallel()
	died := letter()
	request, text := post(t, nil, died)
	wantText(t, text, "`email.verification.v1`", "transient-exhausted, budget", "6 attempts", "`*net.OpError`",
		died.ID.String(), died.JobID.String(), "https://ops.example.com/jobs/dead/"+died.ID.String())
	for _, hidden := range []string{died.Message, "10.0.0.9", "secret args", "chain and stack"} {
		if strings.Contains(string(request.body), hidden) {
			t.Errorf("the message shows %q: %s", hidden, request.body)
		}
	}
	if request.header.Get("Idempotency-Key") != "alert-1" || request.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", request.header)
	}
	if request.header.Get(alert.SignatureHeader) != "" {
		t.Error("signed without a secret")
	}
}

func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	request, _ := post(t, func(c *alert.WebhookConfig) { c.Secret = secret }, letter())
	header := request.header.Get(alert.SignatureHeader)
	if err := alert.VerifySignature(secret, header, request.body, time.Minute); err != nil {
		t.Errorf("%q does not verify: %v", header, err)
	}
	for name, err := range map[string]error{
		"body":   alert.VerifySignature(secret, header, append(request.body, ' '), time.Minute),
		"secret": alert.VerifySignature([]byte("0123456789abcdeg"), header, request.body, time.Minute),
		"time":   alert.VerifySignature(secret, strings.Replace(header, "t=1", "t=2", 1), request.body, time.Minute),
		"old":    alert.VerifySignature(secret, header, request.body, -1),
		"empty":  alert.VerifySignature(secret, "", request.body, time.Minute),
		"none":   alert.VerifySignature(nil, header, request.body, time.Minute),
	} {
		if err == nil {
			t.Errorf("a wrong %s verifies", name)
		}
	}
}

// The example of the documented format, worked out with another tool: printf '1767225600.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
func TestSignatureFormat(t *testing.T) {
	t.Parallel()
	header := "t=1767225600,v1=" + signatureOfEmptyObject
	if err := alert.VerifySignature([]byte("0123456789abcdef"), header, []byte("{}"), 100*365*24*time.Hour); err != nil {
		t.Error(err)
	}
}

func TestWebhookMentionsNobody(t *testing.T) {
	t.Parallel()
	died := letter()
	died.Kind = "@everyone <!here> `@here"
	died.ExceptionType = "<@U024BE7LH> <http://thief.example.com|click>"
	died.Queue = "<!channel>\n@here [click](http://thief.example.com)"
	died.Reason = "<!subteam^S1> @everyone"
	_, text := post(t, nil, died)
	for _, live := range []string{"@everyone", "@here", "<", ">", "<@U"} {
		if strings.Contains(text, live) {
			t.Errorf("%q is alive in %q", live, text)
		}
	}
	if strings.Count(text, "`") != 6 || !strings.Contains(text, "`‹!channel› @\u200bhere [click]") {
		t.Errorf("a code span was left: %q", text)
	}
}

func TestWebhookIsNeverTooLong(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 12, 20, 21, 400} {
		var letters []pawl.DeadLetter
		for range count {
			died := letter()
			died.Kind, died.Queue, died.ExceptionType = strings.Repeat("𝕏", 200), strings.Repeat("@", 128), strings.Repeat("é", 500)
			letters = append(letters, died)
		}
		_, text := post(t, nil, letters...)
		if units := len(utf16.Encode([]rune(text))); units > 2000 || utf8.RuneCountInString(text) > 2000 {
			t.Errorf("%d letters: %d characters", count, units)
		}
		shown, more := strings.Count(text, "letter "), 0
		if i := strings.LastIndex(text, "… and "); i >= 0 {
			if _, err := fmt.Sscanf(text[i:], "… and %d more", &more); err != nil {
				t.Error(err)
			}
		}
		if shown < 1 || shown+more != count {
			t.Errorf("%d letters: %d shown and %d more", count, shown, more)
		}
	}
}

func TestWebhookShowsAllThatFits(t *testing.T) {
	t.Parallel()
	_, text := post(t, func(c *alert.WebhookConfig) { c.LinkBase = "" }, letter(), letter(), letter())
	if strings.Count(text, "letter ") != 3 || strings.Contains(text, "more") {
		t.Errorf("of three short letters some are missing: %q", text)
	}
}

func TestWebhookRefusal(t *testing.T) {
	t.Parallel()
	answer := "no such hook " + secretPath + " signed with 0123456789abcdef " + strings.Repeat("é", 500)
	target, requests := receiver(t, http.StatusInternalServerError, answer)
	sink := newWebhook(t, target, func(c *alert.WebhookConfig) { c.Secret = []byte("0123456789abcdef") })
	err := sink.Deliver(t.Context(), oneAlert(letter()))
	if err == nil || !strings.Contains(err.Error(), "status 500: no such hook") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "0123456789") {
		t.Errorf("the error shows a secret: %v", err)
	}
	if len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	if len(requests) != 1 {
		t.Errorf("%d requests", len(requests))
	}
}

func TestWebhookFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere, followed := receiver(t, http.StatusOK, "")
		server := httptest.NewServer(http.RedirectHandler(elsewhere, status))
		t.Cleanup(server.Close)
		err := newWebhook(t, server.URL, nil).Deliver(t.Context(), oneAlert(letter()))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%d: got %v", status, err)
		}
		if len(followed) != 0 {
			t.Errorf("%d was followed", status)
		}
	}
}

func TestWebhookRefusesPrivateTargets(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "192.168.1.1", "169.254.169.254", "127.1.2.3"} {
		sink := newWebhook(t, "http://"+host+":"+port+"/k3y", func(c *alert.WebhookConfig) { c.AllowPrivate = false })
		err := sink.Deliver(t.Context(), oneAlert(letter()))
		if err == nil || !strings.Contains(err.Error(), "not a public one") || strings.Contains(err.Error(), "k3y") {
			t.Errorf("%s: got %v", host, err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d requests came through", hits.Load())
	}
}

func TestWebhookTimeout(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	sink := newWebhook(t, server.URL+secretPath, func(c *alert.WebhookConfig) { c.Timeout = 50 * time.Millisecond })
	err := sink.Deliver(t.Context(), oneAlert(letter()))
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v", err)
	}
}

func TestWebhookConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*alert.WebhookConfig){
		"http":       func(c *alert.WebhookConfig) { c.URL = "http://chat.example.com" + secretPath },
		"scheme":     func(c *alert.WebhookConfig) { c.URL, c.AllowHTTP = "ftp://chat.example.com"+secretPath, true },
		"no host":    func(c *alert.WebhookConfig) { c.URL = "https://" + secretPath },
		"not a url":  func(c *alert.WebhookConfig) { c.URL = "https://chat.example.com" + secretPath + "\x00" },
		"empty":      func(c *alert.WebhookConfig) { c.URL = "" },
		"secret":     func(c *alert.WebhookConfig) { c.Secret = []byte("SECRET") },
		"timeout":    func(c *alert.WebhookConfig) { c.Timeout = time.Minute },
		"link":       func(c *alert.WebhookConfig) { c.LinkBase = "https://me:SECRET@ops.example.com" },
		"link bytes": func(c *alert.WebhookConfig) { c.LinkBase = "https://ops.example.com/" + strings.Repeat("x", 500) },
		"name":       func(c *alert.WebhookConfig) { c.Name = "chat\n" },
	} {
		config := alert.WebhookConfig{URL: "https://chat.example.com" + secretPath}
		change(&config)
		_, err := alert.NewWebhook(config)
		var field *pawl.FieldError
		if !errors.As(err, &field) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	sink, err := alert.NewWebhook(alert.WebhookConfig{URL: "https://chat.example.com" + secretPath})
	if err != nil || sink.Name() != "webhook" {
		t.Errorf("the smallest configuration gives %v", err)
	}
}

const signatureOfEmptyObject = "99902517b3069f78750aa0520b0493482454c2d30a579c7acc839f3363ca1b88"
