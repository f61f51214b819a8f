package proof

import (
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// Kinds of the synthetic runs.
const (
	plain   = "plain"
	doomed  = "doomed"
	single  = "single"
	ordered = "ordered"
)

var kinds = map[string]Kind{
	plain:   {Polite: true},
	doomed:  {Dead: true, Class: pawl.DeathPermanent, Reasons: []pawl.Reason{pawl.ReasonPermanent}, Tries: 1},
	single:  {Once: true, Polite: true},
	ordered: {Ordered: true},
}

// story is a run that is made up: what its processes have written and what the store contains.
type story struct {
	*testing.T
	now int64
	in  Input
}

const second = int64(time.Second)

// peaceful is a run in which four jobs end well: one at once, one after a retry, one by its death, one under max tries 1,
// and one that was enqueued with a row. Nobody is hit by anything.
func peaceful(t *testing.T) *story {
	s := &story{T: t, now: 100 * second, in: Input{
		Histories: map[string][]Event{}, Kinds: kinds, Final: Final{Orders: map[string]bool{}},
		Rules: Rules{Silence: time.Second, Bound: 5 * time.Second},
	}}
	s.say("host-a", Event{What: SessionOpened, Session: 1})
	s.say("host-b", Event{What: SessionOpened, Session: 2})
	s.handIn(1, plain)
	s.claim("host-a", 1, 11, 1, 0)
	s.work("host-a", 1, 11, Done)
	s.end(1, plain, pawl.JobDone)

	s.handIn(2, plain)
	s.claim("host-a", 2, 21, 1, 0)
	s.start("host-a", 2, 21)
	s.say("host-a", Event{What: Left, Job: id(2), Token: 21})
	s.settle("host-a", 2, 21, Retry, Settled)
	s.claim("host-b", 2, 22, 2, 0)
	s.work("host-b", 2, 22, Done)
	s.end(2, plain, pawl.JobDone)

	s.handIn(3, doomed)
	s.claim("host-b", 3, 31, 1, 0)
	s.start("host-b", 3, 31)
	s.say("host-b", Event{What: Left, Job: id(3), Token: 31})
	s.settle("host-b", 3, 31, Dead, Settled)
	s.die("host-b", 3, pawl.DeathPermanent, pawl.ReasonPermanent)

	s.handIn(4, single)
	s.claim("host-a", 4, 41, 1, 0)
	s.say("host-a", Event{What: Marked, Job: id(4), Token: 41})
	s.work("host-a", 4, 41, Done)
	s.end(4, single, pawl.JobDone)

	s.handIn(5, ordered)
	s.in.Final.Orders[id(5)] = true
	s.claim("host-a", 5, 51, 1, 0)
	s.work("host-a", 5, 51, Done)
	s.end(5, ordered, pawl.JobDone)
	return s
}

// hit is a peaceful run with two more jobs that a killed process loses, and one whose zombie is refused.
func hit(t *testing.T) *story {
	s := peaceful(t)
	s.handIn(6, plain)
	s.claim("host-a", 6, 61, 1, 0)
	s.start("host-a", 6, 61)
	s.handIn(7, single)
	s.claim("host-a", 7, 71, 1, 0)
	s.say("host-a", Event{What: Marked, Job: id(7), Token: 71})
	s.start("host-a", 7, 71)
	s.fault(Kill, "host-a", 1)
	s.say("director", Event{What: Exited, Target: "host-a", Kind: ByKill, Text: "signal: killed"})
	s.wait(3 * second)
	s.claim("host-b", 6, 62, 2, 1)
	s.claim("host-b", 7, 72, 2, 1)
	s.settle("host-b", 7, 72, Dead, Settled)
	s.die("host-b", 7, pawl.DeathExhausted, pawl.ReasonLost)
	s.work("host-b", 6, 62, Done)
	s.end(6, plain, pawl.JobDone)

	s.handIn(8, plain)
	s.say("host-c", Event{What: SessionOpened, Session: 3})
	s.claim("host-c", 8, 81, 1, 0)
	s.start("host-c", 8, 81)
	s.wait(second)
	s.fault(Stop, "host-c", 2)
	s.wait(3 * second)
	s.claim("host-b", 8, 82, 2, 1)
	s.start("host-b", 8, 82)
	s.say("director", Event{What: Healed, N: 2})
	s.say("host-c", Event{What: Effect, Job: id(8), Token: 81})
	s.say("host-c", Event{What: Left, Job: id(8), Token: 81})
	s.settle("host-c", 8, 81, Done, Refused)
	s.say("host-c", Event{What: SessionLost, Session: 3})
	s.say("host-c", Event{What: SessionOpened, Session: 4})
	s.finish("host-b", 8, 82, Done)
	s.end(8, plain, pawl.JobDone)
	return s
}

func (s *story) wait(d int64) { s.now += d }

// say appends to a history, a hundredth of a second later.
func (s *story) say(process string, e Event) {
	s.now += second / 100
	e.At, e.Process = s.now, process
	s.in.Histories[process] = append(s.in.Histories[process], e)
}

func jobID(n int) (id pawl.ID)    { id[0] = byte(n); return id }
func letterID(n int) (id pawl.ID) { id[0], id[1] = byte(n), 1; return id }
func id(n int) string             { return jobID(n).String() }

func (s *story) handIn(n int, kind string) {
	s.say("producer", Event{What: Enqueue, Job: id(n), Kind: kind})
	s.say("producer", Event{What: Enqueued, Job: id(n)})
}

func (s *story) claim(process string, n int, token int64, attempt, crashes int) {
	s.say(process, Event{What: Claiming, N: int(token)})
	session := map[string]int64{"host-a": 1, "host-b": 2, "host-c": 3}[process]
	s.say(process, Event{What: Claimed, N: int(token), Job: id(n), Token: token, Session: session, Attempt: attempt, Crashes: crashes})
	s.say(process, Event{What: ClaimEnd, N: int(token)})
}

func (s *story) start(process string, n int, token int64) {
	s.say(process, Event{What: Started, Job: id(n), Token: token})
}

// work is a run that has its effect and ends.
func (s *story) work(process string, n int, token int64, outcome string) {
	s.start(process, n, token)
	s.finish(process, n, token, outcome)
}

func (s *story) finish(process string, n int, token int64, outcome string) {
	s.say(process, Event{What: Effect, Job: id(n), Token: token})
	s.say(process, Event{What: Left, Job: id(n), Token: token})
	s.settle(process, n, token, outcome, Settled)
}

func (s *story) settle(process string, n int, token int64, outcome, result string) {
	s.say(process, Event{What: Settling, Job: id(n), Token: token, Outcome: outcome})
	s.say(process, Event{What: result, Job: id(n), Token: token, Outcome: outcome})
}

func (s *story) end(n int, kind string, state pawl.JobState) {
	s.in.Final.Jobs = append(s.in.Final.Jobs, pawl.JobView{ID: jobID(n), Kind: kind, State: state})
}

// die leaves a letter, its line, its alert and its row.
func (s *story) die(process string, n int, class pawl.DeathClass, reason pawl.Reason) {
	kind := map[bool]string{true: doomed, false: single}[class == pawl.DeathPermanent]
	s.end(n, kind, pawl.JobDead)
	f := &s.in.Final
	f.Letters = append(f.Letters, pawl.DeadLetter{ID: letterID(n), JobID: jobID(n), Kind: kind, Class: class, Reason: reason, Attempts: 1})
	letter := letterID(n).String()
	s.say(process, Event{What: Died, Letter: letter})
	s.say(process, Event{What: Alerted, Letter: letter, Sink: "pager", Key: letter})
	f.Sinks = []pawl.SinkView{{Name: "pager", Delivered: len(f.Letters)}}
}

func (s *story) fault(kind, target string, n int) {
	s.say("director", Event{What: Fault, Fault: kind, Target: target, N: n})
}

// edit changes the events of a history; those for which it returns false are taken out.
func (s *story) edit(process string, keep func(*Event) bool) {
	s.Helper()
	before := len(s.in.Histories[process])
	changed := false
	s.in.Histories[process] = slices.DeleteFunc(s.in.Histories[process], func(e Event) bool {
		return !keep(&e)
	})
	for i := range s.in.Histories[process] {
		e := &s.in.Histories[process][i]
		old := *e
		keep(e)
		changed = changed || *e != old
	}
	if !changed && before == len(s.in.Histories[process]) {
		s.Fatal("the plant has changed nothing")
	}
}

// drop takes out the events of a token that say so.
func (s *story) drop(process string, token int64, what ...string) {
	s.Helper()
	s.edit(process, func(e *Event) bool { return e.Token != token || !slices.Contains(what, e.What) })
}
