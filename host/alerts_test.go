package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// sink is a channel that does what a test tells it.
type sink struct {
	name    string
	deliver func(ctx context.Context, alert pawl.Alert) error

	mu   sync.Mutex
	got  []pawl.Alert
	when []time.Time
}

func (s *sink) Name() string { return s.name }

func (s *sink) Deliver(ctx context.Context, alert pawl.Alert) error {
	s.mu.Lock()
	s.got, s.when = append(s.got, alert), append(s.when, time.Now())
	s.mu.Unlock()
	if s.deliver == nil {
		return nil
	}
	return s.deliver(ctx, alert)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func dying(w *world) {
	w.handle(func(context.Context, workArgs) error { return pawl.Permanent(errors.New("no")) })
}

// A hanging, a failing, a panicking and a deaf sink delay neither each other nor a good one, and no death has more than
// one Error line.
func TestSinksAreIndependent(t *testing.T) {
	virtual(t, func(w *world) {
		dying(w)
		release := make(chan struct{})
		good := &sink{name: "good"}
		hanging := &sink{name: "hanging", deliver: func(ctx context.Context, _ pawl.Alert) error { <-ctx.Done(); return ctx.Err() }}
		deaf := &sink{name: "deaf", deliver: func(context.Context, pawl.Alert) error { <-release; return nil }}
		failing := &sink{name: "failing", deliver: func(context.Context, pawl.Alert) error { return errors.New("550 no such user") }}
		panicking := &sink{name: "panicking", deliver: func(context.Context, pawl.Alert) error { panic("boom") }}
		leaving := &sink{name: "leaving", deliver: func(context.Context, pawl.Alert) error { runtime.Goexit(); return nil }}
		w.config.Sinks = []pawl.Sink{hanging, deaf, failing, panicking, leaving, good}
		h := w.start()
		w.pass(time.Second)
		begun := time.Now()
		ids := w.putMany(20)
		w.pass(time.Second)
		w.equal("good", good.count(), 20)
		for i := range good.got {
			if len(good.got[i].Letters) != 1 || good.got[i].Attempt != 1 || good.when[i].Sub(begun) > time.Second {
				t.Errorf("alert %+v at %s", good.got[i], good.when[i].Sub(begun))
			}
		}
		w.pass(4 * time.Minute)
		w.equal("good, later", good.count(), 20)
		if n := failing.count(); n != 80 { // tries at 0 s, 15 s, 1 min and 3 min
			t.Errorf("the failing sink was called %d times", n)
		}
		if n := panicking.count(); n != 80 {
			t.Errorf("the panicking sink was called %d times", n)
		}
		if n := leaving.count(); n != 80 {
			t.Errorf("the sink that ends its goroutine was called %d times", n)
		}
		if n := deaf.count(); n > 4 || h.Stats().SinkStrays != n {
			t.Errorf("the deaf sink was called %d times, strays %d", n, h.Stats().SinkStrays)
		}
		w.equal("error lines", len(w.deathLines()), len(ids))
		w.equal("delivered", h.Stats().AlertsDelivered, 20)
		h.clean()
		close(release)
		synctest.Wait()
	})
}

// A delivery that fails is repeated with the same key, on a curve.
func TestAlertsAreRepeated(t *testing.T) {
	virtual(t, func(w *world) {
		dying(w)
		var s *sink
		s = &sink{name: "mail", deliver: func(context.Context, pawl.Alert) error {
			if s.count() < 4 {
				return errors.New("no")
			}
			return nil
		}}
		w.config.Sinks = []pawl.Sink{s}
		id := w.put(1)
		h := w.start()
		w.pass(time.Hour)
		h.clean()
		w.equal("deliveries", s.count(), 4)
		for i, alert := range s.got {
			w.equal("key", alert.Key, s.got[0].Key)
			w.equal("attempt", alert.Attempt, i+1)
			w.equal("letter", alert.Letters[0].JobID, id)
			if i == 0 {
				continue
			}
			want := pawl.AlertBackoff(i)
			if gap := s.when[i].Sub(s.when[i-1]); gap < want || gap > want+7*time.Second {
				t.Errorf("gap %d is %s, want %s", i, gap, want)
			}
		}
		w.equal("stats", words(h.Stats().AlertsDelivered, h.Stats().AlertsFailed), "1 3")
		w.equal("nothing but the death at Error", len(w.lines.at(slog.LevelError, "")), 1)
	})
}

// A delivery under way at the shutdown is finished within its budget; a deaf one does not keep the host from ending.
func TestAlertsAtTheShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		deaf  bool
		want  time.Duration
	}{
		"finishes": {takes: 6 * time.Second, want: 6 * time.Second},
		"deaf":     {deaf: true, want: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				dying(w)
				release := make(chan struct{})
				s := &sink{name: "mail", deliver: func(context.Context, pawl.Alert) error {
					if c.deaf {
						<-release
					}
					time.Sleep(c.takes)
					return nil
				}}
				w.config.Sinks = []pawl.Sink{s}
				w.put(1)
				h := w.start()
				synctest.Wait()
				took, err := h.stop()
				w.equal("took and error", words(took, err), words(c.want, nil))
				w.equal("delivered", h.Stats().AlertsDelivered, map[bool]int{true: 0, false: 1}[c.deaf])
				close(release)
				synctest.Wait()
			})
		})
	}
}

