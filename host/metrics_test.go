package host_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

var (
	helpLine   = regexp.MustCompile(`^# HELP (pawl_[a-z_]+) [A-Z].*\.$`)
	typeLine   = regexp.MustCompile(`^# TYPE (pawl_[a-z_]+) (counter|gauge)$`)
	sampleLine = regexp.MustCompile(`^(pawl_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)$`)
)

// scrape reads the metrics as strictly as the format is written: help, type, samples, family by family.
func (w *world) scrape(h *host.Host) map[string]float64 {
	w.Helper()
	response := ask(h.Handler(), "GET", "/metrics")
	w.equal("type", response.Header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
	text := body(w, response)
	if !strings.HasSuffix(text, "\n") {
		w.Error("the last line does not end")
	}
	values, families := map[string]float64{}, map[string]bool{}
	family, expectType := "", false
	for text := range strings.Lines(text) {
		text = strings.TrimSuffix(text, "\n")
		if m := helpLine.FindStringSubmatch(text); m != nil && !families[m[1]] && !expectType {
			family, families[m[1]], expectType = m[1], true, true
			continue
		}
		if m := typeLine.FindStringSubmatch(text); m != nil && m[1] == family && expectType {
			if expectType = false; (m[2] == "counter") != strings.HasSuffix(family, "_total") {
				w.Errorf("%s is a %s", family, m[2])
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(text)
		if m == nil || m[1] != family || expectType {
			w.Fatalf("a line out of place: %q", text)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if _, twice := values[m[1]+m[2]]; err != nil || twice {
			w.Errorf("%q: twice %v, %v", text, twice, err)
		}
		values[m[1]+m[2]] = value
	}
	return values
}

func TestMetrics(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = []host.Server{{Name: "one", Queues: []string{"1-critical", "2-default", "a\"b\\c"}, Workers: 9}}
		gate := make(chan struct{})
		w.handle(func(_ context.Context, args workArgs) error {
			switch args.N {
			case 1:
				return pawl.Permanent(errors.New("no"))
			case 2:
				panic("boom")
			case 3:
				<-gate
			}
			return nil
		})
		before := w.scrape(w.newIdle())
		if _, has := before["pawl_heartbeat_age_seconds"]; has {
			w.Error("a heartbeat before the first")
		}
		w.equal("health before", before[`pawl_host_health{health="unhealthy"}`], 1)
		w.putMany(4, pawl.Backoff(time.Hour))
		h := w.start()
		w.pass(7 * time.Second)
		values := w.scrape(h.Host)
		for name, want := range map[string]float64{
			"pawl_jobs_started_total": 4, "pawl_jobs_succeeded_total": 1, "pawl_jobs_retried_total": 1, "pawl_jobs_running": 1,
			`pawl_jobs_died_total{class="permanent"}`: 1, `pawl_jobs_died_total{class="poison"}`: 0, "pawl_jobs_panicked_total": 1,
			"pawl_host_draining": 0, "pawl_heartbeat_age_seconds": 2, `pawl_host_info{host="desk-7",version="v1"}`: 1,
			`pawl_host_health{health="healthy"}`: 1, `pawl_host_health{health="unhealthy"}`: 0,
			`pawl_queue_live_servers{queue="2-default"}`: 1, `pawl_queue_live_servers{queue="a\"b\\c"}`: 1,
		} {
			if got, has := values[name]; !has || got != want {
				w.Errorf("%s is %v (%v), want %v", name, got, has, want)
			}
		}
		close(gate)
		h.clean()
		after := w.scrape(h.Host)
		w.equal("draining after", after["pawl_host_draining"], 1)
		w.equal("live servers after", after[`pawl_queue_live_servers{queue="2-default"}`], 0)
	})
}
