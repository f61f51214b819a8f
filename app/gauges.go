package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/resilience"
)

const (
	gaugesEvery = 30 * time.Second
	gaugesShare = 20 // a look that takes long is followed by that many times its own duration without one
)

// gauges are what /metrics says of the whole store and of downstreams, beside what the host says of itself. The store is
// looked at now and then, never by a request.
type gauges struct {
	downstreams []*resilience.Downstream
	relays      *relays // nil: none

	mu    sync.Mutex
	store string // as of the last look that the store has answered
	at    time.Time
}

// run looks at the store until ctx is done.
func (g *gauges) run(ctx context.Context, s ownStore, log *slog.Logger) {
	failing := false
	for {
		began := time.Now()
		text, err := storeGauges(ctx, s)
		switch {
		case err == nil:
			failing = false
			g.mu.Lock()
			g.store, g.at = text, time.Now()
			g.mu.Unlock()
		case ctx.Err() == nil && !failing:
			failing = true
			log.Warn("the store cannot be counted for /metrics", "error", oneLine(err))
		}
		pause := max(gaugesEvery, gaugesShare*time.Since(began))
		timer := time.NewTimer(pause + time.Duration(rand.Int64N(int64(pause/10))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// storeGauges asks for what an operator would look at.
func storeGauges(ctx context.Context, s ownStore) (string, error) {
	queues, err := s.Queues(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var counts, ages, paused [][2]string
	for _, q := range queues {
		name := label(q.Name)
		for _, c := range []struct {
			state string
			n     int
		}{{"waiting", q.Waiting}, {"scheduled", q.Scheduled}, {"reserved", q.Reserved}} {
			counts = append(counts, [2]string{`queue=` + name + `,state="` + c.state + `"`, fmt.Sprint(c.n)})
		}
		ages = append(ages, [2]string{`queue=` + name, fmt.Sprint(q.OldestReady.Seconds())})
		if q.Paused {
			paused = append(paused, [2]string{`queue=` + name, "1"})
		}
	}
	writeGauge(&b, "pawl_jobs", "Jobs of a queue that have not ended, by state.", counts)
	writeGauge(&b, "pawl_queue_oldest_ready_seconds", "Since the job that has waited for longest became ready; 0: none waits.", ages)
	writeGauge(&b, "pawl_queue_paused", "Queues that are paused.", paused)
	open, err := s.CountLetters(ctx, pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}})
	if err != nil {
		return "", err
	}
	writeGauge(&b, "pawl_dead_letters_open", "Dead letters that wait for a decision.", [][2]string{{"", fmt.Sprint(open)}})
	if err := scheduleGauges(ctx, s, &b); err != nil {
		return "", err
	}
	return b.String(), nil
}

func scheduleGauges(ctx context.Context, s pawl.Schedules, b *strings.Builder) error {
	var succeeded, due [][2]string
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := s.Schedules(ctx, pawl.ScheduleFilter{}, page)
		if errors.Is(err, pawl.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, v := range found.Schedules {
			name := `schedule=` + label(v.Name)
			if !v.LastSuccess.IsZero() {
				succeeded = append(succeeded, [2]string{name, seconds(v.LastSuccess)})
			}
			if !v.DueAt.IsZero() {
				due = append(due, [2]string{name, seconds(v.DueAt)})
			}
		}
		if page.After = found.Next; found.Next == "" {
			break
		}
	}
	writeGauge(b, "pawl_schedule_last_success_timestamp_seconds", "When a job of the schedule succeeded last; not there before the first.", succeeded)
	writeGauge(b, "pawl_schedule_next_timestamp_seconds", "When the schedule's next job is due; not there while it is paused.", due)
	return nil
}

func seconds(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }

// write adds what is known to a page of metrics.
func (g *gauges) write(w io.Writer) error {
	var b strings.Builder
	var states, openings, refused [][2]string
	for _, d := range g.downstreams {
		stats := d.Stats()
		for _, state := range []resilience.State{resilience.Closed, resilience.Open, resilience.HalfOpen} {
			is := "0"
			if stats.State == state {
				is = "1"
			}
			states = append(states, [2]string{`downstream=` + label(d.Name()) + `,state="` + state.String() + `"`, is})
		}
		openings = append(openings, [2]string{`downstream=` + label(d.Name()), fmt.Sprint(stats.Openings)})
		refused = append(refused, [2]string{`downstream=` + label(d.Name()), fmt.Sprint(stats.Refused)})
	}
	writeGauge(&b, "pawl_breaker_state", "State of a downstream's breaker: 1 for that, 0 for the others.", states)
	writeMetric(&b, "pawl_breaker_openings_total", "counter", "How often the breaker has opened.", openings)
	writeMetric(&b, "pawl_breaker_refused_total", "counter", "Calls that an open breaker refused.", refused)
	g.relays.write(&b)
	g.mu.Lock()
	b.WriteString(g.store)
	if !g.at.IsZero() {
		writeGauge(&b, "pawl_store_counted_timestamp_seconds", "When the store was counted for the lines above.", [][2]string{{"", seconds(g.at)}})
	}
	g.mu.Unlock()
	_, err := io.WriteString(w, b.String())
	return err
}

// beside adds the gauges to a host's own page.
func (g *gauges) beside(host http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.ServeHTTP(w, r)
		if r.URL.Path == "/metrics" && r.Method == http.MethodGet {
			_ = g.write(w) // the reader is gone: nobody is left to be told
		}
	})
}

func writeGauge(b *strings.Builder, name, help string, samples [][2]string) {
	writeMetric(b, name, "gauge", help, samples)
}

// writeMetric writes labels and values in Prometheus' text format, version 0.0.4.
func writeMetric(b *strings.Builder, name, kind, help string, samples [][2]string) {
	if len(samples) == 0 {
		return
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, s := range samples {
		if s[0] == "" {
			fmt.Fprintf(b, "%s %s\n", name, s[1])
			continue
		}
		fmt.Fprintf(b, "%s{%s} %s\n", name, s[0], s[1])
	}
}

// label quotes a label's value.
func label(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
