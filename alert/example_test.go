package alert_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
)

func exampleAlert() pawl.Alert {
	return pawl.Alert{Key: "018f-webhook", Attempt: 1, Letters: []pawl.DeadLetter{{
		ID: pawl.ID{15: 1}, JobID: pawl.ID{15: 2}, Kind: "email.verification.v1", Queue: "2-default", Attempts: 6,
		Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget, ExceptionType: "*net.OpError", CorrelationID: "request-17",
	}}}
}

func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "letter" || a.Key == "job" || a.Key == "alert" {
			return slog.Attr{}
		}
		return a
	}}))
	if err := alert.Log(logger).Deliver(context.Background(), exampleAlert()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=WARN msg="dead letter alert" kind=email.verification.v1 queue=2-default attempt=6 class=transient-exhausted reason=budget correlation_id=request-17 error_type=*net.OpError
}

func ExampleNewWebhook() {
	secret := []byte("shared with the receiver")
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := alert.VerifySignature(secret, r.Header.Get(alert.SignatureHeader), body, 5*time.Minute); err != nil {
			fmt.Println(err)
		}
		var message struct{ Text string }
		_ = json.Unmarshal(body, &message)
		fmt.Println(r.Header.Get("Idempotency-Key"))
		fmt.Println(message.Text)
	}))
	defer receiver.Close()

	sink, err := alert.NewWebhook(alert.WebhookConfig{
		URL: receiver.URL, AllowHTTP: true, AllowPrivate: true, // this receiver is on loopback
		Secret: secret, LinkBase: "https://ops.example.com/jobs",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := sink.Deliver(context.Background(), exampleAlert()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 018f-webhook
	// A job has died.
	// `email.verification.v1`: transient-exhausted, budget, 6 attempts, `*net.OpError`
	// queue `2-default`, letter 00000000-0000-0000-0000-000000000001, job 00000000-0000-0000-0000-000000000002
	// https://ops.example.com/jobs/dead/00000000-0000-0000-0000-000000000001
}

func ExampleNewSMTP() {
	_, err := alert.NewSMTP(alert.SMTPConfig{
		Addr: "mail.example.com:587", From: "jobs@example.com", To: []string{"oncall@example.com"},
		Username: "jobs", Password: os.Getenv("SMTP_PASSWORD"), TLS: alert.TLSNone,
	})
	fmt.Println(err)
	// Output:
	// configure mail alerts: invalid tls "none": must protect a connection to anything but a loopback address
}
