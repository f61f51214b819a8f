package proof

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

func TestPeacefulRunHolds(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	findings, figures := Check(s.in)
	if len(findings) > 0 {
		t.Errorf("findings of a run without a fault: %v", findings)
	}
	if figures.Accepted != 5 || figures.Done != 4 || figures.Dead != 1 || figures.Letters != 1 || figures.AlertRows != 1 || figures.Orders != 1 {
		t.Errorf("figures: %+v", figures)
	}
}

func TestHitRunHolds(t *testing.T) {
	t.Parallel()
	s := hit(t)
	s.in.Rules.Late, s.in.Rules.Share, s.in.Rules.Faults = true, 0.6, map[string]int{Kill: 1, Stop: 1}
	findings, f := Check(s.in)
	if len(findings) > 0 {
		t.Errorf("findings of a run that was well: %v", findings)
	}
	if f.Refused != 1 || f.Reruns != 2 || f.InFlight != 3 || f.Share != 1 || f.SessionsLost != 1 || f.Charged != 2 {
		t.Errorf("figures: %+v", f)
	}
	if f.Recovery.Jobs != 3 || f.Recovery.Max < 3 || f.Recovery.Max > 3.2 {
		t.Errorf("recovery: %+v", f.Recovery)
	}
}

// plants are violations, one each, with the rule that has to find it.
var plants = []struct {
	name, rule string
	plant      func(s *story)
}{
	{"an accepted job is gone", "lost", func(s *story) { s.in.Final.Jobs = s.in.Final.Jobs[1:] }},
	{"a claimed job is gone", "lost", func(s *story) {
		s.edit("producer", func(e *Event) bool { return e.Job != id(1) || e.What != Enqueued })
		s.in.Final.Jobs = s.in.Final.Jobs[1:]
	}},
	{"a job from nowhere", "from nowhere", func(s *story) { s.end(9, plain, pawl.JobDone) }},
	{"a job still waits", "not ended", func(s *story) { s.in.Final.Jobs[0].State = pawl.JobWaiting }},
	{"an end is accepted under two tokens", "ended twice", func(s *story) {
		s.settle("host-c", 8, 81, Done, Settled)
	}},
	{"a done job is claimed again", "ended twice", func(s *story) { s.claim("host-b", 1, 12, 2, 0) }},
	{"nobody has acknowledged a done job", "ended by nobody", func(s *story) { s.drop("host-a", 11, Settling, Settled) }},
	{"a job is done without its effect", "done without effect", func(s *story) { s.drop("host-a", 11, Effect) }},
	{"a job is dead and its end was done", "wrong end", func(s *story) { s.in.Final.Jobs[0].State = pawl.JobDead }},
	{"a job that should have died is done", "wrong fate", func(s *story) { s.in.Final.Jobs[2].State = pawl.JobDone }},
	{"a death has another class", "wrong fate", func(s *story) { s.in.Final.Letters[0].Class = pawl.DeathPoison }},
	{"a death has another reason", "wrong fate", func(s *story) { s.in.Final.Letters[0].Reason = pawl.ReasonDeadline }},
	{"a death too late", "wrong fate", func(s *story) { s.in.Final.Letters[0].Attempts = 2 }},
	{"an unknown kind", "wrong fate", func(s *story) {
		s.edit("producer", func(e *Event) bool { e.Kind = strings.Replace(e.Kind, ordered, "other", 1); return true })
	}},
	{"a job is lost without a fault", "wrong fate", func(s *story) {
		s.edit("director", func(e *Event) bool { return e.N != 1 })
	}},
	{"a crash loop after one crash", "wrong fate", func(s *story) {
		s.in.Final.Letters[1].Class, s.in.Final.Letters[1].Reason = pawl.DeathPoison, pawl.ReasonCrashLoop
	}},
	{"two letters of a death", "letters", func(s *story) {
		second := s.in.Final.Letters[0]
		second.ID = letterID(99)
		s.in.Final.Letters = append(s.in.Final.Letters, second)
	}},
	{"a letter is there twice", "letters", func(s *story) {
		s.in.Final.Letters = append(s.in.Final.Letters, s.in.Final.Letters[0])
	}},
	{"a dead job without a letter", "letters", func(s *story) { s.in.Final.Letters = s.in.Final.Letters[1:] }},
	{"the log tells of a letter that there is not", "letters", func(s *story) {
		s.say("host-b", Event{What: Died, Letter: letterID(99).String()})
	}},
	{"two Error lines", "log", func(s *story) { s.say("host-b", Event{What: Died, Letter: letterID(3).String()}) }},
	{"no Error line", "log", func(s *story) {
		s.edit("host-b", func(e *Event) bool { return e.What != Died || e.Letter != letterID(3).String() })
	}},
	{"an alert row is missing", "alerts", func(s *story) { s.in.Final.Sinks[0].Delivered-- }},
	{"an alert row too many", "alerts", func(s *story) { s.in.Final.Sinks[0].Pending++ }},
	{"no sink", "alerts", func(s *story) { s.in.Final.Sinks = nil }},
	{"an alert that nobody received", "alerts", func(s *story) {
		s.edit("host-b", func(e *Event) bool { return e.What != Alerted || e.Letter != letterID(3).String() })
	}},
	{"an alert twice without a fault", "alerts", func(s *story) {
		s.wait(60 * second)
		s.say("host-b", Event{What: Alerted, Letter: letterID(3).String(), Sink: "pager", Key: letterID(3).String()})
	}},
	{"an alert under another key", "alerts", func(s *story) {
		s.say("host-a", Event{What: Alerted, Letter: letterID(7).String(), Sink: "pager", Key: "other"})
	}},
	{"an alert of a letter that there is not", "alerts", func(s *story) {
		s.say("host-b", Event{What: Alerted, Letter: letterID(99).String(), Sink: "pager", Key: "k"})
	}},
	{"a row without its job", "transaction", func(s *story) { s.in.Final.Orders[id(99)] = true }},
	{"a job without its row", "transaction", func(s *story) { delete(s.in.Final.Orders, id(5)) }},
	{"a token is handed out again", "token", func(s *story) { s.claim("host-b", 8, 11, 3, 1) }},
	{"a run that nobody has claimed", "from nowhere", func(s *story) { s.start("host-b", 8, 999) }},
	{"a claim runs twice", "ran twice", func(s *story) { s.start("host-a", 1, 11) }},
	{"max tries 1 runs twice", "ran twice", func(s *story) { s.start("host-b", 7, 72) }},
	{"max tries 1 runs without its mark", "start mark", func(s *story) { s.drop("host-a", 41, Marked) }},
	{"a zombie's acknowledgement is accepted", "fence", func(s *story) {
		s.edit("host-c", func(e *Event) bool { e.What = strings.Replace(e.What, Refused, Settled, 1); return true })
	}},
	{"a reservation ends twice", "fence", func(s *story) { s.settle("host-a", 2, 21, Retry, Settled) }},
	{"an acknowledgement before the handler", "too early", func(s *story) {
		var early []Event
		s.edit("host-a", func(e *Event) bool {
			if e.Token == 11 && e.What == Effect {
				early = []Event{*e}
				return false
			}
			return true
		})
		s.in.Histories["host-a"] = append(s.in.Histories["host-a"], early...)
	}},
	{"a zombie starts something before a beat", "zombie", func(s *story) {
		s.edit("host-c", func(e *Event) bool {
			if e.What == Started {
				e.At = s.now - second/20
			}
			return true
		})
		s.edit("host-c", func(e *Event) bool { return e.What != SessionOpened || e.Session != 4 })
	}},
	{"a handler runs on after its session was lost", "zombie", func(s *story) {
		s.drop("host-c", 81, Left, Settling, Refused)
		s.wait(10 * second)
		s.say("host-b", Event{What: Beat})
	}},
	{"a job is taken away without a fault", "re-runs", func(s *story) {
		s.edit("director", func(e *Event) bool { return e.N != 2 })
	}},
	{"no attempt is counted after a retry", "attempts", func(s *story) {
		s.edit("host-b", func(e *Event) bool {
			e.Attempt -= boolInt(e.What == Claimed && e.Token == 22 && e.Attempt == 2)
			return true
		})
	}},
	{"a crash is charged after a retry", "crashes", func(s *story) {
		s.edit("host-b", func(e *Event) bool {
			if e.What == Claimed && e.Token == 22 {
				e.Crashes = 1
			}
			return true
		})
	}},
	{"no crash is counted", "crashes", func(s *story) {
		s.edit("host-b", func(e *Event) bool {
			if e.What == Claimed && e.Token == 62 {
				e.Crashes = 0
			}
			return true
		})
	}},
	{"no attempt is counted for a crash", "attempts", func(s *story) {
		s.edit("host-b", func(e *Event) bool {
			if e.What == Claimed && e.Token == 62 {
				e.Attempt = 1
			}
			return true
		})
	}},
	{"a crash is charged though no process died", "crashes", func(s *story) {
		s.edit("director", func(e *Event) bool { e.Fault = strings.Replace(e.Fault, Stop, FailedSettle, 1); return true })
	}},
	{"an orphan waits too long", "recovery", func(s *story) { s.in.Rules.Bound = 2 * time.Second }},
	{"a process ends by itself", "process", func(s *story) {
		s.say("director", Event{What: Exited, Target: "host-b", Text: "exit status 2"})
	}},
	{"a process ends badly when it is stopped", "process", func(s *story) {
		s.say("director", Event{What: Exited, Target: "host-b", Kind: ByTerm, Text: "exit status 1"})
	}},
	{"goroutines are left", "leak", func(s *story) {
		s.say("director", Event{What: Condition, Kind: "goroutines", N: 20, Limit: 19})
	}},
	{"too few faults of a kind", "empty", func(s *story) { s.in.Rules.Faults = map[string]int{Kill: 2} }},
	{"faults that hit nothing", "empty", func(s *story) {
		s.fault(Kill, "host-d", 7)
		s.fault(Kill, "host-d", 8)
		s.in.Rules.Share = 0.6
	}},
	{"no late acknowledgement", "empty", func(s *story) {
		s.drop("host-c", 81, Settling, Refused)
		s.in.Rules.Late = true
	}},
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Every kind of violation is found, in a run that is well without it.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := hit(t)
			p.plant(s)
			findings, _ := Check(s.in)
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == p.rule }) {
				t.Errorf("no finding %q among %v", p.rule, findings)
			}
		})
	}
}

