package host

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
	"github.com/pawljobs/pawl/schedule"
)

// declarer brings the schedules that this host's code declares into the store: when it starts, and from then on once
// in a while, since a declaration that had to wait for a newer one may come into its own when that has gone.
type declarer struct {
	host      *Host
	store     pawl.Declarations
	schedules []pawl.Schedule
	prints    map[string]string // fingerprints by name
	said      map[string]string // what was last said of a schedule
	trouble   *trouble.Trouble
}

// newDeclarer checks the schedules; nil where there are none.
func newDeclarer(store pawl.Store, config Config) (*declarer, error) {
	if len(config.Schedules) == 0 {
		return nil, nil
	}
	d := &declarer{
		prints: map[string]string{}, said: map[string]string{},
		trouble: trouble.New(config.Logger, "schedules cannot be declared"),
	}
	var ok bool
	if d.store, ok = store.(pawl.Declarations); !ok {
		return nil, &pawl.FieldError{Field: "Schedules", Value: len(config.Schedules), Rule: "must be left out: this store keeps no schedules"}
	}
	for _, s := range config.Schedules {
		if !s.Removed {
			s = schedule.Complete(s)
		}
		if err := schedule.Check(s); err != nil {
			return nil, err
		}
		if d.prints[s.Name] != "" {
			return nil, &pawl.FieldError{Field: "Schedules", Value: s.Name, Rule: "must declare each name once"}
		}
		print, err := schedule.Fingerprint(s)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", s.Name, err)
		}
		d.prints[s.Name] = print
		d.schedules = append(d.schedules, s)
	}
	return d, nil
}

// run declares until ctx is done.
func (d *declarer) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		wait := jitter(d.host.config.Intervals.Declare)
		if err := d.declare(ctx); err != nil {
			failures++
			d.trouble.Report(err)
			wait = backoff(failures, d.host.config.Intervals.Declare)
		} else {
			failures = 0
			d.trouble.Over()
		}
		pause(ctx, wait)
	}
}

func (d *declarer) declare(ctx context.Context) error {
	h := d.host
	session, err := h.presence.await(ctx)
	if err != nil {
		return nil
	}
	callCtx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
	defer cancel()
	results, err := d.store.DeclareSchedules(callCtx, session, d.schedules)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h.answered()
	for i, result := range results {
		d.say(d.schedules[i], result)
	}
	return nil
}

// say tells of what became of a declaration, once.
func (d *declarer) say(s pawl.Schedule, result pawl.Declared) {
	text := result.Status.String()
	if result.Err != nil {
		text = result.Err.Error()
	}
	if d.said[s.Name] == text {
		return
	}
	d.said[s.Name] = text
	log := d.host.log.With("schedule", s.Name)
	switch {
	case result.Err != nil:
		log.Warn("schedule is not declared", "error", result.Err)
	case result.Status == pawl.DeclaredNew && s.Removed:
		log.Info("schedule removed: the code of this host says so")
	case result.Status == pawl.DeclaredNew:
		log.Info("schedule declared", "spec", s.Spec, "zone", s.Zone, "kind", s.Kind)
	case result.Status == pawl.DeclaredOutdated:
		log.Warn("schedule stays as another live host declares it: this host's code says something older")
	case result.Status == pawl.DeclaredForeign:
		log.Warn("schedule stays as an operator has made it: delete that one, or declare this one under another name")
	}
}