// What another host's death left is delivered too.
func TestAlertsOfOthersAreFound(t *testing.T) {
	virtual(t, func(w *world) {
		dying(w)
		s := &sink{name: "mail"}
		w.config.Sinks = []pawl.Sink{s}
		h := w.start()
		w.pass(10 * time.Second)
		w.config.Sinks = nil
		other := w.start()
		h2 := other
		w.store.mu.Lock()
		w.store.bury(pawl.DeadLetter{ID: pawl.NewID(), Kind: "x"})
		w.store.mu.Unlock()
		w.pass(7 * time.Second)
		w.equal("delivered", fmt.Sprint(s.count()), "1")
		h.clean()
		h2.clean()
	})
}

// Stats and metrics say what waits, of this host's sinks and of others'; deaths that nobody hears of are said once.
func TestUndeliveredAlertsAreCounted(t *testing.T) {
	virtual(t, func(w *world) {
		dying(w)
		const nobody = "deaths are told to nobody: no host of this store has a sink but the log"
		w.config.Sinks = []pawl.Sink{&sink{name: "log"}}
		alone := w.start()
		w.pass(5 * time.Minute)
		w.equal("warnings", len(w.lines.at(slog.LevelWarn, nobody)), 1)
		var works atomic.Bool
		w.config.Sinks = []pawl.Sink{&sink{name: "mail", deliver: func(context.Context, pawl.Alert) error {
			if works.Load() {
				return nil
			}
			return errors.New("451 try later")
		}}}
		h := w.start()
		w.pass(time.Second)
		w.putMany(3)
		w.pass(time.Minute)
		w.equal("undelivered", h.Stats().AlertsUndelivered, 3)
		w.equal("undelivered, as another host sees it", alone.Stats().AlertsUndelivered, 3)
		if text := metricsOf(h.Host); !strings.Contains(text, `pawl_alerts_undelivered{sink="mail"} 3`) || !strings.Contains(text, `pawl_alerts_undelivered{sink="log"} 0`) {
			t.Errorf("metrics %s", text)
		}
		works.Store(true)
		w.pass(20 * time.Minute)
		w.equal("undelivered in the end", h.Stats().AlertsUndelivered, 0)
		w.equal("warnings in the end", len(w.lines.at(slog.LevelWarn, nobody)), 1)
		h.clean()
		alone.clean()
	})
}

func metricsOf(h *host.Host) string {
	reply := httptest.NewRecorder()
	h.Handler().ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return reply.Body.String()
}
