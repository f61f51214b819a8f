package pawl

import (
	"context"
	"time"
)

// Sink is a channel that alerts go to. Deliver must honour its ctx: it has AlertBudget. It may be called again with the same
// Key after a delivery whose outcome was not recorded, so a sink passes the key on for its receiver to recognise.
type Sink interface {
	// Name tells the sinks of a store apart: 1-128 bytes.
	Name() string
	Deliver(ctx context.Context, alert Alert) error
}

// AlertBudget is the time that one delivery has.
const AlertBudget = 10 * time.Second

// AlertLease is how long a claimed alert is kept from other hosts.
const AlertLease = 60 * time.Second

// Alert is one message to one sink: about one death, or a digest of many.
type Alert struct {
	Key     string // stable over repeats of the same message
	Attempt int    // counted from 1
	// Letters have no Envelope, Detail and History. It is the one that died; in a digest the first of each group.
	Letters []DeadLetter
	// Regression: the group of the death, or one of the digest's, had been resolved.
	Regression bool
	Digest     *Digest // nil: about Letters[0] alone
	Test       bool    // an operator tries the sink: nothing has died, and there are no Letters
}

// Digest is what one message tells of many deaths.
type Digest struct {
	Deaths      int
	First, Last time.Time    // of the deaths
	Groups      []AlertGroup // at most DigestGroups, those with the most deaths first; Groups[i] is that of Letters[i]
	More        int          // groups that are not in Groups
}

// AlertGroup counts the deaths of one fingerprint in a digest.
type AlertGroup struct {
	Deaths      int
	First, Last time.Time
	Regression  bool // it had been resolved when one of them died
}

// DigestGroups is how many groups a digest lists.
const DigestGroups = 20

// AlertTries is how often a message is sent by itself. One that has failed as often waits for the hourly digest of its
// sink.
const AlertTries = 6

// Storm says when deaths get no alerts of their own any more. In a window that is past Deaths, the others are told of in
// one digest when it ends, and as long as that has more than Deaths again, the next windows have a digest alone.
type Storm struct {
	Deaths int           // default 30
	Window time.Duration // default 1 minute
}

// OrDefault fills zero fields.
func (s Storm) OrDefault() Storm {
	if s.Deaths == 0 {
		s.Deaths = 30
	}
	if s.Window == 0 {
		s.Window = time.Minute
	}
	return s
}

// Alerts is the durable queue of alerts: a death writes one row for each sink that a host has registered, in the
// transaction that records it. A claim decides in which message a death is told of, and fixes that before the message
// is sent: whatever happens then, it is repeated under the same key with the same deaths until its outcome is recorded.
//
// A sink that no host has had for a week is retired by a sweep, audited: later deaths write no row for it, and what it was
// not told of stays pending. Opening a session that has it ends that.
type Alerts interface {
	// ClaimAlerts leases due messages of these sinks to the session for AlertLease. Where the session ends before they
	// are settled they are due at once. Messages that have failed AlertTries times become one digest whenever one of
	// them is due, without the deaths whose letters were resolved or discarded.
	ClaimAlerts(ctx context.Context, claim AlertClaim) ([]AlertTask, error)
	// SettleAlerts records what became of deliveries, fenced by the lease's token: ErrLeaseLost where it has passed on.
	SettleAlerts(ctx context.Context, results []AlertResult) ([]error, error)
	// Sinks counts the deaths of every registered sink.
	Sinks(ctx context.Context) ([]SinkView, error)
	// AlertsOf says for every sink that is told of a letter by which message, in the order of the sinks' names.
	AlertsOf(ctx context.Context, letter ID) ([]AlertView, error)
	// ForgetSink takes a sink off the register: later deaths write no row for it, and what it was not told of is given up.
	// It returns of how many deaths that was. Audited; ErrNotFound when it is not registered, ErrConflict while a host that
	// was heard of within a minute has it: that would register it again. What it was told of stays told.
	ForgetSink(ctx context.Context, sink string, by By) (int, error)
}

// AlertClaim asks for due messages.
type AlertClaim struct {
	Session SessionID
	Sinks   []string
	Max     int   // for each sink
	Storm   Storm // zero fields have their defaults
}

// AlertTask is one message under lease.
type AlertTask struct {
	Row   int64
	Token Token
	Sink  string
	Alert
}

// AlertResult is the end of one delivery. A failed one comes due again after After.
type AlertResult struct {
	Row       int64
	Token     Token
	Delivered bool
	After     time.Duration
	Error     string // of the failed delivery
}

// SinkView counts the deaths that a sink is told of.
type SinkView struct {
	Name      string        `json:"sink"`
	Pending   int           `json:"pending"`   // not told yet, in whatever message
	Delivered int           `json:"delivered"` // those of letters that were forgotten since included
	OldestAge time.Duration `json:"oldest_pending_ns"`
	LastError string        `json:"last_error"`
	RetiredAt time.Time     `json:"retired_at,omitzero"` // zero: it is not
}

// AlertView is how a sink was told of one letter.
type AlertView struct {
	Sink        string    `json:"sink"`
	Key         string    `json:"key"`     // of the message; "" until it is decided
	Deaths      int       `json:"deaths"`  // that the message tells of
	Attempt     int       `json:"attempt"` // deliveries that were begun
	Pending     bool      `json:"pending"` // neither it nor DeliveredAt: the letter was closed first
	DeliveredAt time.Time `json:"delivered_at"`
	Regression  bool      `json:"regression"` // its group had been resolved when it died
	Error       string    `json:"error"`      // of the last delivery that failed
}

// AlertBackoff is the wait after a failed delivery, counted from 1: five retries within 15 minutes, then hourly.
func AlertBackoff(attempt int) time.Duration {
	curve := []time.Duration{15 * time.Second, 45 * time.Second, 2 * time.Minute, 4 * time.Minute, 7 * time.Minute}
	if attempt < 1 || attempt > len(curve) {
		return time.Hour
	}
	return curve[attempt-1]
}
