package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/guest"
)

// StatsLimit is where the counts of a connection's messages end.
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

// SwitchOff stops all dispatchers of the box, for as long as it takes: messages are written and gather. What is claimed
// already is still dispatched. It takes effect with the next claim, and survives restarts. Who did it, why and when is kept in
// the box, and nowhere else.
func (c *core) SwitchOff(ctx context.Context, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if by.Why == "" {
		return &pawl.FieldError{Field: "why", Value: by.Why, Rule: "must be given: somebody will want to know"}
	}
	why := fmt.Sprintf("%s (%s, %s)", by.Why, by.Who, time.Now().UTC().Format("2006-01-02T15:04:05Z"))
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
