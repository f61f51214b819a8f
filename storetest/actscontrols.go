package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
)

func controlActs() []act { return append(settingActs(), hostActs()...) }

// settingActs are acts on names: one that nobody has used yet can be set as well, since its jobs may come later.
func settingActs() []act {
	name := func() string { return "k" + pawl.NewID().String() }
	setting := func(a act, begin func(f *fixture, name string) deed) act {
		a.repeats = true // the last one who says so is in the trail too
		a.begin = func(f *fixture) deed { return begin(f, name()) }
		return a
	}
	return []act{
		setting(act{
			action: pawl.ActionSwitch, on: "kind", from: "not set", to: "off",
			elsewhere: "Controls/a misspelt name switches nothing on",
		}, func(f *fixture, kind string) deed {
			return deed{
				do: func(s Store) error { return s.SwitchKind(f.ctx, pawl.KindSwitch{Kind: kind}, operator("table")) },
				look: func() string {
					switches, err := f.store.Switches(f.ctx)
					f.ok("switches", err)
					i := slices.IndexFunc(switches.Kinds, func(s pawl.KindSwitch) bool { return s.Kind == kind })
					if i < 0 {
						return "not set"
					}
					return map[bool]string{true: "on", false: "off"}[switches.Kinds[i].On]
				},
			}
		}),
		resetAct(),
		setting(act{
			action: pawl.ActionPause, on: "queue", from: "goes on", to: "paused",
			elsewhere: "Controls/a paused queue waits, and is resumed",
		}, func(f *fixture, queue string) deed {
			return deed{
				do: func(s Store) error {
					return s.PauseQueue(f.ctx, pawl.QueuePause{Queue: queue, Paused: true}, operator("table"))
				},
				look: func() string {
					switches, err := f.store.Switches(f.ctx)
					f.ok("switches", err)
					if slices.ContainsFunc(switches.Queues, func(p pawl.QueuePause) bool { return p.Queue == queue && p.Paused }) {
						return "paused"
					}
					return "goes on"
				},
			}
		}),
		setting(act{
			action: pawl.ActionLimit, on: "kind", from: "none", to: "3",
			elsewhere: "Limits/changes are audited, and impossible ones refused",
		}, func(f *fixture, kind string) deed {
			return deed{
				do: func(s Store) error { return s.SetLimit(f.ctx, kind, &pawl.Limit{Concurrency: 3}, operator("table")) },
				look: func() string {
					limits, err := f.store.Limits(f.ctx)
					f.ok("limits", err)
					i := slices.IndexFunc(limits, func(l pawl.KindLimit) bool { return l.Kind == kind })
					if i < 0 {
						return "none"
					}
					return fmt.Sprint(limits[i].Limit.Concurrency)
				},
			}
		}),
	}
}

func resetAct() act {
	on := func(f *fixture, kind string) deed {
		return deed{
			do: func(s Store) error { return s.ResetKind(f.ctx, kind, operator("table")) },
			look: func() string {
				switches, err := f.store.Switches(f.ctx)
				f.ok("switches", err)
				if slices.ContainsFunc(switches.Kinds, func(s pawl.KindSwitch) bool { return s.Kind == kind }) {
					return "set"
				}
				return "not set"
			},
		}
	}
	return act{
		action: pawl.ActionReset, on: "kind", from: "set", to: "not set", none: pawl.ErrNotFound, again: pawl.ErrNotFound,
		lacking: func(f *fixture) deed { return on(f, "k"+pawl.NewID().String()) },
		begin: func(f *fixture) deed {
			kind := "k" + pawl.NewID().String()
			f.switchKind(kind, false)
			return on(f, kind)
		},
	}
}

func hostActs() []act {
	order := func(a act, give func(s Store, f *fixture, session pawl.SessionID) error, heard func(pawl.HostView) bool) act {
		a.on, a.from, a.to, a.none = "host", "works", "was asked", pawl.ErrNotFound
		on := func(f *fixture, session pawl.SessionID) deed {
			return deed{
				do: func(s Store) error { return give(s, f, session) },
				look: func() string {
					hosts, err := f.store.Hosts(f.ctx)
					f.ok("hosts", err)
					if slices.ContainsFunc(hosts, func(h pawl.HostView) bool { return h.Session == session && heard(h) }) {
						return "was asked"
					}
					return "works"
				},
			}
		}
		a.begin = func(f *fixture) deed { return on(f, f.host("asked")) }
		a.lacking = func(f *fixture) deed {
			session := f.host("ended")
			f.closeSession(session)
			return on(f, session)
		}
		return a
	}
	return []act{
		order(act{action: pawl.ActionQuiet}, func(s Store, f *fixture, session pawl.SessionID) error {
			return s.QuietHost(f.ctx, session, operator("table"))
		}, func(h pawl.HostView) bool { return h.Quiet }),
		order(act{action: pawl.ActionDrain}, func(s Store, f *fixture, session pawl.SessionID) error {
			return s.DrainHost(f.ctx, session, operator("table"))
		}, func(h pawl.HostView) bool { return h.Drain }),
		sinkAct(),
	}
}

func sinkAct() act {
	on := func(f *fixture, sink string) deed {
		return deed{
			do: func(s Store) error {
				_, err := s.ForgetSink(f.ctx, sink, operator("table"))
				return err
			},
			look: func() string {
				sinks, err := f.store.Sinks(f.ctx)
				f.ok("sinks", err)
				if slices.ContainsFunc(sinks, func(s pawl.SinkView) bool { return s.Name == sink }) {
					return "registered"
				}
				return "gone"
			},
		}
	}
	return act{
		action: pawl.ActionForget, on: "sink", from: "registered", to: "gone", none: pawl.ErrNotFound, again: pawl.ErrNotFound,
		lacking: func(f *fixture) deed { return on(f, pawl.NewID().String()) },
		begin: func(f *fixture) deed {
			sink := pawl.NewID().String()
			f.closeSession(f.host("told", sink))
			return on(f, sink)
		},
	}
}

