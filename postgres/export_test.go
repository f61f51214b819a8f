package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// ChannelOf is the channel on which a schema's handles hear each other.
func ChannelOf(schema string) string {
	s, err := newSchema(schema)
	if err != nil {
		panic(err)
	}
	return s.channel
}

// Setting is one of the settings of the store's connections.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	return value, s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `select current_setting($1)`, name).Scan(&value)
	})
}

// BlockOf are the keys by which a claim keeps others away from a block of a queue, at the size with which it begins.
func BlockOf(schema string, queue, block int) string {
	s, err := newSchema(schema)
	if err != nil {
		panic(err)
	}
	return s.replace.Replace(fmt.Sprintf("hashtext('{l}') # %d # (%d << 24), %d", queue, firstBlock, block))
}

// OldestSnapshot is how an examination judges what keeps the oldest snapshot.
func OldestSnapshot(what, who string, age *time.Duration) pawl.Finding {
	e := &examination{}
	e.oldest(what, who, age)
	return e.findings[0]
}

// TurnLock is the key of the lock of whoever gives turns.
func TurnLock(schema string) int64 {
	s, err := newSchema(schema)
	if err != nil {
		panic(err)
	}
	return s.lock("turns")
}

// ForgetLimits makes the next claim by this handle read the limits again, as it does after a second.
func (s *Store) ForgetLimits() { s.forgetLimits() }

// PassArrivals has looks begin behind what was taken by now, for so long, as they do where the way there is long.
func (s *Store) PassArrivals(long time.Duration) {
	<-s.turns.turn // a look under way would change it
	defer func() { s.turns.turn <- struct{}{} }()
	a := &s.turns.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextWhole = time.Now().Add(long)
	for i := range a.marks {
		a.marks[i].at = time.Time{}
	}
}

// GiveTurns gives turns to jobs that stand in line, as hosts do that are woken.
func (s *Store) GiveTurns(ctx context.Context) { s.giveTurns(ctx) }