// More runs were repeated than were in flight.
func TestRerunsAreBounded(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	s.handIn(6, plain)
	s.claim("host-a", 6, 61, 1, 0)
	s.start("host-a", 6, 61)
	for n := range 3 { // under a fault that is over before the second of them
		if n == 0 {
			s.fault(FailedSettle, "host-a", 0)
		}
		s.claim("host-a", 6, int64(62+n), 1, 0)
		s.start("host-a", 6, int64(62+n))
	}
	s.finish("host-a", 6, 64, Done)
	s.end(6, plain, pawl.JobDone)
	findings, f := Check(s.in)
	if f.Reruns != 3 || f.InFlight != 1 {
		t.Errorf("%d runs repeated, %d in flight", f.Reruns, f.InFlight)
	}
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == "re-runs" && strings.Contains(f.Text, "in flight") }) {
		t.Errorf("findings: %v", findings)
	}
}

// A claim that the store has made and nobody heard of spends an attempt that no history explains: that is no finding.
func TestHiddenClaimIsNoFinding(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	s.handIn(6, plain)
	s.claim("host-a", 6, 61, 1, 0)
	s.start("host-a", 6, 61)
	s.settle("host-a", 6, 61, Retry, Settled)
	s.say("host-a", Event{What: Claiming, N: 900})
	s.fault(Kill, "host-a", 1)
	s.say("director", Event{What: Exited, Target: "host-a", Kind: ByKill})
	s.wait(3 * second)
	s.claim("host-b", 6, 63, 3, 1)
	s.work("host-b", 6, 63, Done)
	s.end(6, plain, pawl.JobDone)
	if findings, _ := Check(s.in); len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
}

