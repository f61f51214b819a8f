package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// The write of an acknowledgement fails once, before the store or after its commit: it is repeated, and neither the job
// nor its neighbours are left behind or run again.
func TestSettleFailsOnce(t *testing.T) {
	for _, when := range []storetest.When{storetest.Before, storetest.After} {
		t.Run(when.String(), func(t *testing.T) {
			virtual(t, func(w *world) {
				store := storetest.Fail(w.store)
				var failed atomic.Bool
				store.Hook("Settle", func(_ context.Context, call func() error) error {
					if failed.Swap(true) {
						return call()
					}
					if when == storetest.After {
						_ = call()
					}
					return errDown
				})
				var runs atomic.Int64
				w.handle(func(context.Context, workArgs) error { runs.Add(1); return nil })
				ids := w.putMany(10)
				h := w.startOn(store)
				w.pass(2 * time.Second)
				for _, id := range ids {
					w.equal("end", w.ended(id), "done")
				}
				w.equal("runs", runs.Load(), 10)
				w.equal("counted", words(h.Stats().Succeeded, h.Stats().Unsettled, h.Stats().Settling), "10 0 0")
				h.clean()
			})
		})
	}
}

// A member that makes the whole call fail, again and again, is found and does not hold up the others.
func TestBadMemberIsIsolated(t *testing.T) {
	virtual(t, func(w *world) {
		store := &allergic{fakeStore: w.store, to: map[pawl.ID]bool{}}
		w.handle(func(context.Context, workArgs) error { return nil })
		ids := w.putMany(200)
		w.config.Servers = oneServer(200)
		bad := []pawl.ID{ids[17], ids[170]}
		store.to[bad[0]], store.to[bad[1]] = true, true
		h := w.startOn(store)
		w.pass(30 * time.Second)
		for _, id := range ids {
			if want := map[bool]string{true: "", false: "done"}[store.to[id]]; w.ended(id) != want {
				t.Errorf("job %s ended %q, want %q", id, w.ended(id), want)
			}
		}
		w.equal("unsettled", h.Stats().Unsettled, 2)
		if n := len(w.lines.at(slog.LevelWarn, "")); n == 0 || n > 10 {
			t.Errorf("%d warnings", n)
		}
		store.mu.Lock()
		clear(store.to)
		calls := len(store.batches)
		store.mu.Unlock()
		if calls > 200 {
			t.Errorf("%d calls", calls)
		}
		w.pass(10 * time.Second)
		w.equal("unsettled", h.Stats().Unsettled, 0)
		w.equal("ends", w.ended(bad[0])+w.ended(bad[1]), "donedone")
		h.clean()
	})
}

// allergic is a store whose Settle fails as a whole when certain jobs are in the batch.
type allergic struct {
	*fakeStore
	to map[pawl.ID]bool
}

func (a *allergic) Settle(ctx context.Context, id pawl.SessionID, ss []pawl.Settlement) ([]error, error) {
	a.mu.Lock()
	for _, s := range ss {
		if a.to[s.ID] {
			a.batches = append(a.batches, len(ss))
			a.mu.Unlock()
			return nil, errors.New("the statement failed")
		}
	}
	a.mu.Unlock()
	return a.fakeStore.Settle(ctx, id, ss)
}

// The table of dead letters cannot be written at the moment of death: the verdict is kept on the job, the slot is free,
// the handler is not run again, and the record is made when the table is back. Its one Error line comes then.
func TestDeathThatCannotBeRecorded(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(1)
		var broken atomic.Bool
		broken.Store(true)
		w.store.refuse = func(s pawl.Settlement) error {
			if _, dead := s.Outcome.(pawl.Dead); dead && broken.Load() {
				return errors.New("no space left")
			}
			return nil
		}
		var runs atomic.Int64
		w.handle(func(_ context.Context, args workArgs) error {
			runs.Add(1)
			if args.N == 1 {
				return pawl.Permanent(errors.New("no"))
			}
			return nil
		})
		id := w.put(1)
		h := w.start()
		w.pass(time.Second)
		neighbour := w.put(2)
		w.pass(time.Minute)
		w.equal("neighbour", w.ended(neighbour), "done")
		w.equal("verdict is kept", w.look(id).claim.Verdict != nil, true)
		w.equal("unsettled", h.Stats().Unsettled, 1)
		w.equal("error lines", len(w.deathLines()), 0)
		w.equal("leases lost", h.Stats().LeasesLost, 0)
		broken.Store(false)
		w.pass(10 * time.Second)
		w.equal("end", w.ended(id), "dead")
		w.equal("runs", runs.Load(), 2)
		w.equal("error lines", w.deathLines()[id.String()], 1)
		w.equal("unsettled", h.Stats().Unsettled, 0)
		h.clean()
	})
}

