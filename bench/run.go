package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"
)

// runner takes all measurements, the first round of every scenario before the second of any, so that a run that comes
// to the end of its time has something of each, and the slow drift of a machine falls on all alike.
type runner struct {
	scenarios []Scenario
	only      *regexp.Regexp
	until     time.Time // no second or later round begins that would not end by then
	end       time.Time // nothing begins after it
	progress  io.Writer
	results   results
	failed    []error
	took      map[string]time.Duration
}

// measureTime bounds one measurement.
const measureTime = 4 * time.Minute

func (r *runner) run(ctx context.Context) {
	r.results, r.took = results{}, map[string]time.Duration{}
	more := true
	for round := 1; more && ctx.Err() == nil; round++ {
		more = false
		for _, s := range r.scenarios {
			if round > s.Rounds() || r.only != nil && !r.only.MatchString(s.Name()) || ctx.Err() != nil {
				continue
			}
			if round > 1 && time.Now().Add(r.took[s.Name()]).After(r.until) {
				continue
			}
			if time.Now().After(r.end) {
				r.failed = append(r.failed, fmt.Errorf("%s: no time was left", s.Name()))
				continue
			}
			more = true
			began := time.Now()
			r.round(ctx, s, round)
			r.took[s.Name()] = time.Since(began)
		}
	}
}

// round measures each side of a scenario once.
func (r *runner) round(ctx context.Context, s Scenario, round int) {
	for _, side := range s.Sides() {
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		sample, err := measure(ctx, s, side)
		if err != nil {
			r.failed = append(r.failed, fmt.Errorf("%s, %s: %w", s.Name(), side, err))
			fmt.Fprintf(r.progress, "%-40s %-24s round %d failed: %v\n", s.Name(), side, round, err)
			continue
		}
		r.results.add(s.Name(), side, sample)
		fmt.Fprintf(r.progress, "%-40s %-24s round %d %14s %-8s (took %.1f s)\n",
			s.Name(), side, round, number(sample[s.Unit()]), s.Unit(), time.Since(began).Seconds())
	}
}

func measure(ctx context.Context, s Scenario, side string) (sample Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	if err := s.Prepare(ctx, side); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	defer func() {
		if cleanup := s.Cleanup(context.WithoutCancel(ctx), side); err == nil && cleanup != nil {
			err = fmt.Errorf("clean up: %w", cleanup)
		}
	}()
	return s.Measure(ctx, side)
}
