package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// batch is what one claim has got.
type batch struct {
	rows    []*row
	lease   int64 // 0 without rows
	claimed time.Time
}

// hand hands in the jobs of a batch. It touches nothing of the lane's state: the next claim is made meanwhile.
func (l *lane) hand(ctx context.Context, b batch) *sending {
	s := &sending{lane: l, batch: b}
	var ready []*row
	for _, r := range b.rows {
		switch {
		case r.isPast(l.config.Tries):
			r.fate, r.err = fateDead, r.lastWords(l.config.Tries)
		case r.fate == fateUnknown:
			ready = append(ready, r)
		}
	}
	s.try(ctx, ready)
	return s
}

// conclude decides what is to be recorded of a batch. Its error, which was reported, says that the lane should pause.
func (l *lane) conclude(ctx context.Context, s *sending) error {
	if s.stop == nil && s.doubt != nil && !s.up && !l.took {
		s.stop = s.doubt
	}
	settled, dead := l.sort(s)
	l.took = s.up || l.took && s.doubt == nil
	var err error
	if len(dead) > 0 {
		err = l.die(ctx, dead, &settled)
	}
	l.due = append(l.due, settled)
	if s.stop == nil {
		l.store.Over()
		l.limit = l.config.Batch
		return err
	}
	l.limit = max(l.limit/4, min(smallBatch, l.config.Batch)) // it may be that it is too slow for so many
	l.store.Report(s.stop, "given_back", len(settled.given))
	return errors.Join(s.stop, err)
}

// smallBatch is enough to tell a message that is at fault from a store that is.
const smallBatch = 10

// isPast says that a claim is the one too many: the last one was there, and nobody was heard of afterwards, or the letter
// that it led to could not be recorded.
func (r *row) isPast(tries int) bool {
	return r.attempts > tries || r.attempts == tries && r.lost > 0
}

func (r *row) lastWords(tries int) error {
	if r.attempts > tries && r.lastError != "" {
		return errors.New(r.lastError)
	}
	return fmt.Errorf("%w: %d claims, after the last %d of which nobody was heard of", errVanished, r.attempts-1, r.lost)
}

// errVanished is what a message dies of that dispatchers did not survive.
var errVanished = errors.New("its dispatchers vanished")

// open makes the job of a message, or says why that cannot be.
func (r *row) open() {
	job, envelope, err := pawl.DecodeJob(r.envelope)
	if err == nil && envelope.ID != r.id {
		err = &pawl.PoisonError{Reason: pawl.ReasonUndecodable, Err: fmt.Errorf("the envelope in message %s is of job %s", r.id, envelope.ID)}
	}
	if err != nil {
		r.fate, r.err = fateRefused, err
		return
	}
	r.job = job
	r.job.RunAt, r.job.Delay = r.runAt, r.delay
	if envelope.Policy.RetryFor > 0 {
		r.job.EnqueuedAt = r.createdAt // what counts for it is when it was written
	}
}

// sending is the handing in of one batch.
type sending struct {
	*lane
	batch
	up    bool  // the store has taken something
	doubt error // nobody knows whether a message or the store is at fault
	stop  error // the store cannot be asked; nothing more is handed in
}

// try hands in messages in their order. Where all together are refused it finds those that are at fault.
func (s *sending) try(ctx context.Context, part []*row) {
	if len(part) == 0 || s.stop != nil {
		return
	}
	err := s.enqueue(ctx, part)
	switch {
	case err == nil:
		s.up = true
		for _, r := range part {
			r.fate = fateStored
		}
	case isOutage(err):
		s.stop = err
	case len(part) == 1:
		part[0].fate, part[0].err = fateRefused, err
		if !isRefusal(err) {
			part[0].fate, s.doubt = fateUnclear, err
		}
	case s.up || isRefusal(err):
		half := len(part) / 2
		s.try(ctx, part[:half])
		s.try(ctx, part[half:])
	default:
		s.probe(ctx, part)
	}
}

