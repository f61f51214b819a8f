package main

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// Row is one line of the report. A row without a target is there to be read beside the others.
type Row struct {
	Name, Unit      string
	Ours, Peer, Raw Figure
	Target          string
	met             func(ours, ratio float64) bool
	compared        bool // the target is relative to the peer
}

// Ratio is ours to the peer's: above 1 is better for rates, below 1 for costs.
func (r Row) Ratio() (ratio float64, known bool) {
	if !r.Ours.Known || !r.Peer.Known || r.Peer.Median == 0 {
		return 0, false
	}
	return r.Ours.Median / r.Peer.Median, true
}

// Met says whether the target is; known is false where something is missing or there is no target.
func (r Row) Met() (met, known bool) {
	ratio, compared := r.Ratio()
	if r.met == nil || !r.Ours.Known || r.compared && !compared {
		return false, false
	}
	return r.met(r.Ours.Median, ratio), true
}

// timesPeer, atMost and atLeast make targets.
func (r Row) timesPeer(factor float64) Row {
	r.Target, r.compared = fmt.Sprintf("≥ %gx River", factor), true
	r.met = func(_, ratio float64) bool { return ratio >= factor }
	return r
}

func (r Row) atMost(limit float64) Row {
	r.Target = fmt.Sprintf("≤ %g %s", limit, shortUnit(r.Unit))
	r.met = func(ours, _ float64) bool { return ours <= limit }
	return r
}

func (r Row) atLeast(limit float64) Row {
	r.Target = fmt.Sprintf("≥ %s %s", strings.TrimSuffix(number(limit), ".0"), shortUnit(r.Unit))
	r.met = func(ours, _ float64) bool { return ours >= limit }
	return r
}

// rows are the report of a run.
func rows(r results) []Row {
	sides := func(scenario, unit, ours, peer, raw string) Row {
		return Row{
			Name: scenario, Unit: unit, Ours: r.figure(scenario, ours, unit), Peer: r.figure(scenario, peer, unit),
			Raw: r.figure(scenario, raw, unit),
		}
	}
	same := func(scenario, unit string) Row { return sides(scenario, unit, side.Pawl, side.River, side.Raw) }
	named := func(row Row, name string) Row { row.Name = name; return row }

	out := []Row{
		same(bulkEnqueue, jobsPerSecond).timesPeer(2.5),
		same(bulkEnqueue, totalMicros).atMost(12),
		same(bulkEnqueue, clientMicros), same(bulkEnqueue, serverMicros), same(bulkEnqueue, walBytes),
		same(singleEnqueue(1), jobsPerSecond).timesPeer(1.5),
		same(singleEnqueue(16), jobsPerSecond).timesPeer(5),
		same(singleEnqueue(64), jobsPerSecond).timesPeer(15),
		named(sides(burnDown, jobsPerSecond, pawlNoHistory, side.River, rawNoHistory), burnDown+", history off").timesPeer(5),
		named(same(burnDown, jobsPerSecond), burnDown+", history on").timesPeer(3.5),
		named(same(burnDown, clientMicros), burnDown+", history on"), named(same(burnDown, serverMicros), burnDown+", history on"),
		same(burnDownDefault, jobsPerSecond),
		named(sides(burnDown, lifeWAL, pawlNoHistory, side.River, rawNoHistory), "small job, history off").atMost(650),
		named(same(burnDown, lifeWAL), "small job, history on").atMost(850),
	}
	out = append(out, latencyRows(sides)...)
	out = append(out, memoryRows(r)...)
	out = append(out, caseRows(r)...)
	return append(out,
		same(sqliteSingle, jobsPerSecond).atLeast(40_000),
		same(sqliteBurn, jobsPerSecond).atLeast(50_000),
	)
}

func latencyRows(sides func(scenario, unit, ours, peer, raw string) Row) []Row {
	var out []Row
	for _, at := range []struct {
		rate     int
		p50, p99 float64
	}{{100, 1, 4}, {1000, 1.5, 10}} {
		for _, metric := range []struct {
			name  string
			limit float64
		}{{load.ValueP50, at.p50}, {load.ValueP99, at.p99}} {
			out = append(out,
				sides(latencyAt(at.rate), metric.name, side.Pawl, side.River, side.Raw).atMost(metric.limit),
				beside(sides(latencyAt(at.rate), metric.name, side.Pawl, riverDefault, side.Raw), "River's default settings"))
		}
	}
	return out
}

// beside tells a row for information from the one that it belongs to.
func beside(row Row, what string) Row {
	row.Name += ", " + what
	return row
}

func memoryRows(r results) []Row {
	above := func(metric string) Row {
		row := Row{Name: thousandWorkers + ": memory above an empty program", Unit: "MB"}
		row.Ours = r.combine(thousandWorkers, side.Pawl, side.Empty, metric, difference)
		row.Peer = r.combine(thousandWorkers, side.River, side.Empty, metric, difference)
		return row
	}
	idle := Row{
		Name: thousandWorkers + ": idle", Unit: idlePercent,
		Ours: r.figure(thousandWorkers, side.Pawl, idlePercent), Peer: r.figure(thousandWorkers, side.River, idlePercent),
		Raw: r.figure(thousandWorkers, side.Empty, idlePercent),
	}
	return []Row{above(load.ValueRSS).atMost(25), beside(above(load.ValueHeldRSS), "while a job waits in each"), idle.atMost(1)}
}

const ofClean = "% of clean"

// caseRows say how much of the clean rate is left.
func caseRows(r results) []Row {
	share := func(scenario string) Row {
		left := func(name string) Figure { return r.combine(scenario, name, clean(name), jobsPerSecond, percent) }
		return Row{Name: scenario, Unit: ofClean, Ours: left(side.Pawl), Peer: left(side.River), Raw: left(side.Raw)}
	}
	out := []Row{share(oldSnapshot).atLeast(90)}
	for _, name := range []string{scheduledJobs, finishedJobs, deadLetters, manyQueues} {
		out = append(out, share(name).atLeast(95))
	}
	for _, name := range []string{
		foreignHead, fourHosts, sixteenHosts, openWriter, failingJobs, dueAtOnce, uniqueKeys, largePayloads, deadHost,
	} {
		out = append(out, share(name).atLeast(80))
	}
	return append(out,
		Row{Name: openWriter + ": its job after the commit", Unit: "ms", Ours: r.figure(openWriter, side.Pawl, load.ValueLate)},
		Row{Name: foreignHead + ": first handler after the start", Unit: "ms", Ours: r.figure(foreignHead, side.Pawl, load.ValueFirst)},
		Row{Name: deadHost + ": all run again", Unit: "s", Ours: r.figure(deadHost, side.Pawl, load.ValueRecovered)},
	)
}
