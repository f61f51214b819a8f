package pawl

import (
	"context"
	"time"
)

// Outbox is what an operator can do to an outbox, where jobs wait on their way from a service's own database to their store. A
// box of package outbox is one, and so is what the client of an API knows of its server's.
type Outbox interface {
	// Stats counts what waits.
	Stats(ctx context.Context) (OutboxStats, error)
	// Messages lists what waits, by connection, the oldest first. Next is where the rest begins; it is empty where there is none.
	Messages(ctx context.Context, filter OutboxFilter, page Page) (found []OutboxMessage, next string, err error)
	// Message finds one; ErrNotFound where there is none of this id: there never was, or it was dispatched or died and its row was
	// not kept.
	Message(ctx context.Context, id ID) (OutboxMessage, error)
	// Retry has failing messages tried again at once, as if no claim of them had failed. Result i is nil, or ErrNotFound where there
	// is no message of id i that has not ended.
	Retry(ctx context.Context, ids []ID) ([]error, error)
	// SwitchOff stops all dispatchers, for as long as it takes: messages are written and gather. What is claimed already is still
	// dispatched. It takes effect with the next claim, and survives restarts. Who did it and why has to be said.
	SwitchOff(ctx context.Context, by By) error
	// SwitchOn lets dispatchers go on.
	SwitchOn(ctx context.Context) error
	// Purge removes the kept rows of messages that were dispatched, or died, longer ago than age. It returns how many those were,
	// also with an error: what was done before it stays done.
	Purge(ctx context.Context, age time.Duration) (purged int, err error)
}

// OutboxStats says how much waits in an outbox. The age of the oldest message is what to watch: it grows when nobody dispatches.
type OutboxStats struct {
	Pending     int           // messages that are not dispatched; counts end at a million for each connection
	Failing     int           // of these, a claim of which has failed
	Oldest      time.Duration // age of the oldest of them; 0 when there is none
	Connections []OutboxLane  // those that messages wait for, by name
	Off         bool          // dispatching is switched off
	Why         string        // and by whom
}

// OutboxLane counts the messages to one connection.
type OutboxLane struct {
	Connection string
	Pending    int
	Failing    int
	Oldest     time.Duration
}

// OutboxState is how a message stands.
type OutboxState string

// The states.
const (
	OutboxWaiting    OutboxState = "waiting"
	OutboxClaimed    OutboxState = "claimed"    // a dispatcher has it
	OutboxFailing    OutboxState = "failing"    // a claim has failed, and it is tried again
	OutboxDispatched OutboxState = "dispatched" // its row is kept, to be looked at
	OutboxDead       OutboxState = "dead"       // the same, of one that is a dead letter now
)

// OutboxMessage is a job on its way, as an operator sees it.
type OutboxMessage struct {
	ID         ID
	Connection string // of the store that it is for
	State      OutboxState
	Kind       string // UndecodableKind where its bytes are damaged; empty once it has ended
	Queue      string
	Attempts   int // claims that count
	LastError  string
	CreatedAt  time.Time
	NextTry    time.Time // zero: at once
	EndedAt    time.Time // zero: it has not
	ClaimedBy  string    // the dispatcher
	Envelope   []byte    // none once it has ended; in a list over the API none at all
}

// OutboxFilter picks messages that have not ended.
type OutboxFilter struct {
	Connection string // of the store that they are for; empty: any
	Failing    bool   // a claim of them has failed
}
