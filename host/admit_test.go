package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/storetest"
)

// Stored data that was changed is poison, with its bytes kept; the neighbours go on.
func TestChangedEnvelopes(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		pawl.Handle(w.mux, pawl.NewKind[workArgs]("test.other.v1", pawl.Policy{}), func(context.Context, workArgs) error {
			t.Error("the handler of another kind was run")
			return nil
		})
		flipped, renamed, moved, swapped, empty := w.put(1), w.put(2), w.put(3), w.put(4), w.put(5)
		args, err := work.New(context.Background(), pawl.Connection{}, workArgs{6})
		if err != nil {
			t.Fatal(err)
		}
		e, err := pawl.DecodeEnvelope(args.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		e.Args = json.RawMessage(`{"n":"not a number"}`)
		if _, err := w.store.Enqueue(context.Background(), []pawl.NewJob{pawl.NewJobFrom(e)}); err != nil {
			t.Fatal(err)
		}
		neighbours := w.putMany(10)
		stored := map[pawl.ID][]byte{}
		w.with(flipped, func(j *fakeJob) {
			j.Envelope = bytes.Clone(j.Envelope)
			j.Envelope[len(j.Envelope)/2] ^= 1
			stored[flipped] = j.Envelope
		})
		w.with(renamed, func(j *fakeJob) { j.Kind = "test.other.v1" })
		w.with(moved, func(j *fakeJob) { j.Queue = "1-critical" })
		w.with(swapped, func(j *fakeJob) { j.Envelope = w.store.jobs[neighbours[0]].Envelope })
		w.with(empty, func(j *fakeJob) { j.Envelope = nil })
		h := w.start()
		w.pass(time.Minute)
		h.clean()
		for _, id := range []pawl.ID{flipped, renamed, moved, swapped, empty} {
			l := w.letterOf(id)
			w.equal("death", words(l.Class, l.Reason, l.Attempts, l.StartedAt.IsZero()), "poison undecodable 0 true")
			if want := stored[id]; want != nil && !bytes.Equal(l.Envelope, want) {
				t.Errorf("the raw bytes are not kept")
			}
		}
		l := w.letterOf(e.ID)
		w.equal("wrong args", words(l.Class, l.Reason, l.Attempts), "poison wrong args 1")
		for _, id := range neighbours {
			w.equal("neighbour", w.ended(id), "done")
		}
		w.equal("error lines", len(w.deathLines()), 6)
	})
}

// A job that must not run twice: killed after the claim and before the mark it runs once; with the mark it dies as lost.
func TestOnceJobs(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var marks, slow atomic.Bool
		slow.Store(true)
		store.Hook("Start", func(ctx context.Context, call func() error) error {
			if slow.Load() {
				<-ctx.Done() // the process dies before
				return ctx.Err()
			}
			marks.Store(true)
			return call()
		})
		var runs, after atomic.Int64
		pawl.Handle(w.mux, once, func(ctx context.Context, args workArgs) error {
			if !marks.Load() {
				t.Error("run without a mark")
			}
			runs.Add(1)
			if args.N == 2 {
				<-ctx.Done() // the process dies during
				after.Add(1)
			}
			return ctx.Err()
		})
		before := w.putOf(once, 1)
		h := w.startOn(store)
		w.pass(time.Second)
		w.kill(h.Stats().Session)
		slow.Store(false)
		w.pass(2 * time.Minute)
		w.equal("killed before the mark", words(w.ended(before), runs.Load()), "done 1")

		during := w.putOf(once, 2)
		w.pass(time.Second)
		w.kill(h.Stats().Session)
		w.pass(time.Minute)
		l := w.letterOf(during)
		w.equal("killed with the mark", words(l.Class, l.Reason, l.Reason.OutcomeUnknown(), runs.Load()), "transient-exhausted lost true 2")
		h.clean()
	})
}

// The write of a start mark fails, before the store or after its commit: nothing runs until one is known to be there,
// and then the handler runs once.
func TestStartMarkFails(t *testing.T) {
	for _, when := range []storetest.When{storetest.Before, storetest.After} {
		t.Run(when.String(), func(t *testing.T) {
			virtual(t, func(w *world) {
				store := storetest.Fail(w.store)
				var fails atomic.Int64
				fails.Store(3)
				store.Hook("Start", func(_ context.Context, call func() error) error {
					if fails.Add(-1) < 0 {
						return call()
					}
					if when == storetest.After {
						_ = call()
					}
					return errDown
				})
				var runs atomic.Int64
				pawl.Handle(w.mux, once, func(context.Context, workArgs) error {
					runs.Add(1)
					if fails.Load() >= 0 {
						t.Error("run without a known mark")
					}
					return nil
				})
				id := w.putOf(once, 1)
				h := w.startOn(store)
				w.pass(time.Minute)
				w.equal("end and runs", words(w.ended(id), runs.Load()), "done 1")
				h.clean()
			})
		})
	}
}

