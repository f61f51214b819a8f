package desk

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// When sinks are retired.
const (
	// SinkUnseen is how long no host must have had a sink, so that it is retired.
	SinkUnseen = 7 * 24 * time.Hour
	// SinkNoted is how old the note may be that a host has it.
	SinkNoted = time.Hour
	// SinkWatch is how long the session has to be open that retires sinks: hosts that start after an outage of all of them
	// have time to come back.
	SinkWatch = time.Hour
	// SinkSilence is how long a host must not have been heard of, so that its sinks can be forgotten.
	SinkSilence = time.Minute
)

// NoSink is the error where no sink of the name is registered.
func NoSink(sink string) error {
	return fmt.Errorf("no sink %q is registered: %w", sink, pawl.ErrNotFound)
}

// SinkInUse is the error where a host has the sink that is to be forgotten.
func SinkInUse(sink, host string) error {
	return fmt.Errorf("host %s has the sink %q, and would register it again: %w", host, sink, pawl.ErrConflict)
}

// ForgottenEntry is the line when a sink was forgotten.
func ForgottenEntry(sink string, undelivered int) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionForget, Subject: "sink " + sink, From: "registered", To: "forgotten",
		Outcome: fmt.Sprintf("%d undelivered", undelivered),
	}
}

// RetiredEntry is the line when a sink was retired, and by whom and why.
func RetiredEntry(sink string, undelivered int) (pawl.By, pawl.AuditEntry) {
	by := System()
	by.Why = "no host has had it for 7 days"
	return by, pawl.AuditEntry{
		Action: pawl.ActionRetire, Subject: "sink " + sink, From: "registered", To: "retired",
		Outcome: fmt.Sprintf("%d undelivered", undelivered),
	}
}

// SinksOf are the sinks of hosts, by what they have told about themselves. A damaged row has none.
func SinksOf(infos []string) (sinks []string) {
	for _, info := range infos {
		var host pawl.HostInfo
		if json.Unmarshal([]byte(info), &host) == nil {
			sinks = append(sinks, host.Sinks...)
		}
	}
	return sinks
}
