package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// mostWorkers of one server.
const mostWorkers = 100_000

// rung is one duration of a ladder, by the name that a user of the API knows.
type rung struct {
	name  string
	value time.Duration
}

// Check reports everything that New would refuse in a configuration, for a program that looks at it before there is a
// store. Each fault is a *pawl.FieldError.
func (c Config) Check() error { return c.withDefaults().check() }

// check refuses what would hurt later. It reports every fault, not the first.
func (c Config) check() error {
	errs := []error{
		climb(rung{"Drain.Handler", c.Drain.Handler}, rung{"Drain.Server", c.Drain.Server}, rung{"Drain.Host", c.Drain.Host}),
		climb(rung{"Intervals.Beat", c.Intervals.Beat}, rung{"Intervals.Silence", c.Intervals.Silence},
			rung{"Intervals.DeadAfter", c.Intervals.DeadAfter}),
		pawl.CheckName("Name", c.Name), checkServers(c.Servers), checkSinks(c.Sinks),
	}
	if c.Version != "" {
		errs = append(errs, pawl.CheckName("Version", c.Version))
	}
	for _, d := range []rung{
		{"Intervals.Poll", c.Intervals.Poll},
		{"Intervals.Sweep", c.Intervals.Sweep},
		{"Intervals.Orphans", c.Intervals.Orphans},
		{"Intervals.Alerts", c.Intervals.Alerts},
		{"Intervals.Declare", c.Intervals.Declare},
		{"Intervals.GiveUp", c.Intervals.GiveUp},
		{"Intervals.Call", c.Intervals.Call},
		{"Storm.Window", c.Storm.Window},
	} {
		errs = append(errs, positive(d))
	}
	if c.MaxUnsettled < 0 {
		errs = append(errs, &pawl.FieldError{Field: "MaxUnsettled", Value: c.MaxUnsettled, Rule: "must be greater than 0"})
	}
	if c.MaxJobs < 0 {
		errs = append(errs, &pawl.FieldError{Field: "MaxJobs", Value: c.MaxJobs, Rule: "must not be negative"})
	}
	if c.Storm.Deaths < 0 {
		errs = append(errs, &pawl.FieldError{Field: "Storm.Deaths", Value: c.Storm.Deaths, Rule: "must be greater than 0"})
	}
	if c.Orphans.Unseen < 0 || c.Orphans.Ready < 0 {
		errs = append(errs, &pawl.FieldError{Field: "Orphans", Value: *c.Orphans, Rule: "must not be negative"})
	}
	for i, classify := range c.Classifiers {
		if classify == nil {
			errs = append(errs, &pawl.FieldError{Field: fmt.Sprintf("Classifiers[%d]", i), Value: nil, Rule: "must be a function"})
		}
	}
	return errors.Join(errs...)
}

func positive(r rung) error {
	if r.value > 0 {
		return nil
	}
	return &pawl.FieldError{Field: r.name, Value: r.value, Rule: "must be greater than 0"}
}

// climb checks that every rung is smaller than the next.
func climb(rungs ...rung) error {
	if err := positive(rungs[0]); err != nil {
		return err
	}
	for i, inner := range rungs[:len(rungs)-1] {
		if outer := rungs[i+1]; inner.value >= outer.value {
			return &pawl.FieldError{Field: inner.name, Value: inner.value, Rule: fmt.Sprintf("must be smaller than %s, which is %s", outer.name, outer.value)}
		}
	}
	return nil
}

// checkWork refuses servers without handlers, which would run nothing, and handlers without servers.
func checkWork(kinds, servers int) error {
	switch {
	case kinds == 0 && servers > 0:
		return &pawl.FieldError{Field: "mux", Value: "empty", Rule: "must have at least one handler, or Servers must be empty, and not nil, for a host that does nothing but the store's upkeep"}
	case kinds > 0 && servers == 0:
		return &pawl.FieldError{Field: "Servers", Value: "[]", Rule: "must have at least one server, or be nil for the default ones: the mux has handlers"}
	}
	return nil
}

