package app

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
)

func runAlerts(t *testing.T, env map[string]string, args ...string) (status int, out, talk string) {
	t.Helper()
	var data, said bytes.Buffer
	status = run(t.Context(), pawl.NewMux(), Options{}, append([]string{"alerts", "test"}, args...), strings.NewReader(""), &data, &said, variables(env))
	return status, data.String(), said.String()
}

func variables(env map[string]string) (environ []string) {
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

func TestAlertsTest(t *testing.T) {
	t.Parallel()
	secret := "0123456789abcdef"
	var got []byte
	var signed error
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		signed = alert.VerifySignature([]byte(secret), r.Header.Get(alert.SignatureHeader), got, 1e12)
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"PAWL_SINKS_WEBHOOK_URL": server.URL + "/T0/secretpart", "PAWL_SINKS_WEBHOOK_SECRET": secret}
	status, out, talk := runAlerts(t, env, "--allow-http", "--allow-private", "--link-base", "https://ops.example.com/jobs")
	if status != exitOK || !strings.HasPrefix(out, "webhook\tdelivered\t") || talk != "" {
		t.Errorf("status %d, %q, %q", status, out, talk)
	}
	if !strings.Contains(string(got), "This is a test") || !strings.Contains(string(got), "https://ops.example.com/jobs") || signed != nil {
		t.Errorf("it sent %s, signature %v", got, signed)
	}
	status, out, talk = runAlerts(t, env, "--allow-http", "--allow-private", "--smtp", "127.0.0.1:1", "--from", "a@example.com", "--to", "b@example.com", "--smtp-tls", "none")
	if status != exitPartly || !strings.Contains(out, "email\tfailed\t") || !strings.Contains(talk, "1 of 2 test messages were not delivered") {
		t.Errorf("status %d, %q, %q", status, out, talk)
	}
	status, out, talk = runAlerts(t, env, "--allow-http", "--json")
	if status != exitError || !strings.Contains(out, "not a public one") || strings.Contains(out+talk, "secretpart") {
		t.Errorf("status %d, %q, %q", status, out, talk)
	}
}

func TestAlertsTestIsChecked(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"nothing to test":       nil,
		"must be an https URL":  {"--webhook", "http://hooks.example.com/x"},
		"must have an addr":     {"--from", "a@example.com"},
		"must be a mail addr":   {"--smtp", "mail.example.com:587", "--from", "a\r\nBcc: thief@example.com", "--to", "b@example.com"},
		"at least one mail":     {"--smtp", "mail.example.com:587", "--from", "a@example.com"},
		"must be mandatory":     {"--smtp", "mail.example.com:587", "--from", "a@example.com", "--to", "b@example.com", "--smtp-tls", "sometimes"},
		"must be an http or":    {"--webhook", "https://hooks.example.com/x", "--link-base", "ftp://x"},
		"must have at least 16": {"--webhook", "https://hooks.example.com/x"},
	} {
		env := map[string]string{}
		if strings.Contains(want, "at least 16") {
			env["PAWL_SINKS_WEBHOOK_SECRET"] = "short"
		}
		if status, out, talk := runAlerts(t, env, args...); status != exitUsage || !strings.Contains(talk, want) || out != "" {
			t.Errorf("%v: status %d, %q, %q", args, status, out, talk)
		}
	}
}