// Jobs of unknown kinds wait; once they are orphans they are buried, also in queues that nobody serves.
func TestOrphans(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Orphans = &pawl.Orphans{Unseen: 48 * time.Hour, Ready: 24 * time.Hour}
		w.handle(func(context.Context, workArgs) error { return nil })
		id := w.putOf(once, 1, pawl.InQueue("9-nobody"))
		h := w.start()
		w.pass(23 * time.Hour)
		w.equal("after 23 hours", w.ended(id), "")
		w.pass(2 * time.Hour)
		h.clean()
		l := w.letterOf(id)
		w.equal("death", words(l.Class, l.Reason, l.Attempts), "poison unknown kind 0")
		w.equal("error lines", w.deathLines()[id.String()], 1)
	})
}

func TestUnknownKindsDieAtOnceWhereToldSo(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Orphans = &pawl.Orphans{}
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.start()
		w.pass(time.Hour)
		id, known := w.putOf(once, 1), w.put(2)
		w.pass(3 * time.Second)
		w.equal("ends", words(w.ended(id), w.ended(known)), "dead done")
		h.clean()
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	mux := pawl.NewMux()
	pawl.Handle(mux, work, func(context.Context, workArgs) error { return nil })
	broken := pawl.NewMux()
	pawl.Handle(broken, work, func(context.Context, workArgs) error { return nil })
	pawl.Handle(broken, work, func(context.Context, workArgs) error { return nil })
	queues := []string{"2-default"}
	plain := struct{ pawl.Store }{newFake()}
	for name, c := range map[string]struct {
		store  pawl.Store
		mux    *pawl.Mux
		config host.Config
		want   []string // in the error's text
	}{
		"no store":            {mux: mux, want: []string{"store", "must be given"}},
		"no mux":              {store: newFake(), want: []string{"mux", "must be given"}},
		"mux with errors":     {store: newFake(), mux: broken, want: []string{"test.work.v1", "twice"}},
		"no handler":          {store: newFake(), mux: pawl.NewMux(), want: []string{"at least one handler"}},
		"no servers":          {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{}}, want: []string{"Servers"}},
		"server without name": {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{{Queues: queues, Workers: 1}}}, want: []string{"Servers[0].Name"}},
		"same server twice": {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{
			{Name: "io", Queues: queues, Workers: 1}, {Name: "IO", Queues: queues, Workers: 1},
		}}, want: []string{"Servers[1].Name", `"io"`, "once"}},
		"no queues":   {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{{Name: "io", Workers: 1}}}, want: []string{"Servers[0].Queues"}},
		"empty queue": {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{{Name: "io", Queues: []string{""}, Workers: 1}}}, want: []string{"Servers[0].Queues"}},
		"weights": {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{{
			Name: "io", Queues: []string{"a", "b", "c"}, Workers: 1, Weights: map[string]int{"a": 0, "b": -1, "d": 1_000_001},
		}}}, want: []string{`Servers[0].Weights "c"`, `Servers[0].Weights "d"`, "Weights[a]", "Weights[b]", "Weights[d]"}},
		"bad names": {store: newFake(), mux: mux, config: host.Config{
			Name: "a\x00b", Version: "\xff", Servers: []host.Server{{Name: "i\no", Queues: []string{"a\nb"}, Workers: 1}},
		}, want: []string{"Name", "Version", "Servers[0].Name", "Servers[0].Queues", "control characters", "valid UTF-8"}},
		"no workers": {store: newFake(), mux: mux, config: host.Config{Servers: []host.Server{{Name: "io", Queues: queues}}}, want: []string{"Servers[0].Workers", `"0"`}},
		"ladder": {
			store: newFake(), mux: mux, config: host.Config{Drain: host.Drain{Handler: 2 * time.Minute}},
			want: []string{"Drain.Handler", "2m0s", "Drain.Server", "2m0s"},
		},
		"outer ladder": {
			store: newFake(), mux: mux, config: host.Config{Drain: host.Drain{Host: time.Minute}},
			want: []string{"Drain.Server", "2m0s", "Drain.Host", "1m0s"},
		},
		"negative rung": {store: newFake(), mux: mux, config: host.Config{Drain: host.Drain{Handler: -1}}, want: []string{"Drain.Handler", "greater than 0"}},
		"rhythm": {
			store: newFake(), mux: mux, config: host.Config{Intervals: host.Intervals{Silence: 30 * time.Second}},
			want: []string{"Intervals.Silence", "30s", "Intervals.DeadAfter", "20s"},
		},
		"negative interval":  {store: newFake(), mux: mux, config: host.Config{Intervals: host.Intervals{Poll: -1}}, want: []string{"Intervals.Poll"}},
		"sink twice":         {store: newFake(), mux: mux, config: host.Config{Sinks: []pawl.Sink{&sink{name: "a"}, &sink{name: "a"}}}, want: []string{"Sinks[1].Name", "once"}},
		"nil sink":           {store: newFake(), mux: mux, config: host.Config{Sinks: []pawl.Sink{nil}}, want: []string{"Sinks[0]"}},
		"sink without name":  {store: newFake(), mux: mux, config: host.Config{Sinks: []pawl.Sink{&sink{}}}, want: []string{"Sinks[0].Name"}},
		"nil classifier":     {store: newFake(), mux: mux, config: host.Config{Classifiers: []pawl.Classifier{nil}}, want: []string{"Classifiers[0]"}},
		"negative unsettled": {store: newFake(), mux: mux, config: host.Config{MaxUnsettled: -1}, want: []string{"MaxUnsettled"}},
		"negative orphans":   {store: newFake(), mux: mux, config: host.Config{Orphans: &pawl.Orphans{Ready: -1}}, want: []string{"Orphans"}},
		"no letters":         {store: plain, mux: mux, want: []string{"DeadLetters", "must be given"}},
		"letters twice":      {store: newFake(), mux: mux, config: host.Config{DeadLetters: newFake()}, want: []string{"DeadLetters", "must not be given"}},
		"sinks without alerts": {
			store: plain, mux: mux, config: host.Config{DeadLetters: &elsewhere{}, Sinks: []pawl.Sink{&sink{name: "a"}}},
			want: []string{"Sinks", "no alerts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.New(c.store, c.mux, c.config)
			if !errors.Is(err, pawl.ErrInvalid) {
				t.Fatalf("error is %v", err)
			}
			for _, want := range c.want {
				if !bytes.Contains([]byte(err.Error()), []byte(want)) {
					t.Errorf("no %q in %q", want, err)
				}
			}
		})
	}
	if _, err := host.New(newFake(), mux, host.Config{}); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
}