// What the machine's standing still, or the database's, takes away is not counted as a late recovery.
func TestDisturbedRecovery(t *testing.T) {
	t.Parallel()
	for _, disturb := range []func(s *story){
		func(s *story) {
			s.wait(20 * second)
			s.say("director", Event{What: Frozen, N: 20_000})
		},
		func(s *story) {
			s.fault(Restart, "", 3)
			s.wait(20 * second)
			s.say("director", Event{What: Healed, N: 3})
		},
		func(s *story) { // on SQLite, by a process that holds the file's lock
			s.fault(Stop, "host-c", 3)
			s.wait(20 * second)
			s.say("director", Event{What: Healed, N: 3})
		},
	} {
		s := peaceful(t)
		s.handIn(6, plain)
		s.claim("host-a", 6, 61, 1, 0)
		s.start("host-a", 6, 61)
		s.fault(Kill, "host-a", 1)
		s.say("director", Event{What: Exited, Target: "host-a", Kind: ByKill})
		disturb(s)
		s.wait(3 * second)
		s.claim("host-b", 6, 62, 2, 1)
		s.work("host-b", 6, 62, Done)
		s.end(6, plain, pawl.JobDone)
		findings, f := Check(s.in)
		if len(findings) > 0 || f.Recovery.Max < 3 || f.Recovery.Max > 4 {
			t.Errorf("recovery %+v, findings: %v", f.Recovery, findings)
		}
	}
}