// named is a schedule of this name.
func (f *fixture) named(name, spec string) pawl.Schedule {
	return f.hourly(func(s *pawl.Schedule) { s.Name, s.Spec = name, spec })
}

func scheduleActs() []act {
	on := func(a act, there bool, do func(f *fixture, s Store, name string) error) act {
		a.on = "schedule"
		of := func(f *fixture, there bool) deed {
			name := pawl.NewID().String()
			session := f.host("declares") // it also registers the kind
			if there {
				f.ok("add schedule", f.store.AddSchedule(f.ctx, f.named(name, "1h"), operator("table")))
			}
			return deed{
				do: func(s Store) error {
					if a.action == pawl.ActionDeclare {
						done, err := s.DeclareSchedules(f.ctx, session, []pawl.Schedule{f.named(name, "1h")})
						for _, d := range done {
							err = errors.Join(err, nothing(d.Status == pawl.DeclaredNew, d.Err))
						}
						return err
					}
					return do(f, s, name)
				},
				look: func() string { return f.stateOfSchedule(name) },
			}
		}
		a.begin = func(f *fixture) deed { return of(f, there) }
		if there {
			a.none = pawl.ErrNotFound
			a.lacking = func(f *fixture) deed { return of(f, false) }
		}
		return a
	}
	return []act{
		on(act{action: pawl.ActionAdd, from: "gone", to: "1h", again: pawl.ErrConflict, elsewhere: "Timetables/what can never run is refused, and nothing is changed"},
			false, func(f *fixture, s Store, name string) error {
				return s.AddSchedule(f.ctx, f.named(name, "1h"), operator("table"))
			}),
		on(act{action: pawl.ActionDeclare, from: "gone", to: "1h", again: errNothing, elsewhere: "Timetables/a removed declaration stays removed"}, false, nil),
		on(act{action: pawl.ActionSet, from: "1h", to: "2h", repeats: true}, true, func(f *fixture, s Store, name string) error {
			return s.SetSchedule(f.ctx, f.named(name, "2h"), operator("table"))
		}),
		on(act{action: pawl.ActionPause, from: "1h", to: "1h, paused"}, true, func(f *fixture, s Store, name string) error {
			return s.PauseSchedule(f.ctx, name, true, operator("table"))
		}),
		on(act{action: pawl.ActionRunNow, from: "1h", to: "1h, with a job", again: pawl.ErrConflict}, true, func(f *fixture, s Store, name string) error {
			_, err := s.RunSchedule(f.ctx, name, operator("table"))
			return err
		}),
		on(act{action: pawl.ActionDelete, from: "1h", to: "gone", again: pawl.ErrNotFound}, true, func(f *fixture, s Store, name string) error {
			return s.DeleteSchedule(f.ctx, name, operator("table"))
		}),
	}
}

func (f *fixture) stateOfSchedule(name string) string {
	f.Helper()
	view, err := f.store.Schedule(f.ctx, name)
	if errors.Is(err, pawl.ErrNotFound) {
		return "gone"
	}
	f.ok("schedule", err)
	return view.Spec + map[bool]string{true: ", paused"}[view.Paused] + map[bool]string{true: ", with a job"}[len(view.Runs) == 1]
}

func operationActs() []act {
	control := func(action pawl.Action, from, to pawl.OperationState) act {
		on := func(f *fixture, id pawl.ID) deed {
			return deed{
				do: func(s Store) error {
					errs, err := s.ControlOperations(f.ctx, []pawl.ID{id}, action, operator("table"))
					return errors.Join(append(errs, err)...)
				},
				look: func() string { return string(f.operation(id).State) },
			}
		}
		return act{
			action: action, on: "operation", from: string(from), to: string(to), none: pawl.ErrNotFound, again: pawl.ErrConflict,
			lacking: func(f *fixture) deed { return on(f, pawl.NewID()) },
			begin: func(f *fixture) deed {
				f.record(f.looseLetter())
				o := f.begun(redriveAll())
				if from == pawl.OperationPaused {
					f.ok("pause", f.tryControl(o.ID, pawl.ActionPause))
				}
				return on(f, o.ID)
			},
		}
	}
	return []act{
		startAct(),
		control(pawl.ActionPause, pawl.OperationRunning, pawl.OperationPaused),
		control(pawl.ActionResume, pawl.OperationPaused, pawl.OperationRunning),
		control(pawl.ActionStop, pawl.OperationRunning, pawl.OperationStopped),
	}
}

func startAct() act {
	on := func(f *fixture, fingerprint string) deed {
		o := pawl.NewOperation{ID: pawl.NewID(), Action: pawl.ActionResolve, Filter: pawl.LetterFilter{Fingerprint: fingerprint}, By: operator("table")}
		return deed{
			do: func(s Store) error {
				_, err := s.CreateOperation(f.ctx, o)
				return err
			},
			look: func() string {
				begun, err := f.store.Operation(f.ctx, o.ID)
				if errors.Is(err, pawl.ErrNotFound) {
					return "none"
				}
				f.ok("operation", err)
				return fmt.Sprintf("%s, %d letters", begun.State, begun.Letters)
			},
		}
	}
	return act{
		action: pawl.ActionStart, on: "operation", from: "none", to: "running, 1 letters", none: pawl.ErrNotFound,
		lacking: func(f *fixture) deed { return on(f, pawl.NewID().String()) },
		begin: func(f *fixture) deed {
			fingerprint := pawl.NewID().String()
			f.record(f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = fingerprint }))
			return on(f, fingerprint)
		},
	}
}
