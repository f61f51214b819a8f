package wire

import (
	"errors"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// Outbox is how an outbox stands.
type Outbox struct {
	Outbox      string       `json:"outbox" doc:"its name"`
	Error       Text         `json:"error" doc:"why it cannot be read; null when it can"`
	Waiting     int          `json:"waiting" doc:"messages that are not dispatched; each connection's are counted up to a million"`
	Failing     int          `json:"failing" doc:"of these, a claim of which has failed"`
	OldestMS    int64        `json:"oldest_pending_ms" doc:"age of the oldest of them; 0 when there is none"`
	Paused      bool         `json:"paused" doc:"its dispatchers are switched off, and messages gather"`
	Why         Text         `json:"paused_why" doc:"why, by whom and since when"`
	Connections []OutboxLane `json:"connections" doc:"of the stores that messages wait for, by name"`
}

// OutboxLane counts the messages to one connection.
type OutboxLane struct {
	Connection string `json:"connection" doc:"its name"`
	Waiting    int    `json:"waiting" doc:"messages that are not dispatched"`
	Failing    int    `json:"failing" doc:"of these, a claim of which has failed"`
	OldestMS   int64  `json:"oldest_pending_ms" doc:"age of the oldest of them"`
}

// OutboxOf is the form of an outbox as it was found.
func OutboxOf(l ops.OutboxLook) Outbox {
	form := Outbox{
		Outbox: l.Name, Waiting: l.Stats.Pending, Failing: l.Stats.Failing, OldestMS: l.Stats.Oldest.Milliseconds(),
		Paused: l.Stats.Off, Why: Text(l.Stats.Why),
	}
	if l.Err != nil {
		form.Error = Text(strings.ReplaceAll(l.Err.Error(), "\n", "; "))
	}
	form.Connections = Each(l.Stats.Connections, func(lane pawl.OutboxLane) OutboxLane {
		return OutboxLane{lane.Connection, lane.Pending, lane.Failing, lane.Oldest.Milliseconds()}
	})
	return form
}

// Read reads the form.
func (o Outbox) Read() ops.OutboxLook {
	look := ops.OutboxLook{Name: o.Outbox, Stats: pawl.OutboxStats{
		Pending: o.Waiting, Failing: o.Failing, Oldest: milliseconds(o.OldestMS), Off: o.Paused, Why: string(o.Why),
	}}
	if o.Error != "" {
		look.Err = errors.New(string(o.Error))
	}
	look.Stats.Connections = Each(o.Connections, func(lane OutboxLane) pawl.OutboxLane {
		return pawl.OutboxLane{Connection: lane.Connection, Pending: lane.Waiting, Failing: lane.Failing, Oldest: milliseconds(lane.OldestMS)}
	})
	return look
}

// OutboxMessage is a job on its way, as lists show it.
type OutboxMessage struct {
	ID         pawl.ID          `json:"id" doc:"of the message, and of its job"`
	Connection string           `json:"connection" doc:"of the store that it is for"`
	State      pawl.OutboxState `json:"state" doc:"how it stands: waiting, claimed, failing, dispatched or dead"`
	Kind       Text             `json:"kind" doc:"of the job; (undecodable) where nobody can name it; null once it has ended"`
	Queue      Text             `json:"queue" doc:"that the job is for"`
	Claims     int              `json:"claims" doc:"that count"`
	LastError  Text             `json:"last_error" doc:"why the last of them has failed"`
	CreatedAt  Stamp            `json:"created_at" doc:"when it was written"`
	NextTry    Stamp            `json:"next_try_at" doc:"when it is tried again; null: at once"`
	EndedAt    Stamp            `json:"ended_at" doc:"when it was dispatched or died"`
	ClaimedBy  Text             `json:"claimed_by" doc:"the dispatcher that has it"`
}

// OutboxMessageOf is a message's form.
func OutboxMessageOf(m pawl.OutboxMessage) OutboxMessage {
	return OutboxMessage{
		m.ID, m.Connection, m.State, Text(m.Kind), Text(m.Queue), m.Attempts, Text(m.LastError), Stamp(m.CreatedAt),
		Stamp(m.NextTry), Stamp(m.EndedAt), Text(m.ClaimedBy),
	}
}

// Read reads the form.
func (m OutboxMessage) Read() pawl.OutboxMessage {
	return pawl.OutboxMessage{
		ID: m.ID, Connection: m.Connection, State: m.State, Kind: string(m.Kind), Queue: string(m.Queue), Attempts: m.Claims,
		LastError: string(m.LastError), CreatedAt: time.Time(m.CreatedAt), NextTry: time.Time(m.NextTry),
		EndedAt: time.Time(m.EndedAt), ClaimedBy: string(m.ClaimedBy),
	}
}

// OutboxMessageDetail is a message with its job.
type OutboxMessageDetail struct {
	OutboxMessage
	PayloadBytes int      `json:"payload_bytes" doc:"how many bytes of the job there are"`
	Payload      *Payload `json:"payload,omitempty" doc:"the job itself, where it was asked for and may be seen"`
}

// OutboxMessageDetailOf is a message's whole form, with its payload or without.
func OutboxMessageDetailOf(m pawl.OutboxMessage, payload bool) OutboxMessageDetail {
	detail := OutboxMessageDetail{OutboxMessageOf(m), len(m.Envelope), nil}
	if payload && len(m.Envelope) > 0 {
		detail.Payload = PayloadOf(m.Envelope)
	}
	return detail
}

// Read reads the form.
func (d OutboxMessageDetail) Read() pawl.OutboxMessage {
	m := d.OutboxMessage.Read()
	if d.Payload != nil {
		m.Envelope = d.Payload.Envelope
	}
	return m
}