// The default servers, as other hosts see them.
func TestDefaultServers(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Name = "DESK-7"
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.start()
		w.pass(time.Second)
		info := w.store.sessions[h.Stats().Session].info
		w.equal("name and kinds", words(info.Name, info.Kinds, info.Version), "desk-7 [test.work.v1] v1")
		w.equal("io", words(info.Servers[0]), "{desk-7:worker-io [1-critical 2-default] map[] 20}")
		w.equal("cpu", words(info.Servers[1].Name, info.Servers[1].Queues, info.Servers[1].Workers >= 2), "desk-7:worker-cpu [3-bulk] true")
		h.clean()
	})
}

// markless is a store that refuses some start marks by themselves.
type markless struct {
	*fakeStore
	refuse atomic.Int64
}

func (m *markless) Start(ctx context.Context, id pawl.SessionID, rs []pawl.Reservation) ([]error, error) {
	errs, err := m.fakeStore.Start(ctx, id, rs)
	for i := range errs {
		if m.refuse.Add(-1) >= 0 {
			errs[i] = errors.New("the row is locked")
		}
	}
	return errs, err
}

// A start mark that is refused by itself: its job is given back uncounted and runs when the mark is accepted.
func TestStartMarkIsRefused(t *testing.T) {
	virtual(t, func(w *world) {
		store := &markless{fakeStore: w.store}
		store.refuse.Store(3)
		var runs, attempts atomic.Int64
		pawl.Handle(w.mux, once, func(ctx context.Context, _ workArgs) error {
			runs.Add(1)
			attempts.Add(int64(pawl.FromContext(ctx).Attempt))
			return nil
		})
		first, second := w.putOf(once, 1), w.putOf(once, 2)
		h := w.startOn(store)
		w.pass(10 * time.Second)
		w.equal("ends", words(w.ended(first), w.ended(second)), "done done")
		w.equal("runs, attempts, given back", words(runs.Load(), attempts.Load(), h.Stats().GivenBack), "2 2 3")
		h.clean()
	})
}

// What a handler does to its args does not reach the evidence.
func TestHandlerChangesItsArgs(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error {
			clear(pawl.FromContext(ctx).Args)
			return pawl.Permanent(errors.New("no"))
		})
		id := w.put(7)
		h := w.start()
		w.pass(time.Second)
		h.clean()
		e, err := pawl.DecodeEnvelope(w.letterOf(id).Envelope)
		w.equal("args in the letter", words(string(e.Args), err), `{"n":7} <nil>`)
	})
}
