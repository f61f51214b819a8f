package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// Whether turns are to be given, the time until the next token, and for how many microseconds arrivals were looked for.
	anyArrival = `with began as materialized (select clock_timestamp() as at),
seen as materialized (select began.at, exists (select 1 from {s}.arrival where n >= $1) as there from began)
select there, (select least(next_at - now(), interval '10000 days') from {s}.rate where next_at is not null order by next_at limit 1),
  (extract(epoch from clock_timestamp() - at) * 1000000)::bigint from seen`

	arrivalsNear  = 250 * time.Millisecond
	arrivalsApart = 25 * time.Millisecond
	arrivalsShare = 60                     // a look at all is followed by that many times what the walk took without one
	arrivalsQuick = 300 * time.Microsecond // such a walk may be made each time
)

// arrivalMarks are where arrivals are looked for. What was taken is dead, but stays in its table, and in the way, until vacuum may
// remove it, which an old snapshot forbids: then a look at all arrivals walks past all that there were. So where that takes long, the looks in
// between begin behind what had been taken a moment ago. They miss the arrival of a transaction that drew its number before, and
// commits only now: the next look at all of them finds it, which comes soon, and in each sweep.
type arrivalMarks struct {
	mu        sync.Mutex
	marks     []arrivalMark // by time and number
	nextWhole time.Time     // from then on all are looked at
}

// arrivalMark says that an arrival with this number had been taken by then.
type arrivalMark struct {
	at time.Time
	n  int64
}

// from is where to begin to look; 0: with the first.
func (a *arrivalMarks) from(now time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim(now)
	if !now.Before(a.nextWhole) || len(a.marks) == 0 {
		return 0
	}
	return a.marks[0].n
}

// trim forgets the marks before the one that looks begin with.
func (a *arrivalMarks) trim(now time.Time) {
	old := 0
	for old+1 < len(a.marks) && now.Sub(a.marks[old+1].at) >= arrivalsNear {
		old++
	}
	a.marks = slices.Delete(a.marks, 0, old)
}

// took notes that what was up to a number, of what is seen by now, has been taken.
func (a *arrivalMarks) took(now time.Time, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim(now)
	if last := len(a.marks) - 1; n > 0 && (last < 0 || n > a.marks[last].n && now.Sub(a.marks[last].at) >= arrivalsApart) {
		a.marks = append(a.marks, arrivalMark{now, n})
	}
}

// walked notes how long it took to walk past all arrivals.
func (a *arrivalMarks) walked(now time.Time, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextWhole = now
	if took > arrivalsQuick {
		a.nextWhole = now.Add(arrivalsShare * took)
	}
}

// lookAtAll has the next look begin with the first arrival.
func (a *arrivalMarks) lookAtAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextWhole = time.Time{}
}

// wholeIn is the time until all arrivals are looked at again.
func (a *arrivalMarks) wholeIn(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, a.nextWhole.Sub(now))
}

// queueAnyArrival asks whether turns are to be given, from an arrival on, and for the time until the next token.
func (s *Store) queueAnyArrival(batch *pgx.Batch, from int64, any *bool, token **time.Duration) {
	batch.Queue(s.sql.anyArrival, from).QueryRow(func(row pgx.Row) error {
		var took int64
		err := row.Scan(any, token, &took)
		if err == nil && from == 0 {
			s.turns.arrivals.walked(time.Now(), time.Duration(took)*time.Microsecond)
		}
		return err
	})
}

func (s *Store) anyArrival(ctx context.Context) (any bool, token *time.Duration, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		s.queueAnyArrival(batch, 0, &any, &token)
		return conn.SendBatch(ctx, batch).Close()
	})
	return any, token, err
}

// giveAllTurns is giveTurns that begins with the first arrival.
func (s *Store) giveAllTurns(ctx context.Context) {
	s.turns.arrivals.lookAtAll()
	s.giveTurns(ctx)
}
