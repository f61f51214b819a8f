package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// What the rows of a claim's answer are.
const (
	rowHeader = 0
	rowLane   = 1
)

// Flags of the header.
const (
	headerAlive    = 1
	headerSuspects = 2
	headerTimely   = 4
	headerArrivals = 8
)

// Flags of a lane.
const (
	laneApart = 1 // it was searched from a block of its own on, not from the first job that is free
	laneMet   = 2 // its first job is another's
)

// errEpoch refuses a claim that was overtaken by a beat that reconciled.
var errEpoch = errors.New("the session has looked for lost claims since; the next beat clears that up")

// header is what a claim's statement says of its moment.
type header struct {
	xmin, xmax int64
	rules      string // the switches of kinds
	alive      bool   // the session has not ended
	timely     bool   // and this is its epoch
	hosts      int    // sessions that have not ended
}

// exec runs a claim's statement along lanes, adds the jobs, and notes what was found in the lanes. It reports whether
// as many jobs came as were asked for.
func (c *claim) exec(ctx context.Context, text string, lanes []*lane, limit int, more ...any) (filled bool, head header, err error) {
	n := len(lanes)
	queues, starts, bounds, windows, blocks := make([]int32, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int32, n)
	for i, l := range lanes {
		queues[i], starts[i], bounds[i], windows[i], blocks[i] = c.queues[l.queue], l.start, l.bound, l.window, l.block
		l.found, l.open, l.taken, l.present, l.apart, l.met = false, false, 0, false, false, false
	}
	tokens, err := c.tokens(ctx, limit)
	if err != nil {
		return false, header{}, fmt.Errorf("draw tokens: %w", err)
	}
	args := append([]any{int64(c.request.Session), queues, starts, bounds, windows, c.kinds, limit, tokens, c.store.held.epoch(c.request.Session), blocks, int64(c.store.claims.hosts)}, more...)
	before := len(c.jobs)
	c.reserve()
	err = c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		c.jobs, c.places = c.jobs[:before], c.places[:before]
		rows, err := conn.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			switch r := row(rows.RawValues()); r.int16(0) {
			case rowHeader:
				flags := r.int32(9)
				head = header{xmin: r.int64(2), xmax: r.int64(4), hosts: int(r.int32(5)), rules: string(r[14]), alive: flags&headerAlive != 0, timely: flags&headerTimely != 0}
				c.suspects, c.now = flags&headerSuspects != 0, r.time(11)
				c.arrivals = flags&headerArrivals != 0
			case rowLane:
				lanes[r.int32(1)-1].read(r)
			default:
				c.addJob(r, lanes)
			}
		}
		return rows.Err()
	})
	if err == nil && !head.alive && c.request.Orphans == nil {
		err = sessionLost(c.request.Session)
	}
	if err == nil && head.alive && !head.timely {
		err = errEpoch
	}
	if err != nil {
		return false, header{}, err
	}
	return len(c.jobs)-before == limit, head, c.nameQueuesAndKinds(ctx, before)
}

// reserve makes room for as many jobs as the last claim has got.
func (c *claim) reserve() {
	if n := min(c.limit, c.store.claims.got); c.jobs == nil && n > 0 {
		c.jobs, c.places = make([]pawl.ClaimedJob, 0, n), make([]place, 0, n)
	}
}

// tokenStretch is how many tokens are drawn at a time; it is the increment of their sequence.
const tokenStretch = 100_000

// tokens takes so many tokens and returns the one before the first. No claim uses them again, also when it fails.
func (c *claim) tokens(ctx context.Context, n int) (before int64, err error) {
	state := c.store.claims
	if state.tokens+int64(n) > state.tokensEnd {
		err := c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, c.store.sql.takeTokens).Scan(&state.tokens)
		})
		if err != nil {
			return 0, err
		}
		state.tokensEnd = state.tokens + tokenStretch
	}
	before = state.tokens
	state.tokens += int64(n)
	return before, nil
}

func (l *lane) read(r row) {
	l.found, l.open = r[2] != nil, r.bool(10)
	if l.found {
		l.lo, l.hi = r.int64(2), r.int64(2)-1
		if r[4] != nil { // a look that begins behind what others hold may find nothing there
			l.hi = r.int64(4)
		}
		l.present = r[9] != nil && r.int32(9) != 0
		l.apart, l.met = r.int32(6)&laneApart != 0, r.int32(6)&laneMet != 0
	}
}

