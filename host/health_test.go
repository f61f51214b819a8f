package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

func ask(handler http.Handler, method, path string) *http.Response {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder.Result()
}

func body(w *world, response *http.Response) string {
	w.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// says checks readiness, and that liveness is up and no answer took time.
func (w *world) says(when string, handler http.Handler, want host.Health) {
	w.Helper()
	begun := time.Now()
	ready := ask(handler, "GET", "/healthz/ready")
	status := http.StatusOK
	if want == host.Unhealthy {
		status = http.StatusServiceUnavailable
	}
	w.equal(when+": ready", fmt.Sprintf("%d %q %q", ready.StatusCode, ready.Header.Get("Content-Type"), body(w, ready)),
		fmt.Sprintf("%d %q %q", status, "text/plain", string(want)))
	live := ask(handler, "GET", "/healthz/live")
	w.equal(when+": live", words(live.StatusCode, body(w, live)), "200 Live")
	w.equal(when+": metrics", ask(handler, "GET", "/metrics").StatusCode, 200)
	w.equal(when+": time it took", time.Since(begun), time.Duration(0))
}

func TestReadinessFromStartToStop(t *testing.T) {
	virtual(t, func(w *world) {
		w.says("before there is a host", host.StartingHandler(), host.Unhealthy)
		gate := make(chan struct{})
		w.handle(func(context.Context, workArgs) error { <-gate; return nil })
		store := newOutage(w.store)
		store.down.Store(true)
		h := w.startOn(store)
		handler := h.Handler()
		w.says("before Run", handler, host.Unhealthy)
		w.pass(time.Minute)
		w.says("starting, without a store", handler, host.Unhealthy)

		store.down.Store(false)
		w.pass(5 * time.Second) // the longest wait between two tries
		w.says("started", handler, host.Healthy)

		store.down.Store(true)
		w.pass(6 * time.Second) // a beat, and one more
		w.says("the store is down", handler, host.Unhealthy)
		store.down.Store(false)
		w.pass(5 * time.Second)
		w.says("the store is back", handler, host.Healthy)

		w.put(1, pawl.Timeout(time.Hour))
		w.pass(time.Second)
		h.Quiet()
		w.pass(time.Second)
		w.says("quiet", handler, host.Unhealthy)
		h.cancel()
		w.pass(10 * time.Second)
		w.says("draining", handler, host.Unhealthy)
		close(gate)
		h.clean()
		w.says("stopped", handler, host.Unhealthy)
	})
}

func TestReadinessWhileDrainingWithoutQuiet(t *testing.T) {
	virtual(t, func(w *world) {
		gate := make(chan struct{})
		w.handle(func(context.Context, workArgs) error { <-gate; return nil })
		w.put(1, pawl.Timeout(time.Hour))
		h := w.start()
		w.pass(time.Second)
		w.says("working", h.Handler(), host.Healthy)
		h.cancel()
		synctest.Wait()
		w.says("draining", h.Handler(), host.Unhealthy)
		close(gate)
		h.clean()
		w.says("stopped", h.Handler(), host.Unhealthy)
	})
}

// One call that fails is no outage: the next try succeeds at once.
func TestReadinessSurvivesOneFailedBeat(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		store := newOutage(w.store)
		failed := 0
		store.Hook("Beat", func(_ context.Context, call func() error) error {
			if failed == 0 {
				failed++
				return errDown
			}
			return call()
		})
		h := w.startOn(store)
		synctest.Wait()
		for range 600 {
			w.pass(10 * time.Millisecond)
			w.says("all the time", h.Handler(), host.Healthy)
		}
		w.equal("failed beats", failed, 1)
		h.clean()
	})
}

// A store that accepts calls and does not answer them keeps no request waiting.
func TestReadinessWithAStoreThatHangs(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		store := newOutage(w.store)
		h := w.startOn(store)
		w.pass(time.Second)
		w.says("before", h.Handler(), host.Healthy)
		hang := func(ctx context.Context, call func() error) error {
			if !store.down.Load() {
				return call()
			}
			<-ctx.Done()
			return ctx.Err()
		}
		for _, method := range []string{"OpenSession", "Beat", "Claim", "Sweep", "Hosts", "BusyQueues"} {
			store.Hook(method, hang)
		}
		store.down.Store(true)
		w.pass(8 * time.Second)
		w.says("hanging, and not known yet", h.Handler(), host.Healthy)
		w.pass(8 * time.Second)
		w.says("hanging", h.Handler(), host.Unhealthy)
		store.down.Store(false)
		w.pass(15 * time.Second) // until the beat that hangs is given up, and the next
		w.says("it answers", h.Handler(), host.Healthy)
		h.clean()
	})
}

