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

// Alert is one message to one sink.
type Alert struct {
	Key     string // stable over repeats of the same delivery
	Attempt int    // counted from 1
	Letters []DeadLetter
}

// Alerts is the durable queue of alert deliveries: a death writes one row for each sink that a host has registered, in
// the transaction that records it.
type Alerts interface {
	// ClaimAlerts leases due rows of these sinks to the session for AlertLease. Where the session ends before they are
	// settled they are due at once.
	ClaimAlerts(ctx context.Context, claim AlertClaim) ([]AlertTask, error)
	// SettleAlerts records what became of deliveries, fenced by the lease's token: ErrLeaseLost where it has passed on.
	SettleAlerts(ctx context.Context, results []AlertResult) ([]error, error)
	// Sinks counts the rows of every registered sink.
	Sinks(ctx context.Context) ([]SinkView, error)
}

// AlertClaim asks for due deliveries.
type AlertClaim struct {
	Session SessionID
	Sinks   []string
	Max     int // for each sink
}

// AlertTask is one delivery under lease.
type AlertTask struct {
	Row     int64
	Token   Token
	Sink    string
	Key     string
	Attempt int // counted from 1, this one included
	Letter  DeadLetter
}

// AlertResult is the end of one delivery. A failed one comes due again after After.
type AlertResult struct {
	Row       int64
	Token     Token
	Delivered bool
	After     time.Duration
	Error     string // of the failed delivery
}

// SinkView counts a sink's rows.
type SinkView struct {
	Name      string        `json:"sink"`
	Pending   int           `json:"pending"` // not delivered yet
	Delivered int           `json:"delivered"`
	OldestAge time.Duration `json:"oldest_pending_ns"`
	LastError string        `json:"last_error"`
}

// AlertBackoff is the wait after a failed delivery, counted from 1: five retries within 15 minutes, then hourly.
func AlertBackoff(attempt int) time.Duration {
	curve := []time.Duration{15 * time.Second, 45 * time.Second, 2 * time.Minute, 4 * time.Minute, 7 * time.Minute}
	if attempt < 1 || attempt > len(curve) {
		return time.Hour
	}
	return curve[attempt-1]
}