func (c *claim) addJob(r row, lanes []*lane) {
	at := r.int32(1) - 1
	l := lanes[at]
	seq := r.int64(2)
	if l.taken == 0 {
		l.first, l.last = seq, seq
	}
	l.first, l.last = min(l.first, seq), max(l.last, seq)
	l.taken++
	job := pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: r.id(3), Token: pawl.Token(r.int64(4))},
		Attempt:     int(r.int32(6)), Crashes: int(r.int32(7)), Requeues: int(r.int32(8)), Started: r.bool(10),
		EnqueuedAt: r.time(11), Letter: r.id(13), Envelope: r.bytes(14),
	}
	job.ReadyAt = job.EnqueuedAt
	if r[12] != nil {
		job.ReadyAt = r.time(12)
	}
	if r.int32(9)&flagSide != 0 {
		c.past = append(c.past, job.ID)
	}
	if bits := int16(r.int32(9)) & marksKept; bits != 0 {
		if c.marks == nil {
			c.marks = map[pawl.ID]int16{}
		}
		c.marks[job.ID] = bits
		c.limited = c.limited || bits&flagLinedKind != 0
	}
	c.jobs = append(c.jobs, job)
	c.places = append(c.places, place{queue: l.queue, seq: seq, kind: r.int32(5)})
}

// nameQueuesAndKinds fills in the names of the jobs from first on.
func (c *claim) nameQueuesAndKinds(ctx context.Context, first int) error {
	for i := first; i < len(c.jobs); i++ {
		job, place := &c.jobs[i], c.places[i]
		job.Queue = c.request.Queues[place.queue]
		var err error
		if job.Kind, err = c.store.text(ctx, place.kind); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) readNow(ctx context.Context) error {
	return c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `select now()`).Scan(&c.now)
	})
}

// addPast adds what is kept of the earlier life of the jobs that have one.
func (c *claim) addPast(ctx context.Context) error {
	jobs := make(map[pawl.ID]*pawl.ClaimedJob, len(c.past))
	for i := range c.jobs {
		jobs[c.jobs[i].ID] = &c.jobs[i]
	}
	err := c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		for _, job := range jobs {
			job.History = nil
		}
		batch := &pgx.Batch{}
		batch.Queue(c.store.sql.selectAttempts, idList(c.past))
		batch.Queue(c.store.sql.selectVerdicts, idList(c.past))
		results := conn.SendBatch(ctx, batch)
		err := readPast(results, func(id pawl.ID, text string) error {
			job, record := jobs[id], pawl.AttemptRecord{}
			err := json.Unmarshal([]byte(text), &record)
			job.History = append(job.History, record)
			return err
		})
		if err == nil {
			err = readPast(results, func(id pawl.ID, text string) error {
				job := jobs[id]
				job.Verdict = &pawl.DeadLetter{}
				err := json.Unmarshal([]byte(text), job.Verdict)
				job.Verdict.Envelope = job.Envelope
				return err
			})
		}
		return errors.Join(err, results.Close())
	})
	if err != nil {
		return fmt.Errorf("read earlier attempts: %w", err)
	}
	return nil
}

func readPast(results pgx.BatchResults, add func(id pawl.ID, text string) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id idColumn
	var text string
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error { return add(pawl.ID(id), text) })
	return err
}

// row is a row in PostgreSQL's binary format, whose values are valid until the next one is read.
type row [][]byte

func (r row) int16(i int) int16 { return int16(binary.BigEndian.Uint16(r[i])) }
func (r row) int32(i int) int32 { return int32(binary.BigEndian.Uint32(r[i])) }
func (r row) int64(i int) int64 { return int64(binary.BigEndian.Uint64(r[i])) }
func (r row) bool(i int) bool   { return len(r[i]) == 1 && r[i][0] != 0 }

func (r row) id(i int) (id pawl.ID) {
	copy(id[:], r[i])
	return id
}

func (r row) bytes(i int) []byte {
	return append(make([]byte, 0, len(r[i])), r[i]...)
}

// epoch is where PostgreSQL counts its microseconds from.
const epoch = 946_684_800 * 1_000_000

func (r row) time(i int) time.Time { return time.UnixMicro(r.int64(i) + epoch).UTC() }
