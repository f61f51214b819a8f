package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawljobs/pawl"
)

// Every operation of operators' meets the same troubles: what it is about is not there, it has been done already, two do it
// at once, and the store fails before it has committed it, or after. Whatever happens, an operation is done once and stands
// in the trail as often as it was done, or it is not done at all; and who does it again is told.
func actPromises() []promise {
	const name = " meet every trouble"
	return []promise{
		{name: "acts on letters" + name, check: meetTrouble(letterActs)},
		{name: "acts on many letters and jobs" + name, check: meetTrouble(bulkActs)},
		{name: "acts on jobs" + name, check: meetTrouble(jobActs)},
		{name: "acts on kinds, queues, hosts and sinks" + name, check: meetTrouble(controlActs)},
		{name: "acts on schedules" + name, check: meetTrouble(scheduleActs)},
		{name: "acts on operations" + name, check: meetTrouble(operationActs)},
	}
}

// act is a line of the table: what an operation says in each trouble.
type act struct {
	action pawl.Action
	on     string // what it is about
	// from and to are what it is before and after, as deed.look says.
	from, to string
	// none is the answer when what it is about is not there. Where there is no such thing as not being there, there is no
	// lacking either, and elsewhere names the case about what comes nearest: "Group/promise".
	none      error
	elsewhere string
	// again is the answer when it has been done already, and repeats whether that is a line in the trail again.
	again   error
	repeats bool
	// both says that each of two at once may be told that it has done it: what they do is the same.
	both bool
	// begin makes something that is as in from.
	begin func(f *fixture) deed
	// lacking is the same about nothing.
	lacking func(f *fixture) deed
}

// deed is an operation on one thing.
type deed struct {
	do   func(s Store) error // may be called from several goroutines, some times
	look func() string       // how it is now
}

// errNothing stands for the answer that there was nothing to do.
var errNothing = errors.New("nothing to do")

// acts is the table.
func acts() (all []act) {
	for _, some := range []func() []act{letterActs, bulkActs, jobActs, controlActs, scheduleActs, operationActs} {
		all = append(all, some()...)
	}
	return all
}

func meetTrouble(some func() []act) func(f *fixture) {
	return func(f *fixture) {
		other := f.elsewhere()
		for _, a := range some() {
			a.notThere(f)
			a.alreadyDone(f)
			a.atOnce(f, other)
			a.failsBefore(f)
			a.failsAfter(f)
		}
	}
}

func (a act) name(trouble string) string { return fmt.Sprintf("%s, %s: %s", a.action, a.on, trouble) }

// answered checks an answer; nil wants none that is an error.
func (a act) answered(f *fixture, trouble string, err, want error) {
	f.Helper()
	if want == nil {
		f.ok(a.name(trouble), err)
		return
	}
	f.fails(a.name(trouble), err, want)
}

func (a act) lines(f *fixture) int {
	f.Helper()
	return len(f.audit(pawl.AuditFilter{Action: a.action}))
}

// stands checks how a thing is, and how many lines the trail has that it had not before.
func (a act) stands(f *fixture, trouble string, d deed, want string, before, lines int) {
	f.Helper()
	f.equal(a.name(trouble), d.look(), want)
	f.equal(a.name(trouble)+": lines in the trail", a.lines(f)-before, lines)
}

// more is how many lines a repeat leaves.
func (a act) more() int {
	if a.repeats {
		return 1
	}
	return 0
}

func (a act) notThere(f *fixture) {
	f.Helper()
	if a.lacking == nil {
		return
	}
	d, before := a.lacking(f), a.lines(f)
	a.answered(f, "not there", d.do(f.store), a.none)
	lines := 0
	if a.none == errNothing && a.repeats {
		lines = 1
	}
	f.equal(a.name("not there")+": lines in the trail", a.lines(f)-before, lines)
}

func (a act) alreadyDone(f *fixture) {
	f.Helper()
	d, before := a.begin(f), a.lines(f)
	a.stands(f, "before", d, a.from, before, 0)
	f.ok(a.name("once"), d.do(f.store))
	a.stands(f, "once", d, a.to, before, 1)
	a.answered(f, "already done", d.do(f.store), a.again)
	a.stands(f, "already done", d, a.to, before, 1+a.more())
}

func (a act) atOnce(f, other *fixture) {
	f.Helper()
	d, before := a.begin(f), a.lines(f)
	errs := make([]error, 2)
	var group sync.WaitGroup
	for i, s := range []Store{f.store, other.store} {
		group.Go(func() { errs[i] = d.do(s) })
	}
	group.Wait()
	if errs[0] != nil {
		errs[0], errs[1] = errs[1], errs[0]
	}
	f.ok(a.name("by two at once: one"), errs[0])
	if !a.both || errs[1] != nil {
		a.answered(f, "by two at once: the other", errs[1], a.again)
	}
	a.stands(f, "by two at once", d, a.to, before, 1+a.more())
}

func (a act) failsBefore(f *fixture) {
	f.Helper()
	d, before := a.begin(f), a.lines(f)
	f.fails(a.name("store fails before"), d.do(failing(f.store, Before)), ErrFault)
	a.stands(f, "store fails before", d, a.from, before, 0)
	f.ok(a.name("and again"), d.do(f.store))
	a.stands(f, "store failed before", d, a.to, before, 1)
}

func (a act) failsAfter(f *fixture) {
	f.Helper()
	d, before := a.begin(f), a.lines(f)
	f.fails(a.name("store fails after"), d.do(failing(f.store, After)), ErrFault)
	a.stands(f, "store fails after", d, a.to, before, 1)
	a.answered(f, "store failed after, and again", d.do(f.store), a.again)
	a.stands(f, "store failed after", d, a.to, before, 1+a.more())
}

// failing is a store whose next call fails.
func failing(s Store, when When) Store {
	faulty := Fail(s)
	faulty.At(1, when)
	return faulty
}