// The same, and the host dies meanwhile: the next holder buries the job from its verdict.
func TestVerdictOutlivesItsHost(t *testing.T) {
	virtual(t, func(w *world) {
		var broken atomic.Bool
		broken.Store(true)
		w.store.refuse = func(s pawl.Settlement) error {
			if s.Letter != nil && broken.Load() {
				return errors.New("no space left")
			}
			return nil
		}
		var runs atomic.Int64
		w.handle(func(context.Context, workArgs) error {
			runs.Add(1)
			return pawl.Permanent(errors.New("no"))
		})
		id := w.put(1)
		first := w.start()
		w.pass(time.Second)
		token := w.look(id).claim.Token
		w.kill(first.Stats().Session)
		w.pass(20 * time.Second) // it opens a new session, claims the job, and cannot bury it either
		broken.Store(false)
		w.pass(10 * time.Second)
		w.equal("end", w.ended(id), "dead")
		w.equal("runs", runs.Load(), 1)
		w.equal("letter of the first death", w.letterOf(id).ID, pawl.LetterID("default", id, token))
		w.equal("error lines", w.deathLines()[id.String()], 1)
		first.clean()
	})
}

// While nothing can be settled the host stops claiming at its limit, and goes on afterwards.
func TestUnsettledAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var broken atomic.Bool
		broken.Store(true)
		fail := func(_ context.Context, call func() error) error {
			if broken.Load() {
				return errDown
			}
			return call()
		}
		store.Hook("Settle", fail)
		store.Hook("Condemn", fail)
		w.config.MaxUnsettled = 50
		w.config.Servers = oneServer(10)
		w.config.Logger = slog.New(slog.DiscardHandler)
		var runs atomic.Int64
		w.handle(func(_ context.Context, args workArgs) error {
			runs.Add(1)
			if args.N%2 == 0 {
				return pawl.Permanent(errors.New("no"))
			}
			return nil
		})
		w.putMany(200)
		h := w.startOn(store)
		w.pass(10 * time.Minute)
		if n := runs.Load(); n < 50 || n > 60 {
			t.Errorf("%d jobs were run while nothing could be settled", n)
		}
		if calls := store.Calls(); calls > 20_000 {
			t.Errorf("%d calls", calls)
		}
		broken.Store(false)
		w.pass(20 * time.Second)
		w.equal("runs", runs.Load(), 200)
		w.equal("died and done", words(h.Stats().Died(), h.Stats().Succeeded), "100 100")
		h.clean()
	})
}

// An operation is durable when it returns: while the store is down it waits, ends with its ctx, and leaves the attempt
// unfinished.
func TestOperationWithoutAStore(t *testing.T) {
	virtual(t, func(w *world) {
		store := newOutage(w.store)
		w.handle(func(ctx context.Context, _ workArgs) error {
			job := pawl.FromContext(ctx)
			if job.Attempt > 1 {
				return nil
			}
			store.down.Store(true)
			short, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			if err := job.Release(short, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("released without a store: %v", err)
			}
			w.equal("finished", job.Finished(), false)
			store.down.Store(false)
			w.equal("the second try", job.Release(ctx, time.Second), nil)
			return nil
		})
		id := w.put(1)
		h := w.startOn(store)
		w.pass(time.Minute)
		w.equal("end", w.ended(id), "done")
		w.equal("released", words(h.Stats().Released, h.Stats().Settling), "1 0")
		h.clean()
	})
}

// The answer to an operation takes long, and beats find the reservation gone meanwhile: that is its own doing, and no
// reason to cancel the handler.
func TestSlowAnswerToAnOperation(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		store.Hook("Settle", func(_ context.Context, call func() error) error {
			err := call()
			time.Sleep(12 * time.Second)
			return err
		})
		w.handle(func(ctx context.Context, _ workArgs) error {
			w.equal("delete", pawl.FromContext(ctx).Delete(ctx), nil)
			time.Sleep(12 * time.Second)
			w.equal("cause", context.Cause(ctx), nil)
			return nil
		})
		id := w.put(1)
		h := w.startOn(store)
		w.pass(time.Minute)
		w.equal("end", w.ended(id), "done")
		w.equal("leases lost", h.Stats().LeasesLost, 0)
		h.clean()
	})
}