// Two calls that were under way at a time are told apart by what the store counted.
func TestOverlappingClaims(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	s.handIn(6, plain)
	s.say("host-b", Event{What: Claiming, N: 900}) // which hangs
	s.claim("host-a", 6, 61, 1, 0)
	s.start("host-a", 6, 61)
	s.settle("host-a", 6, 61, Retry, Settled)
	s.say("host-b", Event{What: Claimed, N: 900, Job: id(6), Token: 62, Session: 2, Attempt: 2})
	s.say("host-b", Event{What: ClaimEnd, N: 900})
	s.work("host-b", 6, 62, Done)
	s.end(6, plain, pawl.JobDone)
	if findings, _ := Check(s.in); len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
}

// What a process held is in flight, and runs, until it has ended.
func TestDeadProcessesHoldNothing(t *testing.T) {
	t.Parallel()
	s := hit(t)
	s.fault(Restart, "", 9)
	s.say("director", Event{What: Healed, N: 9})
	findings, f := Check(s.in)
	if len(findings) > 0 || f.InFlight != 3 || f.FaultsOnJobs != 2 || f.Share > 0.7 {
		t.Errorf("%+v, findings: %v", f, findings)
	}
}

// A host that cannot record all in time, since nobody reaches the store, may end badly.
func TestBadEndOfAnOutage(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	s.say("host-b", Event{What: BeatFailed, Session: 2})
	s.say("director", Event{What: Exited, Target: "host-a", Kind: ByTerm, Text: "exit status 1"})
	if findings, _ := Check(s.in); len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
}

// A fault of a place hits the processes that follow each other there, and no other.
func TestFaultOfPlace(t *testing.T) {
	t.Parallel()
	f := &fault{kind: Cut, target: "host-1-"}
	for process, want := range map[string]bool{"host-1-1": true, "host-1-22": true, "host-11-1": false, "host-2-1": false, "producer": false} {
		if f.hits(process) != want {
			t.Errorf("%s: %v", process, !want)
		}
	}
}

// Nobody is found dead while nobody lives for long enough to see it.
func TestRecoveryNeedsAnObserver(t *testing.T) {
	t.Parallel()
	for want, observer := range map[float64]int{3: 1, 23: 0} {
		s := peaceful(t)
		s.handIn(6, plain)
		s.claim("host-a", 6, 61, 1, 0)
		s.start("host-a", 6, 61)
		s.fault(Kill, "host-a", 1)
		s.say("director", Event{What: Exited, Target: "host-a", Kind: ByKill})
		s.wait(20 * second)
		if observer > 0 { // host-b was not there before
			s.fault(Kill, "host-b", 2)
			s.say("director", Event{What: Exited, Target: "host-b", Kind: ByKill})
			s.say("host-c", Event{What: SessionOpened, Session: 3})
		}
		s.wait(3 * second)
		recoverer := map[int]string{1: "host-c", 0: "host-b"}[observer]
		s.claim(recoverer, 6, 62, 2, 1)
		s.work(recoverer, 6, 62, Done)
		s.end(6, plain, pawl.JobDone)
		_, f := Check(s.in)
		if f.Recovery.Jobs != 1 || f.Recovery.Max < want || f.Recovery.Max > want+1 {
			t.Errorf("recovery %+v, want %g s", f.Recovery, want)
		}
	}
}

// One that is charged alone shields the others.
func TestSuspectShieldsOthers(t *testing.T) {
	t.Parallel()
	s := peaceful(t)
	for n, crashes := range []int{0, suspect} {
		s.handIn(6+n, plain)
		s.claim("host-a", 6+n, int64(61+10*n), 1+crashes, crashes)
		s.start("host-a", 6+n, int64(61+10*n))
	}
	s.fault(Kill, "host-a", 1)
	s.say("director", Event{What: Exited, Target: "host-a", Kind: ByKill})
	s.wait(3 * second)
	for n, crashes := range []int{0, suspect + 1} {
		s.claim("host-b", 6+n, int64(62+10*n), 2+crashes, crashes)
		s.work("host-b", 6+n, int64(62+10*n), Done)
		s.end(6+n, plain, pawl.JobDone)
	}
	if findings, f := Check(s.in); len(findings) > 0 || f.Charged != 2 {
		t.Errorf("findings: %v; %+v", findings, f)
	}
}