// probe finds out whether the store takes anything at all: the first message, or some other.
func (s *sending) probe(ctx context.Context, part []*row) {
	other := 1 + rand.IntN(len(part)-1)
	for _, i := range []int{0, other} {
		s.try(ctx, part[i:i+1])
		if s.up || s.stop != nil {
			break
		}
	}
	if !s.up {
		return
	}
	rest := make([]*row, 0, len(part))
	for _, r := range part {
		if r.fate == fateUnknown {
			rest = append(rest, r)
		}
	}
	s.try(ctx, rest)
}

// enqueue is one call of the store.
func (s *sending) enqueue(ctx context.Context, part []*row) (err error) {
	if time.Since(s.batch.claimed) > s.config.Lease-s.config.Timeout {
		return errLeaseOver
	}
	jobs := make([]pawl.NewJob, len(part))
	for i, r := range part {
		jobs[i] = r.job
	}
	ctx, cancel := s.detached(ctx)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			err = &pawl.PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	results, err := s.target.Enqueue(ctx, jobs)
	if err == nil && len(results) != len(jobs) {
		return fmt.Errorf("the store answered for %d of %d jobs", len(results), len(jobs))
	}
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

var errLeaseOver = errors.New("the lease is nearly over")

// mostDoubted bounds what a lane remembers of messages in doubt.
const mostDoubted = 10_000

// isAtFault says of a message in doubt whether it counts as refused: when the store has taken others with it, or others
// since it was last in doubt. Where the store takes nothing nobody is to blame.
func (l *lane) isAtFault(r *row, s *sending) bool {
	if s.up || s.stop == nil && l.took && l.doubted[r.seq] {
		delete(l.doubted, r.seq)
		return true
	}
	if len(l.doubted) >= mostDoubted {
		clear(l.doubted)
	}
	l.doubted[r.seq] = true
	return false
}

// isRefusal reports an error that says of itself that the jobs are at fault.
func isRefusal(err error) bool {
	return pawl.ClassOf(err) >= pawl.ClassPermanent && !errors.Is(err, pawl.ErrSchema)
}

// isOutage reports an error that says of itself that the store cannot be asked.
func isOutage(err error) bool {
	for _, target := range []error{
		errNoAnswer, errLeaseOver, pawl.ErrClosed, pawl.ErrSchema,
		context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var network net.Error
	var server interface{ SQLState() string }
	var file interface{ Code() int }
	return errors.As(err, &network) || pawl.ClassOf(err) == pawl.ClassTransient ||
		errors.As(err, &server) && len(server.SQLState()) == 5 && slices.Contains(troubles, server.SQLState()[:2]) ||
		errors.As(err, &file) && slices.Contains(fileTroubles, file.Code()&0xff)
}

// What says that a database has trouble and not with what it is given: classes of SQLSTATE (connection, rollback, resources,
// state of objects, intervention, system), and result codes of SQLite (busy, locked, read only, I/O, full, cannot open).
var (
	troubles     = []string{"08", "40", "53", "55", "57", "58"}
	fileTroubles = []int{5, 6, 8, 10, 13, 14}
)

// sort tells what is to be recorded with the next claim from the messages that die.
func (l *lane) sort(s *sending) (settled settlement, dead []*row) {
	settled = settlement{lease: s.batch.lease, until: s.batch.claimed.Add(l.config.Lease)}
	for _, r := range s.batch.rows {
		if r.fate == fateUnclear && l.isAtFault(r, s) {
			r.fate = fateRefused
		}
		switch {
		case r.fate == fateStored:
			settled.stored = append(settled.stored, r)
		case r.fate == fateUnclear && s.stop == nil:
			settled.doubted = append(settled.doubted, r)
		case r.fate == fateDead || r.fate == fateRefused && r.attempts >= l.config.Tries:
			dead = append(dead, r)
		case r.fate == fateRefused:
			settled.refused = append(settled.refused, r)
		default:
			settled.given = append(settled.given, r)
		}
	}
	if n := len(settled.refused); n > 0 {
		first := settled.refused[0]
		l.single.Report(first.err, "message", first.id.String(), "claim", first.attempts, "refused", n)
	}
	return settled, dead
}