// An operation that the store refuses by itself fails at once, and the handler's error decides.
func TestOperationThatIsRefused(t *testing.T) {
	virtual(t, func(w *world) {
		w.store.refuse = func(s pawl.Settlement) error {
			if s.Letter != nil && s.Letter.Reason == pawl.ReasonExplicit {
				return errors.New("no space left")
			}
			return nil
		}
		w.handle(func(ctx context.Context, _ workArgs) error {
			err := pawl.FromContext(ctx).Fail(ctx, errors.New("I say so"))
			if err == nil {
				t.Error("Fail was accepted")
			}
			return pawl.Permanent(fmt.Errorf("could not fail: %w", err))
		})
		id := w.put(1)
		h := w.start()
		w.pass(time.Second)
		h.clean()
		w.equal("reason", w.letterOf(id).Reason, pawl.ReasonPermanent)
		w.equal("error lines", len(w.deathLines()), 1)
	})
}

// elsewhere keeps the letters of a store that keeps none.
type elsewhere struct {
	pawl.DeadLetters
	fake  *fakeStore
	mu    sync.Mutex
	fails int // calls of RecordDeaths that fail, every other one after it has written
}

func (e *elsewhere) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails > 0 {
		e.fails--
		if e.fails%2 == 0 {
			_, _ = e.fake.RecordDeaths(ctx, letters)
		}
		return nil, errDown
	}
	return e.fake.RecordDeaths(ctx, letters)
}

func (e *elsewhere) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	return e.fake.Letter(ctx, id)
}

// The store keeps no letters: a death is written as a verdict, then recorded elsewhere, and only then is the job
// removed; a repeat after a fault finds the record.
func TestDeathsElsewhere(t *testing.T) {
	for _, fails := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			virtual(t, func(w *world) {
				letters := &elsewhere{fake: newFake(), fails: fails}
				w.config.DeadLetters = letters
				w.store.refuse = func(s pawl.Settlement) error {
					if s.Letter == nil {
						return nil
					}
					if _, err := letters.Letter(context.Background(), s.Letter.ID); err != nil {
						t.Error("a job is removed before its death is recorded")
					}
					if w.store.jobs[s.ID].claim.Verdict == nil {
						t.Error("a job is removed without a verdict")
					}
					return nil
				}
				w.handle(func(_ context.Context, args workArgs) error {
					if args.N%2 == 0 {
						return pawl.Permanent(errors.New("no"))
					}
					return nil
				})
				ids := w.putMany(10)
				h := w.startOn(struct{ pawl.Store }{w.store})
				w.pass(time.Minute)
				h.clean()
				w.equal("letters", len(letters.fake.letters), 5)
				for n, id := range ids {
					w.equal("end", w.ended(id), map[bool]string{true: "dead", false: "done"}[n%2 == 0])
				}
				lines := w.deathLines()
				w.equal("error lines", len(lines), 5)
				for id, n := range lines {
					w.equal("error lines of "+id, n, 1)
				}
			})
		})
	}
}

// An operation that finds the store busy fails soon: perhaps it is the handler itself that keeps it busy.
func TestOperationOnABusyStore(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var busy atomic.Bool
		store.Hook("Settle", func(_ context.Context, call func() error) error {
			if busy.Load() {
				return fmt.Errorf("locked: %w", pawl.ErrBusy)
			}
			return call()
		})
		var took time.Duration
		w.handle(func(ctx context.Context, _ workArgs) error {
			busy.Store(true)
			defer busy.Store(false)
			begun := time.Now()
			if err := pawl.FromContext(ctx).Delete(ctx); !errors.Is(err, pawl.ErrBusy) {
				t.Errorf("got %v", err)
			}
			took = time.Since(begun)
			return nil
		})
		id := w.put(1)
		h := w.startOn(store)
		w.pass(30 * time.Second)
		w.equal("soon", took < 10*time.Second, true)
		w.equal("end", w.ended(id), "done")
		h.clean()
	})
}

// deaf is a store that wakes nobody.
type deaf struct{ *storetest.Faulty }

func (deaf) Wake(context.Context) (<-chan struct{}, error) { return make(chan struct{}), nil }

// A server that found too much unsettled is woken when that is over, also when it became too much during a write that
// began with little.
func TestFullSettlerStallsNobody(t *testing.T) {
	const tick = 5 * time.Millisecond
	for round := range 20 { // the order of what happens together differs
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			virtual(t, func(w *world) {
				store := storetest.Fail(w.store)
				store.Hook("Settle", func(_ context.Context, call func() error) error {
					time.Sleep(3 * time.Millisecond) // a store that takes its time
					return call()
				})
				w.handle(func(context.Context, workArgs) error {
					now := time.Now()
					time.Sleep(now.Truncate(tick).Add(tick).Sub(now)) // all of them end together
					return nil
				})
				w.config.MaxUnsettled, w.config.Servers, w.config.Intervals.Poll = 8, oneServer(12), time.Hour
				ids := w.putMany(500)
				h := w.startOn(deaf{store})
				w.pass(time.Minute)
				w.equal("done", h.Stats().Succeeded, len(ids))
				h.clean()
			})
		})
	}
}
