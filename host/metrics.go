package host

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// metric is one family of the text format: https://prometheus.io/docs/instrumenting/exposition_formats/
type metric struct {
	name, kind, help string
	samples          []sample
}

type sample struct {
	labels []string // name, value, name, value, …
	value  float64
}

func counter[T int | int64](name, help string, value T) metric {
	return metric{name, "counter", help, []sample{{value: float64(value)}}}
}

func gauge[T int | int64 | float64](name, help string, value T) metric {
	return metric{name, "gauge", help, []sample{{value: float64(value)}}}
}

func flag(value bool) int {
	if value {
		return 1
	}
	return 0
}

// writeMetrics writes what Stats and Health know, at once.
func (h *Host) writeMetrics(w io.Writer) error {
	var text strings.Builder
	for _, m := range h.metrics() {
		m.write(&text)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (h *Host) metrics() []metric {
	s := h.Stats()
	all := []metric{
		{"pawl_host_info", "gauge", "The host; always 1.", []sample{{[]string{"host", h.config.Name, "version", h.config.Version}, 1}}},
		{"pawl_host_health", "gauge", "What /healthz/ready says: 1 for that, 0 for the rest.", healthSamples(h.Health())},
		gauge("pawl_host_draining", "Whether the host is quiet, drains or has drained: 1 if so.", flag(s.Draining)),
		gauge("pawl_jobs_running", "Handlers that run.", s.Running),
		gauge("pawl_handlers_stray", "Handlers that were given up and have not returned.", s.Strays),
		gauge("pawl_attempts_settling", "Ended attempts on their way to the store, unsettled ones included.", s.Settling),
		gauge("pawl_attempts_unsettled", "Ended attempts that the store could not record yet.", s.Unsettled),
		gauge("pawl_alert_deliveries_stray", "Deliveries of alerts that ignored their deadline and have not returned.", s.SinkStrays),
		counter("pawl_jobs_started_total", "Attempts whose handler was started.", s.Started),
		counter("pawl_jobs_succeeded_total", "Jobs that succeeded.", s.Succeeded),
		counter("pawl_jobs_retried_total", "Failed attempts that are tried again.", s.Retried),
		counter("pawl_jobs_released_total", "Jobs that their handlers put back.", s.Released),
		{"pawl_jobs_died_total", "counter", "Deaths that were recorded.", []sample{
			{[]string{"class", pawl.DeathExhausted.String()}, float64(s.Exhausted)},
			{[]string{"class", pawl.DeathPermanent.String()}, float64(s.Permanent)},
			{[]string{"class", pawl.DeathPoison.String()}, float64(s.Poison)},
		}},
		counter("pawl_jobs_given_back_total", "Jobs that were given back unstarted.", s.GivenBack),
		counter("pawl_jobs_requeued_total", "Jobs that a shutdown cut short and put back.", s.Requeued),
		counter("pawl_jobs_cancelled_total", "Jobs that operators cancelled while they ran.", s.Cancelled),
		counter("pawl_jobs_timed_out_total", "Attempts that ended by their timeout.", s.TimedOut),
		counter("pawl_jobs_panicked_total", "Attempts that panicked.", s.Panicked),
		counter("pawl_jobs_recovered_total", "Jobs of dead hosts that this one put back.", s.Recovered),
		counter("pawl_leases_lost_total", "Reservations that went to others.", s.LeasesLost),
		counter("pawl_alerts_delivered_total", "Alerts that were delivered.", s.AlertsDelivered),
		counter("pawl_alerts_failed_total", "Deliveries of alerts that failed.", s.AlertsFailed),
		{"pawl_alerts_undelivered", "gauge", "Deaths that a sink has not been told of yet.", sinkSamples(h.tally.last(), func(v pawl.SinkView) float64 { return float64(v.Pending) })},
		{
			"pawl_alerts_oldest_undelivered_seconds", "gauge", "Since the oldest death that a sink has not been told of yet; 0: none.",
			sinkSamples(h.tally.last(), func(v pawl.SinkView) float64 { return v.OldestAge.Seconds() }),
		},
		{"pawl_queue_live_servers", "gauge", "Servers that claim from a queue, over all hosts that this one sees.", queueSamples(h.liveServers())},
	}
	if !s.LastBeat.IsZero() {
		all = append(all, gauge("pawl_heartbeat_age_seconds", "Since the last heartbeat that the store has answered was sent.", time.Since(s.LastBeat).Seconds()))
	}
	return all
}

func healthSamples(is Health) (samples []sample) {
	for _, health := range []Health{Healthy, Degraded, Unhealthy} {
		samples = append(samples, sample{[]string{"health", strings.ToLower(string(health))}, float64(flag(is == health))})
	}
	return samples
}

func queueSamples(servers map[string]int) (samples []sample) {
	for _, queue := range slices.Sorted(maps.Keys(servers)) {
		samples = append(samples, sample{[]string{"queue", queue}, float64(servers[queue])})
	}
	return samples
}

func sinkSamples(sinks []pawl.SinkView, value func(pawl.SinkView) float64) (samples []sample) {
	for _, sink := range sinks {
		samples = append(samples, sample{[]string{"sink", sink.Name}, value(sink)})
	}
	return samples
}

// labelText escapes a label's value.
var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m metric) write(w *strings.Builder) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	for _, s := range m.samples {
		w.WriteString(m.name)
		for i := 0; i < len(s.labels); i += 2 {
			w.WriteString([]string{"{", ","}[min(i, 1)])
			w.WriteString(s.labels[i] + `="` + labelText.Replace(strings.ToValidUTF8(s.labels[i+1], "\uFFFD")) + `"`)
		}
		if len(s.labels) > 0 {
			w.WriteString("}")
		}
		w.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}
