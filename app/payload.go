package app

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

// payload prints what an envelope holds, for people: its args indented and otherwise as they were given, or a dump of
// the bytes that cannot be read.
func (p *printer) payload(stored []byte) {
	envelope, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		p.block(fmt.Sprintf("Payload: %s (%d bytes)", escape(err.Error()), len(stored)), hex.Dump(stored))
		return
	}
	if !wire.Readable(envelope.Args) {
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
	p.table([]tableColumn{{head: "ATTEMPT"}, {head: "STARTED"}, {head: "TOOK"}, {head: "ENDING"}, {head: "HOST", flexible: true}, {head: "ERROR"}}, rows)
}
