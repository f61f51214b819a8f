package proof

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// reservation is what is known of one claim of a job.
type reservation struct {
	token, session   int64
	process          string
	job              *job
	attempt, crashes int
	asked, claimed   int64 // when the claim was called, and had returned

	lost    int64 // when its process heard that the session was
	ended   int64 // when its process had ended; 0: not
	marked  int64 // 0: no start mark is known
	started int64 // 0: not
	starts  int
	effect  int64
	left    int64
	cause   string // why the handler's ctx had ended
	settles []settle
}

// settle is one call that was to end a reservation.
type settle struct {
	outcome   string
	asked, at int64
	result    string // Settled, Refused, SettleUnknown; "" when the process was killed meanwhile
	effect    bool   // the effect had happened before
}

// accepted is the settle that the store confirmed, or nil.
func (r *reservation) accepted() *settle {
	for i := range r.settles {
		if r.settles[i].result == Settled {
			return &r.settles[i]
		}
	}
	return nil
}

// before reports whether a claim was made before another of the same job. Where both calls were under way at a time, and
// one of them for long, what the store counted tells.
func (r *reservation) before(other *reservation) bool {
	switch {
	case r.claimed < other.asked:
		return true
	case other.claimed < r.asked:
		return false
	}
	return cmp.Or(cmp.Compare(r.attempt, other.attempt), cmp.Compare(r.crashes, other.crashes), cmp.Compare(r.claimed, other.claimed)) < 0
}

// unsure reports that a settle may have ended the reservation without anybody hearing of it.
func (r *reservation) unsure() bool {
	return slices.ContainsFunc(r.settles, func(s settle) bool { return s.result == "" || s.result == SettleUnknown })
}

// heldAt reports whether the reservation was its process's at that time.
func (r *reservation) heldAt(at int64) bool {
	if r.claimed > at || r.lost != 0 && r.lost <= at || r.endedBy(at) {
		return false
	}
	for _, s := range r.settles {
		if (s.result == Settled || s.result == Refused) && s.at <= at {
			return false
		}
	}
	return true
}

// ranAt reports whether its handler was at work.
func (r *reservation) ranAt(at int64) bool {
	return r.started != 0 && r.started <= at && (r.left == 0 || r.left > at) && !r.endedBy(at)
}

func (r *reservation) endedBy(at int64) bool { return r.ended != 0 && r.ended <= at }

type job struct {
	id, kind     string
	handedIn     bool
	accepted     bool
	reservations []*reservation // in the order in which they were made
	view         *pawl.JobView
	letters      []*pawl.DeadLetter
}

// order sorts the reservations: by insertion, since before is no order of more than two that overlap.
func (j *job) order() {
	all := j.reservations
	slices.SortFunc(all, func(a, b *reservation) int { return cmp.Compare(a.claimed, b.claimed) })
	for i := range all {
		for k := i; k > 0 && all[k].before(all[k-1]); k-- {
			all[k], all[k-1] = all[k-1], all[k]
		}
	}
}

type fault struct {
	n          int
	kind       string
	target     string // a process, the beginning of their names up to a dash, or "" for all
	begin, end int64  // end is 0 for one that nothing ends
}

// ofProcess reports whether a fault takes a process away from the store, for good or for a while.
func (f *fault) ofProcess() bool {
	switch f.kind {
	case Kill, KillInSettle, Suicide, Stop, Term, Cut, CutInCommit, Blackhole, HeldCommit:
		return true
	}
	return false
}

// ends reports whether a fault kills its target.
func (f *fault) ends() bool { return f.kind == Kill || f.kind == KillInSettle || f.kind == Suicide }

func (f *fault) hits(process string) bool {
	return f.target == "" || f.target == process || strings.HasSuffix(f.target, "-") && strings.HasPrefix(process, f.target)
}

// over is when the fault's own time ended.
func (f *fault) over() int64 { return max(f.begin, f.end) }

// index puts the lines of all processes together.
type index struct {
	input     Input
	jobs      map[string]*job
	tokens    map[int64]*reservation
	byProcess map[string][]*reservation
	twice     []*reservation // whose token was handed out before
	faults    []*fault       // by their beginning
	processes []string
	claims    map[string][]call  // of a process
	beats     map[string][]Event // that succeeded, and sessions opened
	away      []Event            // beats that failed
	lost      map[string][]Event // SessionLost
	exits     map[string]Event   // by process
	died      map[string]int     // Error lines of a letter
	alerts    map[[2]string][]Event
	unplaced  []Event // starts that belong to no claim
	condition []Event
	last      int64
}

// call is a claim under way.
type call struct {
	begin, end int64 // end is 0 when nothing came back
	failed     bool
}

