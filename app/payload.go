package app

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// payloadView is an envelope as JSON. Args is the value as it was given (spaces between its parts aside); where the
// envelope or its args cannot be read, error says why. Envelope is always the exact stored bytes.
type payloadView struct {
	Error         text            `json:"error"`
	Args          json.RawMessage `json:"args"`
	Policy        *policyView     `json:"policy"`
	RetryUntil    stamp           `json:"retry_until"`
	CorrelationID text            `json:"correlation_id"`
	UniqueKey     text            `json:"unique_key"`
	Origin        text            `json:"origin"`
	OriginRef     text            `json:"origin_ref"`
	Envelope      []byte          `json:"envelope_base64"`
}

type policyView struct {
	Queue      string  `json:"queue"`
	MaxTries   int     `json:"max_tries"`
	BackoffMS  []int64 `json:"backoff_ms"`
	Jitter     float64 `json:"jitter"`
	TimeoutMS  int64   `json:"timeout_ms"`
	RetryForMS int64   `json:"retry_for_ms"`
	Redrive    string  `json:"redrive"`
	StartsOff  bool    `json:"starts_off"`
}

func viewPayload(stored []byte) *payloadView {
	view := &payloadView{Args: json.RawMessage("null"), Envelope: list(stored)}
	envelope, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		view.Error = text(err.Error())
		return view
	}
	policy := envelope.Policy
	view.Policy = &policyView{
		policy.Queue, policy.MaxTries,
		[]int64{},
		policy.Jitter, policy.Timeout.Milliseconds(),
		policy.RetryFor.Milliseconds(), policy.Redrive.String(), policy.StartsOff,
	}
	for _, delay := range policy.Backoff {
		view.Policy.BackoffMS = append(view.Policy.BackoffMS, delay.Milliseconds())
	}
	view.RetryUntil, view.CorrelationID = stamp(envelope.RetryUntil), text(envelope.CorrelationID)
	view.UniqueKey, view.OriginRef = text(envelope.Unique.Key), text(envelope.Origin.Ref)
	view.Origin = text(envelope.Origin.Source)
	if !readable(envelope.Args) {
		view.Error = "the args are not JSON"
		return view
	}
	view.Args = envelope.Args
	return view
}

func readable(args []byte) bool { return utf8.Valid(args) && json.Valid(args) }

// payload prints what an envelope holds, for people: its args indented and otherwise as they were given, or a dump of
// the bytes that cannot be read.
func (p *printer) payload(stored []byte) {
	envelope, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		p.block(fmt.Sprintf("Payload: %s (%d bytes)", escape(err.Error()), len(stored)), hex.Dump(stored))
		return
	}
	if !readable(envelope.Args) {
		p.block(fmt.Sprintf("Args: not JSON (%d bytes)", len(envelope.Args)), hex.Dump(envelope.Args))
	} else {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, envelope.Args, "", "  "); err != nil {
			pretty.Write(envelope.Args)
		}
		p.block(fmt.Sprintf("Args (%d bytes)", len(envelope.Args)), string(visibleJSON(pretty.Bytes())))
	}
	p.block("Policy", policyText(envelope))
}

func policyText(envelope pawl.Envelope) string {
	policy := envelope.Policy
	delays := make([]string, len(policy.Backoff))
	for i, delay := range policy.Backoff {
		delays[i] = delay.String()
	}
	lines := []string{
		fmt.Sprintf("max tries %d, timeout %s, backoff %s", policy.MaxTries, policy.Timeout, strings.Join(delays, " ")),
		"redrive: " + policy.Redrive.String(),
	}
	if policy.StartsOff {
		lines = append(lines, "starts off: runs only while its kind is switched on")
	}
	if policy.RetryFor > 0 {
		lines = append(lines, "retry for "+policy.RetryFor.String())
	}
	if !envelope.RetryUntil.IsZero() {
		lines = append(lines, "retry until "+envelope.RetryUntil.UTC().Format(time.RFC3339))
	}
	if envelope.Unique.Key != "" {
		lines = append(lines, "unique key "+envelope.Unique.Key)
	}
	return strings.Join(lines, "\n")
}

// attempts prints the tries that failed, oldest first.
func (p *printer) attempts(history []pawl.AttemptRecord) {
	if len(history) == 0 {
		return
	}
	rows := make([][]string, len(history))
	for i, a := range history {
		what := a.Message
		if a.Type != "" {
			what = a.Type + ": " + a.Message
		}
		started, lasted := moment(a.StartedAt), took(a.Duration)
		if endUnseen(a) {
			started, lasted = "before "+started, "-"
		}
		rows[i] = []string{
			fmt.Sprint(a.Attempt), started, lasted, escape(string(a.Ending)), escape(a.Host), cut(escape(what), 160),
		}
	}
	p.line()
	p.table([]string{"ATTEMPT", "STARTED", "TOOK", "ENDING", "HOST", "ERROR"}, rows)
}
