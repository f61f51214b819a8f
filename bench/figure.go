package main

import (
	"math"
	"slices"
)

// Figure is what several measurements of one thing came to. The zero Figure says that there were none.
type Figure struct {
	Median, Min, Max float64
	Known            bool
}

func figureOf(values []float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Figure{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1], Known: true}
}

// results are all samples so far: by scenario, side and round.
type results map[string]map[string][]Sample

func (r results) add(scenario, side string, sample Sample) {
	if r[scenario] == nil {
		r[scenario] = map[string][]Sample{}
	}
	r[scenario][side] = append(r[scenario][side], sample)
}

// figure is a metric of one side.
func (r results) figure(scenario, side, metric string) Figure {
	return figureOf(r.values(scenario, side, metric))
}

func (r results) values(scenario, side, metric string) []float64 {
	var values []float64
	for _, sample := range r[scenario][side] {
		if value, ok := sample[metric]; ok {
			values = append(values, value)
		}
	}
	return values
}

// combine is a figure of two sides that were measured beside each other, round by round.
func (r results) combine(scenario, side, base, metric string, f func(value, base float64) float64) Figure {
	values, bases := r.values(scenario, side, metric), r.values(scenario, base, metric)
	var out []float64
	for i := range min(len(values), len(bases)) {
		if value := f(values[i], bases[i]); !math.IsNaN(value) && !math.IsInf(value, 0) {
			out = append(out, value)
		}
	}
	return figureOf(out)
}

func percent(value, base float64) float64    { return 100 * value / base }
func difference(value, base float64) float64 { return value - base }
