package alert_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
)

// aDigest tells of 1,243 deaths in 23 groups, of which it lists two; the second had been resolved.
func aDigest() pawl.Alert {
	many, few := letter(), letter()
	few.Kind, few.ExceptionType = "ledger.credit.v1", "*ledger.ClosedError"
	first, last := many.DeadAt, many.DeadAt.Add(50*time.Second)
	return pawl.Alert{
		Key: "digest-1", Attempt: 1, Letters: []pawl.DeadLetter{many, few}, Regression: true,
		Digest: &pawl.Digest{Deaths: 1243, First: first, Last: last, More: 21, Groups: []pawl.AlertGroup{
			{Deaths: 1200, First: first, Last: last}, {Deaths: 1, First: first, Last: first, Regression: true},
		}},
	}
}

// mailOf delivers by mail and returns what came.
func mailOf(t *testing.T, a pawl.Alert) (subject, body string) {
	t.Helper()
	server := &mailServer{}
	server.start(t, nil, nil)
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return text(t, server.only(t))
}

// chatOf delivers by webhook and returns the text.
func chatOf(t *testing.T, a pawl.Alert) string {
	t.Helper()
	target, requests := receiver(t, http.StatusOK, "")
	if err := newWebhook(t, target, nil).Deliver(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	request := <-requests
	var body struct{ Text string }
	if err := json.Unmarshal(request.body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Text
}

func logOf(t *testing.T, a pawl.Alert) (lines []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	if err := alert.Log(slog.New(slog.NewJSONHandler(&out, nil))).Deliver(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry["level"] != "WARN" {
			t.Errorf("a line at %v: %s", entry["level"], line)
		}
		lines = append(lines, entry)
	}
	return lines
}

func TestDigestByMail(t *testing.T) {
	t.Parallel()
	a := aDigest()
	subject, body := mailOf(t, a)
	if subject != "[pawl] REGRESSION: 1243 jobs died: email.verification.v1 and others" {
		t.Errorf("subject %q", subject)
	}
	wantText(t, body, "1243 jobs have died in 23 groups, from 2026-03-01 14:36:00.000 UTC to 2026-03-01 14:36:50.000 UTC.",
		" 1. 1200 × email.verification.v1: transient-exhausted, budget", "dial tcp", a.Letters[0].ID.String(),
		" 2. 1 × ledger.credit.v1", "    REGRESSION: this had been resolved\n    *ledger.ClosedError", "… and 21 more groups",
		"https://ops.example.com/jobs/dead/"+a.Letters[1].ID.String())
}

func TestDigestByWebhook(t *testing.T) {
	t.Parallel()
	a := aDigest()
	text := chatOf(t, a)
	wantText(t, text, "1243 jobs have died in 23 groups", "\n1200 × `email.verification.v1`", "first letter "+a.Letters[0].ID.String(),
		"\n`ledger.credit.v1`", "\nREGRESSION: this had been resolved\nqueue", ", letter "+a.Letters[1].ID.String(), "… and 21 more")
	if strings.Contains(text, "dial tcp") {
		t.Errorf("it shows a message: %q", text)
	}
	if strings.Count(text, "REGRESSION") != 1 {
		t.Errorf("regressions in %q", text)
	}
}

func TestDigestInTheLog(t *testing.T) {
	t.Parallel()
	lines := logOf(t, aDigest())
	if len(lines) != 3 || lines[0]["deaths"] != 1200.0 || lines[0]["regression"] != nil || lines[1]["regression"] != true || lines[2]["groups"] != 21.0 {
		t.Errorf("lines %v", lines)
	}
}

func TestRegressionOfOneDeath(t *testing.T) {
	t.Parallel()
	a := oneAlert(letter())
	if subject, body := mailOf(t, a); strings.Contains(subject+body+chatOf(t, a), "REGRESSION") {
		t.Error("a regression where there is none")
	}
	a.Regression = true
	subject, body := mailOf(t, a)
	if subject != "[pawl] REGRESSION: email.verification.v1 died: transient-exhausted, budget" {
		t.Errorf("subject %q", subject)
	}
	wantText(t, body, "REGRESSION: this had been resolved.")
	wantText(t, chatOf(t, a), "REGRESSION: this had been resolved")
	if logOf(t, a)[0]["regression"] != true {
		t.Error("the log does not say that it is a regression")
	}
}

// The kinds of a digest cannot reach the headers either.
func TestDigestCannotReachTheHeaders(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	a := aDigest()
	for i := range a.Letters {
		a.Letters[i].Kind = "x\r\nBcc: thief@example.com\r\n\r\nForged\r\n.\r\n"
		a.Letters[i].Message = "\r\n.\r\nQUIT\r\n"
	}
	a.Key = "key\r\nBcc: thief@example.com"
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := server.only(t)
	subject, _ := text(t, got)
	if got.parse(t).Header.Get("Bcc") != "" || strings.ContainsAny(subject, "\r\n") || len(got.to) != 2 {
		t.Errorf("headers %v, subject %q, to %v", got.parse(t).Header, subject, got.to)
	}
	target, requests := receiver(t, http.StatusOK, "")
	if err := newWebhook(t, target, nil).Deliver(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if key := (<-requests).header.Get("Idempotency-Key"); strings.ContainsAny(key, "\r\n") || key == "" {
		t.Errorf("key %q", key)
	}
}

// A test message needs no letter, and tells of no death.
func TestTestMessages(t *testing.T) {
	t.Parallel()
	a := pawl.Alert{Key: "test/1", Attempt: 1, Test: true}
	const says = "This is a test of the alerts. Nothing has died."
	subject, body := mailOf(t, a)
	if subject != "[pawl] Test of the alerts" || body != says+"\n\nhttps://ops.example.com/jobs/\n" {
		t.Errorf("mail %q: %q", subject, body)
	}
	if got := chatOf(t, a); got != says+"\nhttps://ops.example.com/jobs" {
		t.Errorf("text %q", got)
	}
	if lines := logOf(t, a); len(lines) != 1 || lines[0]["msg"] != says {
		t.Errorf("lines %v", lines)
	}
}

func TestAlertAboutNothing(t *testing.T) {
	t.Parallel()
	for _, sink := range []pawl.Sink{alert.Log(nil), newWebhook(t, "http://127.0.0.1:1", nil), newSMTP(t, "127.0.0.1:1", nil)} {
		if err := sink.Deliver(t.Context(), pawl.Alert{Key: "k"}); err == nil || !strings.Contains(err.Error(), "no letter") {
			t.Errorf("%s: %v", sink.Name(), err)
		}
	}
}
