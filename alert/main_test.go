package alert_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letter is a death with something in every field.
func letter() pawl.DeadLetter {
	job := pawl.NewID()
	return pawl.DeadLetter{
		ID: pawl.LetterID("default", job, 7), JobID: job, Connection: "default", Queue: "2-default",
		Kind: "email.verification.v1", Envelope: []byte("secret args"), ExceptionType: "*net.OpError",
		Message: "dial tcp 10.0.0.9:25: connection refused", Detail: "chain and stack", Attempts: 6,
		Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget, CorrelationID: "request-17", Tags: []string{"signup"},
		Fingerprint: "1-ab", Host: "worker-1", Server: "io", Version: "1.2.3",
		EnqueuedAt: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), DeadAt: time.Date(2026, 3, 1, 14, 36, 0, 0, time.UTC),
	}
}

// oneAlert is about one death, or a digest with a group for each.
func oneAlert(letters ...pawl.DeadLetter) pawl.Alert {
	alert := pawl.Alert{Key: "alert-1", Attempt: 1, Letters: letters}
	if len(letters) != 1 {
		alert.Letters = letters[:min(len(letters), pawl.DigestGroups)]
		alert.Digest = &pawl.Digest{Deaths: len(letters), More: len(letters) - len(alert.Letters)}
	}
	for _, l := range alert.Letters {
		if alert.Digest != nil {
			alert.Digest.Groups = append(alert.Digest.Groups, pawl.AlertGroup{Deaths: 1, First: l.DeadAt, Last: l.DeadAt})
		}
	}
	return alert
}
