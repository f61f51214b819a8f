package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// presence is this host's session in the store: it opens it, beats, and replaces one that was lost.
type presence struct {
	host     *Host
	kick     chan struct{}
	observer *observer // of the beating goroutine alone
	switches int64     // of the beating goroutine alone
	failures int       // of the beating goroutine alone
	trouble  *trouble.Trouble

	mu      sync.Mutex
	id      pawl.SessionID // 0: none
	beatAt  time.Time      // when the last successful beat was sent
	renewed chan struct{}  // closed at the next successful beat
}

func newPresence(h *Host) *presence {
	i := h.config.Intervals
	return &presence{
		host: h, kick: make(chan struct{}, 1), renewed: make(chan struct{}),
		observer: newObserver(i.Beat, i.DeadAfter), trouble: trouble.New(h.log, "the host's heartbeat fails"),
	}
}

func (p *presence) lastBeat() (pawl.SessionID, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.beatAt
}

// fresh returns the session, and whether the host may start work under it: its last successful beat is recent, by the
// clock on the wall too, which goes on while a machine is suspended.
func (p *presence) fresh() (pawl.SessionID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.isFresh()
}

func (p *presence) isFresh() bool {
	now := time.Now()
	silent := max(now.Sub(p.beatAt), now.Round(0).Sub(p.beatAt.Round(0)))
	return p.id != 0 && silent <= p.host.config.Intervals.Silence
}

// await returns the session as soon as work may be started under it.
func (p *presence) await(ctx context.Context) (pawl.SessionID, error) {
	for ctx.Err() == nil {
		p.mu.Lock()
		id, fresh, renewed := p.id, p.isFresh(), p.renewed
		p.mu.Unlock()
		if fresh {
			return id, nil
		}
		p.nudge()
		select {
		case <-renewed:
		case <-ctx.Done():
		}
	}
	return 0, ctx.Err()
}

// nextBeat returns a channel that is closed at the next successful beat.
func (p *presence) nextBeat() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// still asks by a beat whether a session is the present one: nil if so, else lost.
func (p *presence) still(ctx context.Context, id pawl.SessionID, lost error) error {
	renewed := p.nextBeat()
	p.nudge()
	select {
	case <-renewed:
	case <-ctx.Done():
		return fmt.Errorf("ask for the session: %w", context.Cause(ctx))
	}
	if now, _ := p.lastBeat(); now != id {
		return lost
	}
	return nil
}

// nudge asks for a beat now.
func (p *presence) nudge() { signal(p.kick) }

func (p *presence) renew(id pawl.SessionID, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.beatAt = id, sent
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// start opens the first session. It tries until ctx is done, unless the store says that trying is useless.
func (p *presence) start(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.open(ctx)
		if err == nil {
			p.failures = 0
			p.trouble.Over()
		}
		if err == nil || pawl.ClassOf(err) == pawl.ClassPermanent || errors.Is(err, pawl.ErrClosed) {
			return err
		}
		p.failed(err)
		pause(ctx, backoff(p.failures, p.host.config.Intervals.Beat))
	}
	return nil
}

// run beats until ctx is done.
func (p *presence) run(ctx context.Context) {
	timer := time.NewTimer(p.host.config.Intervals.Beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.kick:
		}
		if err := p.turn(ctx); err != nil && ctx.Err() == nil {
			p.failed(err)
			pause(ctx, backoff(p.failures, p.host.config.Intervals.Beat))
			signal(p.kick)
			continue
		}
		p.failures = 0
		p.trouble.Over()
		timer.Reset(p.host.config.Intervals.Beat)
	}
}

func (p *presence) failed(err error) {
	p.failures++
	p.trouble.Report(err)
}

// turn beats, or opens a session when there is none.
func (p *presence) turn(ctx context.Context) error {
	id, _ := p.lastBeat()
	if id != 0 {
		err := p.beat(ctx, id)
		if !errors.Is(err, pawl.ErrSessionLost) {
			return err
		}
		p.lose(id, err)
	}
	return p.open(ctx)
}

func (p *presence) open(ctx context.Context) error {
	h := p.host
	info := h.info()
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, h.config.Intervals.Call)
	defer cancel()
	id, err := h.store.OpenSession(ctx, info)
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	h.answered()
	p.observer.blind()
	p.renew(id, sent)
	return nil
}

// lose ends all that was held under a session that the store has given up.
func (p *presence) lose(id pawl.SessionID, err error) {
	h := p.host
	p.mu.Lock()
	p.id = 0
	p.mu.Unlock()
	lost := h.held.loseSession(id)
	h.gate.reset()
	h.log.Warn("session lost; a new one is opened", "session", id, "running", lost, "error", err)
}

func (p *presence) beat(ctx context.Context, id pawl.SessionID) error {
	h := p.host
	reconcile := h.gate.begin()
	held, progress := h.held.report(id)
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*h.config.Intervals.Beat)
	defer cancel()
	reply, err := h.store.Beat(ctx, id, pawl.Beat{
		Held: held, Busy: int(h.counters.running.Load()), Draining: h.draining.Load(), Progress: progress, Reconcile: reconcile,
		Unsettled: int(h.counters.unsettled.Load()),
	})
	if err != nil {
		h.gate.end(reconcile, false)
		h.held.unreported(progress)
		p.observer.blind()
		return fmt.Errorf("beat: %w", err)
	}
	h.answered()
	if reconcile {
		h.giveBackFound(id, reply.Found)
	}
	h.gate.end(reconcile, true)
	p.renew(id, sent)
	p.obey(id, reply)
	return nil
}

// obey does what a beat's reply asks for.
func (p *presence) obey(id pawl.SessionID, reply pawl.BeatReply) {
	h := p.host
	h.held.lose(reply.Lost)
	h.held.cancel(reply.Cancel)
	if reply.Quiet {
		h.Quiet()
	}
	if reply.Drain && h.config.OnDrain != DrainRefused {
		h.drainly.Do(func() { close(h.drained) })
	}
	h.sweeper.bury(p.observer.look(time.Now(), reply.Others))
	if n := p.observer.unproven(); h.unproven.Swap(n) != n && h.config.StopWhenEmpty {
		h.wakeServers()
	}
	if reply.Switches != p.switches {
		p.switches = reply.Switches
		h.wakeServers()
	}
}

// giveBackFound puts back what the session holds and this host never heard of.
func (h *Host) giveBackFound(id pawl.SessionID, found []pawl.Reservation) {
	for _, r := range found {
		h.settler.add(&entry{session: id, Settlement: pawl.Settlement{Reservation: r, Outcome: pawl.GiveBack{}}})
	}
	if len(found) > 0 {
		h.log.Warn("claims whose reply was lost are given back", "jobs", len(found))
	}
}