func TestReadinessAfterAbort(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error { <-ctx.Done(); return ctx.Err() })
		w.put(1)
		h := w.start()
		w.pass(time.Second)
		h.Abort()
		<-h.err
		w.says("aborted", h.Handler(), host.Unhealthy)
	})
}

// Two hosts with a queue each. The one that is watched is Degraded while nobody serves the other's.
func TestDegradedWithoutALiveServerOnSomeQueue(t *testing.T) {
	leave := map[string]func(w *world, other *running){
		"killed":  func(_ *world, other *running) { other.Abort(); <-other.err },
		"quiet":   func(_ *world, other *running) { other.Quiet() },
		"stopped": func(_ *world, other *running) { other.clean() },
	}
	for how, end := range leave {
		t.Run(how, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.handle(func(context.Context, workArgs) error { return nil })
				w.config.Servers = []host.Server{{Name: "bulk", Queues: []string{"3-bulk"}, Workers: 1}}
				other := w.start()
				w.config.Servers = []host.Server{{Name: "io", Queues: []string{"2-default"}, Workers: 1}}
				h := w.start()
				w.pass(time.Minute)
				w.says("both", h.Handler(), host.Healthy)
				end(w, other)
				w.pass(20 * time.Second) // 15 s, and a beat
				w.says("one", h.Handler(), host.Degraded)
				w.put(1, pawl.InQueue("3-bulk"))
				w.pass(time.Hour)
				w.says("its queue holds a job", h.Handler(), host.Degraded)

				w.config.Servers = []host.Server{{Name: "bulk", Queues: []string{"3-bulk"}, Workers: 1}}
				another := w.start()
				w.pass(7 * time.Second)
				w.says("another has come", h.Handler(), host.Healthy)
				another.clean()
				if how == "quiet" {
					other.clean()
				}
				w.pass(time.Hour)
				w.says("nothing is left to do for it", h.Handler(), host.Healthy)
				h.clean()
			})
		})
	}
}

func TestDegradedByJobsThatNobodyServes(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		w.put(1, pawl.InQueue("9-misspelt"))
		h := w.start()
		w.pass(time.Second)
		w.says("from the start", h.Handler(), host.Degraded)
		h.clean()
	})
}

// A host that cannot claim serves no queue.
func TestDegradedWhenClaimsFail(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		store := newOutage(w.store)
		h := w.startOn(store)
		w.pass(time.Second)
		store.Hook("Claim", func(context.Context, func() error) error { return errDown })
		w.pass(14 * time.Second)
		w.says("for a moment", h.Handler(), host.Healthy)
		w.pass(10 * time.Second)
		w.says("for long", h.Handler(), host.Degraded)
		store.Hook("Claim", nil)
		w.pass(10 * time.Second)
		w.says("no longer", h.Handler(), host.Healthy)
		h.clean()
	})
}

func TestEndpointsAreStrict(t *testing.T) {
	virtual(t, func(w *world) {
		for name, handler := range map[string]http.Handler{"starting": host.StartingHandler(), "new": w.newIdle().Handler()} {
			for _, path := range []string{"/healthz/live", "/healthz/ready", "/metrics"} {
				for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
					response := ask(handler, method, path)
					w.equal(words(name, method, path), words(response.StatusCode, response.Header.Get("Allow")), "405 GET, HEAD")
				}
				get, head := ask(handler, "GET", path), ask(handler, "HEAD", path)
				w.equal(words(name, "HEAD", path), words(head.StatusCode, head.Header), words(get.StatusCode, get.Header))
			}
			for _, path := range []string{"/", "/healthz", "/healthz/ready/", "/healthz/Ready", "/metrics/x"} {
				w.equal(words(name, path), ask(handler, "GET", path).StatusCode, 404)
			}
		}
	})
}

// newIdle is a host that does nothing but upkeep.
func (w *world) newIdle() *host.Host {
	w.Helper()
	config := w.config
	config.Servers = []host.Server{}
	h, err := host.New(w.store, pawl.NewMux(), config)
	if err != nil {
		w.Fatal(err)
	}
	return h
}
