package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/guest"
)

// Stats says how much waits in a box. The age of the oldest message is what to watch: it grows when nobody dispatches.
type Stats struct {
	Pending     int           `json:"pending"`     // messages that are not dispatched; each connection's are counted up to StatsLimit
	Failing     int           `json:"failing"`     // of these, a claim of which has failed; each connection's are counted up to StatsLimit
	Oldest      time.Duration `json:"oldest_ns"`   // age of the oldest of them; 0 when there is none
	Connections []LaneStats   `json:"connections"` // those that messages wait for, by name
	Off         bool          `json:"off"`         // dispatching is switched off
	Why         string        `json:"off_why,omitempty"`
}

// LaneStats counts the messages to one connection.
type LaneStats struct {
	Connection string        `json:"connection"`
	Pending    int           `json:"pending"`
	Failing    int           `json:"failing"`
	Oldest     time.Duration `json:"oldest_ns"`
}

// StatsLimit is where counts of messages end.
const StatsLimit = 1_000_000

// Stats counts what waits.
func (c *core) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	names, err := c.connections(ctx)
	for _, name := range names {
		s.Connections = append(s.Connections, LaneStats{Connection: name})
	}
	for i := 0; err == nil && i < len(s.Connections); i++ {
		lane, age := &s.Connections[i], int64(0)
		if _, err = guest.One(ctx, c.home.DB, c.texts.count, []any{lane.Connection, StatsLimit}, &lane.Pending); err == nil {
			_, err = guest.One(ctx, c.home.DB, c.texts.failing, []any{lane.Connection, StatsLimit}, &lane.Failing)
		}
		if err == nil {
			_, err = guest.One(ctx, c.home.DB, c.texts.oldest, []any{lane.Connection}, &age)
		}
		lane.Oldest = time.Duration(max(age, 0)) * time.Millisecond
		s.Pending, s.Failing, s.Oldest = s.Pending+lane.Pending, s.Failing+lane.Failing, max(s.Oldest, lane.Oldest)
	}
	if err == nil {
		s.Off, err = guest.One(ctx, c.home.DB, c.texts.readOff, nil, &s.Why)
	}
	if err != nil {
		return Stats{}, fmt.Errorf("read the outbox: %w", err)
	}
	return s, nil
}

// ready reports whether a message to a connection waits behind a place.
func (c *core) ready(ctx context.Context, connection string, after int64) (bool, error) {
	return guest.One(ctx, c.home.DB, c.texts.ready, []any{connection, after}, new(int))
}

const maxWhy = 1000 // bytes

// SwitchOff stops all dispatchers of the box, for as long as it takes: messages are written and gather. What is claimed
// already is still dispatched. It takes effect with the next claim, and survives restarts.
func (c *core) SwitchOff(ctx context.Context, why string) error {
	if why == "" || len(why) > maxWhy {
		return &pawl.FieldError{Field: "why", Value: why, Rule: "must have 1 to 1000 bytes: somebody will want to know"}
	}
	return c.switchTo(ctx, "off", c.texts.setOff, why)
}

// SwitchOn lets dispatchers go on.
func (c *core) SwitchOn(ctx context.Context) error { return c.switchTo(ctx, "on", c.texts.clearOff) }

func (c *core) switchTo(ctx context.Context, to, query string, args ...any) error {
	err := c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("switch the outbox %s: %w", to, err)
	}
	return nil
}
