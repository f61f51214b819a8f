package main

import "testing"

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		values []float64
		want   Figure
	}{
		{nil, Figure{}},
		{[]float64{7}, Figure{7, 7, 7, true}},
		{[]float64{9, 1, 5}, Figure{5, 1, 9, true}},
		{[]float64{4, 1, 2, 100}, Figure{3, 1, 100, true}},
	} {
		if got := figureOf(row.values); got != row.want {
			t.Errorf("%v: %v, want %v", row.values, got, row.want)
		}
	}
}

func TestCombinedFiguresPairTheRounds(t *testing.T) {
	t.Parallel()
	r := results{}
	for _, pair := range [][2]float64{{50, 100}, {90, 100}, {240, 300}} {
		r.add("case", "pawl", Sample{jobsPerSecond: pair[0]})
		r.add("case", "pawl, clean", Sample{jobsPerSecond: pair[1]})
	}
	r.add("case", "pawl", Sample{jobsPerSecond: 1}) // its partner failed
	want := Figure{80, 50, 90, true}
	if got := r.combine("case", "pawl", "pawl, clean", jobsPerSecond, percent); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