func checkServers(servers []Server) error {
	var errs []error
	names := map[string]bool{}
	for i, s := range servers {
		field := fmt.Sprintf("Servers[%d]", i)
		switch {
		case s.Name == "" || len(s.Name) > 64:
			errs = append(errs, &pawl.FieldError{Field: field + ".Name", Value: s.Name, Rule: "must have 1 to 64 bytes"})
		case names[s.Name]:
			errs = append(errs, &pawl.FieldError{Field: field + ".Name", Value: s.Name, Rule: "must be given once"})
		}
		names[s.Name] = true
		if s.Name != "" {
			errs = append(errs, pawl.CheckName(field+".Name", s.Name))
		}
		if len(s.Queues) == 0 {
			errs = append(errs, &pawl.FieldError{Field: field + ".Queues", Value: "[]", Rule: "must name at least one queue"})
		}
		for _, queue := range s.Queues {
			errs = append(errs, pawl.CheckName(field+".Queues", queue))
		}
		errs = append(errs, checkWeights(field+".Weights", s))
		if s.Workers < 1 || s.Workers > mostWorkers {
			errs = append(errs, &pawl.FieldError{Field: field + ".Workers", Value: s.Workers, Rule: "must be from 1 to 100,000"})
		}
	}
	return errors.Join(errs...)
}

// mostWeight of one queue.
const mostWeight = 1_000_000

func checkWeights(field string, s Server) error {
	if s.Weights == nil {
		return nil
	}
	var errs []error
	for _, queue := range s.Queues {
		if _, stated := s.Weights[queue]; !stated {
			errs = append(errs, &pawl.FieldError{Field: field, Value: queue, Rule: "every queue must have a weight"})
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(s.Weights)) {
		if !slices.Contains(s.Queues, queue) {
			errs = append(errs, &pawl.FieldError{Field: field, Value: queue, Rule: "must be one of the server's queues"})
		}
		if weight := s.Weights[queue]; weight < 1 || weight > mostWeight {
			errs = append(errs, &pawl.FieldError{Field: field + "[" + queue + "]", Value: weight, Rule: "must be from 1 to 1,000,000"})
		}
	}
	return errors.Join(errs...)
}

func checkSinks(sinks []pawl.Sink) error {
	var errs []error
	names := map[string]bool{}
	for i, sink := range sinks {
		field := fmt.Sprintf("Sinks[%d]", i)
		if sink == nil {
			errs = append(errs, &pawl.FieldError{Field: field, Value: nil, Rule: "must be a sink"})
			continue
		}
		name := sink.Name()
		switch {
		case name == "" || len(name) > 128:
			errs = append(errs, &pawl.FieldError{Field: field + ".Name", Value: name, Rule: "must have 1 to 128 bytes"})
		case names[name]:
			errs = append(errs, &pawl.FieldError{Field: field + ".Name", Value: name, Rule: "must be given once"})
		}
		names[name] = true
	}
	return errors.Join(errs...)
}

// parts finds where deaths are recorded and who queues alerts: the store, or what the configuration gives in its place.
func parts(store pawl.Store, config Config) (letters, elsewhere pawl.DeadLetters, alerts pawl.Alerts, err error) {
	letters, own := store.(pawl.DeadLetters)
	switch {
	case own && config.DeadLetters != nil:
		err = &pawl.FieldError{
			Field: "DeadLetters", Value: fmt.Sprintf("%T", config.DeadLetters),
			Rule: "must not be given: the store keeps its dead letters itself",
		}
	case !own && config.DeadLetters == nil:
		err = &pawl.FieldError{
			Field: "DeadLetters", Value: nil,
			Rule: fmt.Sprintf("must be given: %T keeps no dead letters, and a death has to be recorded", store),
		}
	case !own:
		letters, elsewhere = config.DeadLetters, config.DeadLetters
	}
	alerts, queues := letters.(pawl.Alerts)
	if err == nil && len(config.Sinks) > 0 && !queues {
		err = &pawl.FieldError{Field: "Sinks", Value: len(config.Sinks), Rule: fmt.Sprintf("must not be given: %T queues no alerts", letters)}
	}
	return letters, elsewhere, alerts, err
}
