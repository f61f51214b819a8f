package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/guest"
)

// What operators see of a box is the same wherever they look from: see pawl.Outbox.
type (
	Message       = pawl.OutboxMessage
	MessageState  = pawl.OutboxState
	MessageFilter = pawl.OutboxFilter
	Stats         = pawl.OutboxStats
	LaneStats     = pawl.OutboxLane
)

// The states of messages.
const (
	Waiting    = pawl.OutboxWaiting
	Claimed    = pawl.OutboxClaimed
	Failing    = pawl.OutboxFailing
	Dispatched = pawl.OutboxDispatched
	Dead       = pawl.OutboxDead
)

var (
	_ pawl.Outbox = (*Box)(nil)
	_ pawl.Outbox = (*PgxBox)(nil)
)

// Messages lists what waits, by connection, the oldest first. Next is where the rest begins; it is empty where there is none.
func (c *core) Messages(ctx context.Context, filter MessageFilter, page pawl.Page) (found []Message, next string, err error) {
	if page.Limit == 0 {
		page.Limit = 50
	}
	if page.Limit < 0 || page.Limit > 1000 {
		return nil, "", &pawl.FieldError{Field: "limit", Value: page.Limit, Rule: "must be from 1 to 1000, or 0 for 50"}
	}
	from, after := "", int64(0)
	if page.After != "" {
		number, name, ok := strings.Cut(page.After, "/")
		if after, err = strconv.ParseInt(number, 10, 64); err != nil || !ok {
			return nil, "", &pawl.FieldError{Field: "after", Value: page.After, Rule: "must be where an earlier page ended"}
		}
		from = name
	}
	lanes, err := c.connections(ctx)
	var last int64
	for i := 0; err == nil && i < len(lanes) && len(found) <= page.Limit; i++ {
		switch name := lanes[i]; {
		case name < from || filter.Connection != "" && name != filter.Connection:
			continue
		case name > from:
			after = 0
		}
		query := c.texts.list
		if filter.Failing {
			query = c.texts.listFailing
		}
		err = guest.Rows(ctx, c.home.DB, query, []any{lanes[i], after, page.Limit + 1 - len(found)}, func(rows *sql.Rows) error {
			m, seq, err := scanMessage(rows.Scan)
			if found = append(found, m); len(found) <= page.Limit {
				last = seq
			}
			return err
		})
	}
	if err != nil {
		return nil, "", fmt.Errorf("list messages: %w", err)
	}
	if len(found) > page.Limit {
		found = found[:page.Limit]
		next = fmt.Sprintf("%d/%s", last, found[len(found)-1].Connection)
	}
	return found, next, nil
}

// connections are those that messages wait for, by name.
func (c *core) connections(ctx context.Context) (names []string, err error) {
	var name string
	err = guest.Rows(ctx, c.home.DB, c.texts.lanes, nil, func(rows *sql.Rows) error {
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// Message finds one; pawl.ErrNotFound where the box has none of this id: it never had, or the message was dispatched or
// died and its row was not kept.
func (c *core) Message(ctx context.Context, id pawl.ID) (m Message, err error) {
	found := false
	err = guest.Rows(ctx, c.home.DB, c.texts.find, []any{c.idValue(id)}, func(rows *sql.Rows) (err error) {
		found = true
		m, _, err = scanMessage(rows.Scan)
		return err
	})
	switch {
	case err != nil:
		return m, fmt.Errorf("find message %s: %w", id, err)
	case !found:
		return m, fmt.Errorf("message %s: %w", id, pawl.ErrNotFound)
	}
	return m, nil
}

func scanMessage(scan func(...any) error) (m Message, seq int64, err error) {
	var status int
	var created, ended, wait int64
	err = scan(&seq, (*idColumn)(&m.ID), &m.Connection, &status, &m.Attempts, &m.LastError, &created, &ended, &wait, &m.ClaimedBy, &m.Envelope)
	m.CreatedAt = time.UnixMilli(created).UTC()
	if wait > 0 {
		m.NextTry = time.Now().Add(time.Duration(wait) * time.Millisecond)
	}
	switch {
	case status == 2:
		m.State = Dispatched
	case status == 3:
		m.State = Dead
	case m.ClaimedBy != "" && wait == 0:
		m.State = Claimed
	case m.Attempts > 0:
		m.State = Failing
	default:
		m.State = Waiting
	}
	if ended != 0 {
		m.EndedAt, m.Envelope = time.UnixMilli(ended).UTC(), nil
		return m, seq, err
	}
	m.Kind = pawl.UndecodableKind
	if envelope, err := pawl.DecodeEnvelope(m.Envelope); err == nil {
		m.Kind, m.Queue = envelope.Kind, envelope.Policy.Queue
	}
	return m, seq, err
}

// idValue is an id as an argument.
func (c *core) idValue(id pawl.ID) any {
	if c.home.Dialect == guest.SQLite {
		return id[:]
	}
	return id.String()
}

// Retry has failing messages tried again at once, as if no claim of them had failed. Result i is nil, or pawl.ErrNotFound
// where the box has no message of id i that has not ended.
func (c *core) Retry(ctx context.Context, ids []pawl.ID) (results []error, err error) {
	results, err = c.retryOnce(ctx, ids)
	for try := 1; err != nil && isDeadlock(err) && try < mostDeadlocks; try++ {
		results, err = c.retryOnce(ctx, ids)
	}
	if err != nil {
		return nil, fmt.Errorf("retry messages: %w", err)
	}
	c.written.ring()
	return results, nil
}

// mostDeadlocks is how often in a row an operator's act may meet dispatchers that hold what it needs and need what it holds.
const mostDeadlocks = 5

// isDeadlock reports a transaction that PostgreSQL has broken off so that another one can go on.
func isDeadlock(err error) bool {
	var server interface{ SQLState() string }
	return errors.As(err, &server) && server.SQLState() == "40P01"
}

func (c *core) retryOnce(ctx context.Context, ids []pawl.ID) (results []error, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		results = make([]error, len(ids))
		for i, id := range ids {
			n, err := change(ctx, tx, c.texts.retry, c.idValue(id))
			if err != nil {
				return err
			}
			if n == 0 {
				results[i] = fmt.Errorf("message %s: %w", id, pawl.ErrNotFound)
			}
		}
		return c.announce(ctx, tx)
	})
	return results, err
}

// announce wakes dispatchers with the commit.
func (c *core) announce(ctx context.Context, tx guest.Tx) error {
	if c.home.Dialect == guest.SQLite {
		return nil
	}
	_, err := tx.ExecContext(ctx, notify, c.channel)
	return err
}

// Purge removes the kept rows of messages that were dispatched, or died, longer ago than age, a thousand in a transaction.
// It returns how many those were, also with an error: what was done before it stays done.
func (c *core) Purge(ctx context.Context, age time.Duration) (purged int, err error) {
	if age < 0 {
		return 0, &pawl.FieldError{Field: "age", Value: age, Rule: "must not be negative"}
	}
	for {
		n, err := c.purge(ctx, age, purgeBatch)
		if purged += n; err != nil || n < purgeBatch {
			return purged, err
		}
	}
}