func newIndex(in Input) *index {
	x := &index{
		input: in, jobs: map[string]*job{}, tokens: map[int64]*reservation{}, claims: map[string][]call{},
		beats: map[string][]Event{}, lost: map[string][]Event{}, exits: map[string]Event{}, died: map[string]int{},
		alerts: map[[2]string][]Event{}, byProcess: map[string][]*reservation{}, processes: slices.Sorted(maps.Keys(in.Histories)),
	}
	for _, process := range x.processes {
		x.follow(process, in.Histories[process])
	}
	for process, exit := range x.exits {
		for _, r := range x.byProcess[process] {
			r.ended = exit.At
		}
	}
	for _, j := range x.jobs {
		j.order()
	}
	slices.SortFunc(x.faults, func(a, b *fault) int { return cmp.Compare(a.begin, b.begin) })
	for key := range x.alerts {
		slices.SortFunc(x.alerts[key], func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	}
	x.addFinal()
	return x
}

func (x *index) addFinal() {
	for i := range x.input.Final.Jobs {
		view := &x.input.Final.Jobs[i]
		j := x.job(view.ID.String())
		j.view = view
		if j.kind == "" {
			j.kind = view.Kind
		}
	}
	for i := range x.input.Final.Letters {
		letter := &x.input.Final.Letters[i]
		j := x.job(letter.JobID.String())
		j.letters = append(j.letters, letter)
	}
}

func (x *index) job(id string) *job {
	j := x.jobs[id]
	if j == nil {
		j = &job{id: id}
		x.jobs[id] = j
	}
	return j
}

// follow reads the history of one process.
func (x *index) follow(process string, events []Event) {
	calls := map[int]int{} // by their number, where they are in x.claims
	numbered := map[int]*fault{}
	for _, e := range events {
		x.last = max(x.last, e.At)
		switch e.What {
		case Enqueue:
			j := x.job(e.Job)
			j.handedIn, j.kind = true, e.Kind
		case Enqueued:
			x.job(e.Job).accepted = true
		case Claiming:
			calls[e.N] = len(x.claims[process])
			x.claims[process] = append(x.claims[process], call{begin: e.At})
		case ClaimEnd:
			c := &x.claims[process][calls[e.N]]
			c.end, c.failed = e.At, e.Text != ""
		case Claimed:
			x.claimed(process, e, x.claims[process][calls[e.N]].begin)
		case Beat, SessionOpened:
			x.beats[process] = append(x.beats[process], e)
		case BeatFailed:
			x.away = append(x.away, e)
		case SessionLost:
			x.lost[process] = append(x.lost[process], e)
			for _, r := range x.byProcess[process] {
				if r.session == e.Session {
					r.lost = e.At
				}
			}
		case Fault:
			f := &fault{n: e.N, kind: e.Fault, target: e.Target, begin: e.At}
			if e.N != 0 {
				numbered[e.N] = f
			}
			x.faults = append(x.faults, f)
		case Frozen:
			x.faults = append(x.faults, &fault{kind: Freeze, target: e.Target, begin: e.At - int64(e.N)*1e6, end: e.At})
		case Healed:
			if f := numbered[e.N]; f != nil {
				f.end = e.At
			}
		case Exited:
			x.exits[e.Target] = e
		case Condition:
			x.condition = append(x.condition, e)
		case Died:
			x.died[e.Letter]++
		case Alerted:
			key := [2]string{e.Letter, e.Sink}
			x.alerts[key] = append(x.alerts[key], e)
		default:
			x.attempt(e)
		}
	}
}

func (x *index) claimed(process string, e Event, asked int64) {
	j := x.job(e.Job)
	if j.kind == "" {
		j.kind = e.Kind
	}
	r := &reservation{
		token: e.Token, session: e.Session, process: process, job: j,
		attempt: e.Attempt, crashes: e.Crashes, asked: asked, claimed: e.At,
	}
	if x.tokens[e.Token] != nil {
		x.twice = append(x.twice, r)
		return
	}
	x.tokens[e.Token] = r
	x.byProcess[process] = append(x.byProcess[process], r)
	j.reservations = append(j.reservations, r)
}

// attempt notes what a reservation's holder did.
func (x *index) attempt(e Event) {
	r := x.tokens[e.Token]
	if r == nil || r.process != e.Process {
		if e.What == Started {
			x.unplaced = append(x.unplaced, e)
		}
		return // a claim whose reply was lost is given back by its token alone
	}
	switch e.What {
	case Marked:
		r.marked = e.At
	case Started:
		r.starts++
		r.started = e.At
	case Effect:
		r.effect = e.At
	case Left:
		r.left, r.cause = e.At, e.Text
	case Settling:
		r.settles = append(r.settles, settle{outcome: e.Outcome, asked: e.At, effect: r.effect != 0})
	case Settled, Refused, SettleUnknown:
		if n := len(r.settles); n > 0 && r.settles[n-1].result == "" {
			r.settles[n-1].result, r.settles[n-1].at = e.What, e.At
		}
	}
}

// faultsIn are the faults that were going on at some time of a span.
func (x *index) faultsIn(from, to int64, like func(*fault) bool) []*fault {
	var found []*fault
	for _, f := range x.faults {
		if f.begin > to {
			break
		}
		if f.over() >= from && like(f) {
			found = append(found, f)
		}
	}
	return found
}

// heldBy are the reservations of a process at a time, of one session or (0) of any.
func (x *index) heldBy(process string, session, at int64) []*reservation {
	var held []*reservation
	for _, r := range x.byProcess[process] {
		if (session == 0 || r.session == session) && r.heldAt(at) {
			held = append(held, r)
		}
	}
	return held
}

// claimUnder reports whether a process may have claimed something at that time without hearing of it.
func (x *index) claimUnder(process string, at int64) bool {
	return slices.ContainsFunc(x.claims[process], func(c call) bool {
		return c.begin <= at && (c.end == 0 || c.end >= at || c.failed && at-c.end < int64(x.input.Rules.Bound))
	})
}
