package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// lane carries the messages of one connection, so that a store that is down holds up none but its own.
type lane struct {
	*Dispatcher
	connection string
	target     pawl.Enqueuer
	woken      chan struct{} // something was committed
	written    chan struct{} // something was written here, and may be committed soon

	after    int64     // claims begin behind this number: nothing that is ready is known to lie before
	rescan   time.Time // when they begin at the front again
	limit    int       // rows of the next claim
	failures int       // in a row

	took    bool           // the store has taken something since a batch was last in doubt
	doubted map[int64]bool // rows that were in doubt, by number
	due     []settlement   // what became of the last batches, to be recorded with the next claim

	database *trouble.Trouble // the box cannot be read or written
	store    *trouble.Trouble // the target is down
	single   *trouble.Trouble // messages that are refused
	deaths   *trouble.Trouble // letters cannot be recorded
	late     *trouble.Trouble // leases that ended too soon
}

func newLane(d *Dispatcher, connection string, target pawl.Enqueuer) *lane {
	log := d.config.Logger.With("connection", connection)
	return &lane{
		Dispatcher: d, connection: connection, target: target, limit: d.config.Batch,
		woken: make(chan struct{}, 1), written: make(chan struct{}, 1), doubted: map[int64]bool{},
		database: trouble.New(log, "the outbox cannot be read or written; its messages wait"),
		store:    trouble.New(log, "the store takes no messages from the outbox; they wait"),
		single:   trouble.New(log, "messages of the outbox are refused; they are kept and tried again until their last claim"),
		deaths:   trouble.New(log, "deaths of outbox messages cannot be recorded; they are kept and tried again"),
		late:     trouble.New(log, "messages were dispatched and their lease was over; they are dispatched again, which changes nothing"),
	}
}

// run dispatches until ctx is done. While a batch is handed in the next one is claimed, so that neither the box nor the
// store waits for the other.
func (l *lane) run(ctx context.Context) {
	var next batch
	for ctx.Err() == nil {
		var err error
		next, err = l.round(ctx, next)
		switch {
		case err != nil && ctx.Err() == nil:
			l.failures++
			wait(ctx, backoff(l.failures))
		case err == nil && len(next.rows) == 0 && len(l.due) == 0:
			l.failures = 0
			l.rest(ctx)
		case err == nil:
			l.failures = 0
		}
	}
	l.giveBack(next)
	for try := 1; len(l.due) > 0 && l.flush(ctx) != nil && try < lastTries; try++ {
		time.Sleep(backoff(try))
	}
}

// round hands in one batch and claims the next. Its error was reported.
func (l *lane) round(ctx context.Context, now batch) (next batch, err error) {
	if len(now.rows) == 0 {
		return l.claim(ctx)
	}
	var s *sending
	if len(now.rows) < l.limit {
		s = l.hand(ctx, now)
	} else {
		handed := make(chan *sending)
		go func() { handed <- l.hand(ctx, now) }()
		next, err = l.claim(ctx)
		s = <-handed
	}
	if failure := l.conclude(ctx, s); failure != nil {
		err = failure
	}
	if err != nil {
		l.giveBack(next)
		l.after = 0
		return batch{}, errors.Join(err, l.flush(ctx))
	}
	return next, nil
}

// giveBack puts down that a batch was not handed in.
func (l *lane) giveBack(b batch) {
	if len(b.rows) > 0 {
		l.due = append(l.due, settlement{lease: b.lease, until: b.claimed.Add(l.config.Lease), given: b.rows})
	}
}

// lastTries is how often a lane that ends tries to record what became of its last batch. What it cannot is dispatched
// again by others, when its lease is over, and known to the store.
const lastTries = 3

// claim takes messages, from where the last claim ended, or from the front. Its error was reported.
func (l *lane) claim(ctx context.Context) (batch, error) {
	began := time.Now()
	if !began.Before(l.rescan) {
		l.after = 0
	}
	front := l.after == 0
	b, err := l.take(ctx)
	if err == nil && len(b.rows) == 0 && !front && l.mayRescan() {
		l.after, front, began = 0, true, time.Now()
		b, err = l.take(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.database.Report(err)
		}
		return batch{}, err
	}
	l.database.Over()
	if front {
		// Looking from the front is dear where many messages lie there that are not ready: it takes a small part of the time.
		l.rescan = time.Now().Add(max(l.config.Poll, 20*time.Since(began)))
	}
	if len(b.rows) > 0 {
		l.after = b.rows[len(b.rows)-1].seq
	}
	b.claimed = began
	for _, r := range b.rows { // while the batch before is handed in
		r.open()
	}
	return b, nil
}

// mayRescan lets a lane that has come to the end look from the front before it rests, if that is cheap.
func (l *lane) mayRescan() bool { return time.Until(l.rescan) <= l.config.Poll }

// take makes the next claim, and records with it what became of the last one. What it began it ends: a claim whose reply
// nobody waits for would keep its messages for as long as the lease.
func (l *lane) take(ctx context.Context) (batch, error) {
	if ctx.Err() != nil {
		return batch{}, context.Cause(ctx)
	}
	ctx, cancel := l.detached(ctx)
	defer cancel()
	return l.exchange(ctx, &claimRequest{
		connection: l.connection, owner: l.owner, after: l.after, limit: l.limit, lease: l.config.Lease,
	})
}

// flush records what became of the last claim, also when the dispatcher is to end.
func (l *lane) flush(ctx context.Context) error {
	ctx, cancel := l.detached(ctx)
	defer cancel()
	_, err := l.exchange(ctx, nil)
	if err != nil {
		l.database.Report(err)
	}
	return err
}

func (l *lane) exchange(ctx context.Context, request *claimRequest) (batch, error) {
	l.due = slices.DeleteFunc(l.due, func(s settlement) bool { return time.Now().After(s.until) })
	b, lost, err := l.source.exchange(ctx, l.due, request)
	if err != nil {
		return batch{}, err
	}
	for _, s := range l.due {
		l.dispatched.Add(int64(len(s.stored)))
		l.givenBack.Add(int64(len(s.given) + len(s.doubted)))
		l.refused.Add(int64(len(s.refused)))
	}
	l.due = nil
	if lost > 0 {
		l.late.Report(errLeaseOver, "messages", lost)
	}
	return b, nil
}

// rest waits until there may be messages again. What was written in this process is looked for at once and then in
// growing intervals: nothing tells of its commit but the commit.
func (l *lane) rest(ctx context.Context) {
	pause := l.config.Poll*3/4 + rand.N(l.config.Poll/4+1)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.woken:
	case <-l.written:
		l.lookout(ctx)
	}
}

// lookout asks in growing intervals whether a message has come, until it is told.
func (l *lane) lookout(ctx context.Context) {
	timer := time.NewTimer(l.soon)
	defer timer.Stop()
	for pause := l.soon; pause < l.config.Poll; pause *= 2 {
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
			return
		case <-timer.C:
		}
		select {
		case <-l.written:
			pause = l.soon
		default:
		}
		if there, err := l.ready(ctx); there || err != nil {
			return
		}
	}
}

func (l *lane) ready(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.config.Timeout, errNoAnswer)
	defer cancel()
	return l.source.ready(ctx, l.connection, l.after)
}
