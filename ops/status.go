package ops

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Silence is how long a host may have been silent and still counts as live. It is well above what hosts themselves take
// for a death, so that a slow beat or a clock that is a little off raises no false alarm.
const Silence = time.Minute

// Live reports that a host takes jobs: it was heard of lately, and does not drain.
func Live(h pawl.HostView) bool { return !h.Draining && !Silent(h) }

// Silent reports that a host was not heard of for longer than Silence.
func Silent(h pawl.HostView) bool { return time.Since(h.BeatAt) > Silence }

// StatusOptions say what is well.
type StatusOptions struct {
	// Wait is how long a job may wait before that is a trouble. Default: 10 minutes.
	Wait time.Duration
	// Groups is how many groups of open failures are shown. Default: 5.
	Groups int
}

const defaultWait = 10 * time.Minute

// alertsLate is how long the first five tries of a delivery take: what is pending for longer reaches nobody.
const alertsLate = 15 * time.Minute

// Trouble is one thing that is not well, or that is good to know.
type Trouble struct {
	What    What
	Subject string // the host, queue, kind, sink, group or operation that it is about; empty where it is about none
	Text    string // a sentence without its full stop
}

// What tells troubles apart. It is part of the JSON form of a status and never changes its meaning.
type What string

// The troubles, in the order in which they are to be dealt with.
const (
	NoHost           What = "no-host"           // jobs wait, and no host is live
	QueueUnserved    What = "queue-unserved"    // jobs wait in a queue that no live host serves
	KindUnserved     What = "kind-unserved"     // jobs wait of a kind that no live host which serves their queue has registered
	HostSilent       What = "host-silent"       // it has died, or cannot reach the store
	HostUnsettled    What = "host-unsettled"    // the store does not take what its jobs ended with
	QueueLate        What = "queue-late"        // a live host serves it, and still its jobs wait too long
	ScheduleStuck    What = "schedule-stuck"    // no host can read its spec
	ScheduleLate     What = "schedule-late"     // it is due, and no host has acted on it
	ScheduleOverdue  What = "schedule-overdue"  // its last success is older than it should be
	ScheduleUnserved What = "schedule-unserved" // no live host has registered its kind; a note as long as its next tick is far
	SinkUnserved     What = "sink-unserved"     // alerts are pending for a sink that no live host has
	AlertsLate       What = "alerts-late"       // alerts are pending for so long that they reach nobody
	OpenFailures     What = "open-failures"     // dead letters wait for a decision
	OutboxLate       What = "outbox-late"       // messages in a business database are not dispatched; see JudgeOutboxes
	OutboxUnread     What = "outbox-unread"     // the same, where its database cannot be asked

	// Good to know; these do not make a status bad.
	OperationPaused    What = "operation-paused"  // its letters wait until somebody resumes or stops it
	OperationUnderway  What = "operation-running" // letters that wait for a decision may be in its hands
	QueuePaused        What = "queue-paused"
	KindOff            What = "kind-off"
	KindUnknown        What = "kind-unknown"   // a switch is set of a kind that no host has registered and of which no job waits
	KindNotOn          What = "kind-not-on"    // jobs wait of a kind that starts off and that nobody has switched on
	NotServed          What = "not-served-yet" // jobs wait that no live host takes, though not for long
	HostsDrain         What = "host-draining"  // it takes no more jobs
	SchedulePaused     What = "schedule-paused"
	ScheduleUndeclared What = "schedule-undeclared" // code has declared it, and that of no live host does any more
	OutboxPaused       What = "outbox-paused"
	SinkRetired        What = "sink-retired"   // no host has had it for long, and deaths are not told to it any more
	LogOnly            What = "nobody-is-told" // no sink but the log is registered
)

// Status is how a store stands.
type Status struct {
	Troubles []Trouble // what is not well, the first thing to do first; empty when all is well
	Notes    []Trouble // what is good to know
	Hosts    []pawl.HostView
	Queues   []QueueStatus // in which jobs wait, or which are paused or served, in order of priority
	Failures pawl.LetterGroups
	LastHour int // of the open failures
	Sinks    []pawl.SinkView
	Switches pawl.Switches
	// Operations are those that have not ended, the newest first; none where the source keeps none.
	Operations []pawl.Operation
	// Schedules are all there are, by name; none where the source keeps none.
	Schedules []pawl.ScheduleView
}

// QueueStatus is how a queue stands.
type QueueStatus struct {
	Queue       string
	OldestReady time.Duration // of the jobs that are not held back by a switch
	Hosts       int           // live ones that serve it
	Paused      bool
	Kinds       []pawl.QueueHead // that wait in it
}

// Well reports that nothing needs doing.
func (s Status) Well() bool { return len(s.Troubles) == 0 }

// StatusSource is what a status is made from: a part of pawl.Operator. Where it is a pawl.Operations or a pawl.Schedules
// too, those are looked at.
type StatusSource interface {
	QueueHeads(ctx context.Context) ([]pawl.QueueHead, error)
	Hosts(ctx context.Context) ([]pawl.HostView, error)
	LetterGroups(ctx context.Context, filter pawl.LetterFilter, limit int) (pawl.LetterGroups, error)
	CountLetters(ctx context.Context, filter pawl.LetterFilter) (int, error)
	Switches(ctx context.Context) (pawl.Switches, error)
	Sinks(ctx context.Context) ([]pawl.SinkView, error)
}

// ReadStatus asks a store how it stands. It counts no jobs, so it is quick however many there are.
func ReadStatus(ctx context.Context, source StatusSource, o StatusOptions) (Status, error) {
	if o.Wait < 0 || o.Groups < 0 {
		return Status{}, &pawl.FieldError{Field: "wait and groups", Value: o, Rule: "must not be negative"}
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Groups == 0 {
		o.Groups = 5
	}
	var s Status
	open := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
	recent := open
	recent.Since = time.Now().Add(-time.Hour)
	var heads []pawl.QueueHead
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"hosts", func() (err error) { s.Hosts, err = source.Hosts(ctx); return err }},
		{"queues", func() (err error) { heads, err = source.QueueHeads(ctx); return err }},
		{"switches", func() (err error) { s.Switches, err = source.Switches(ctx); return err }},
		{"open failures", func() (err error) { s.Failures, err = source.LetterGroups(ctx, open, o.Groups); return err }},
		{"failures of the last hour", func() (err error) { s.LastHour, err = source.CountLetters(ctx, recent); return err }},
		{"operations", func() (err error) { s.Operations, err = openOperations(ctx, source); return err }},
		{"schedules", func() (err error) { s.Schedules, err = readSchedules(ctx, source); return err }},
		{"alerts", func() (err error) { s.Sinks, err = source.Sinks(ctx); return err }},
	} {
		if err := part.read(); err != nil {
			return Status{}, fmt.Errorf("read %s: %w", part.name, err)
		}
	}
	s.judge(heads, o.Wait)
	return s, nil
}

// judge finds what is not well. The order of its steps is that of the troubles.
func (s *Status) judge(heads []pawl.QueueHead, wait time.Duration) {
	live := slices.DeleteFunc(slices.Clone(s.Hosts), func(h pawl.HostView) bool { return !Live(h) })
	board := newSwitchboard(s.Switches)
	s.Queues = queueStatuses(live, heads, board)
	s.judgeServing(live, board, wait)
	s.judgeHosts()
	s.judgeDelays(live, board, wait)
	s.judgeSchedules(live, wait)
	s.judgeAlerts()
	s.judgeFailures()
	s.noteOperations()
	s.noteSwitches(heads)
}

func (s *Status) trouble(what What, subject, format string, args ...any) {
	s.Troubles = append(s.Troubles, Trouble{what, subject, fmt.Sprintf(format, args...)})
}

func (s *Status) note(what What, subject, format string, args ...any) {
	s.Notes = append(s.Notes, Trouble{what, subject, fmt.Sprintf(format, args...)})
}

// judgeHosts looks for hosts that are gone or going.
func (s *Status) judgeHosts() {
	for _, h := range s.Hosts {
		switch {
		case Silent(h):
			s.trouble(HostSilent, h.Name, "host %s (session %d) has not been heard of for %s: it has died, or cannot reach the store",
				h.Name, h.Session, span(time.Since(h.BeatAt)))
		case h.Draining:
			s.note(HostsDrain, h.Name, "host %s (session %d) takes no more jobs", h.Name, h.Session)
		}
		if h.Unsettled > 0 && !Silent(h) {
			s.trouble(HostUnsettled, h.Name, "host %s (session %d) could not record how %s ended: see its log for what the store says",
				h.Name, h.Session, some(h.Unsettled, "attempt"))
		}
	}
}

func (s *Status) judgeAlerts() {
	told := false
	for _, sink := range s.Sinks {
		if !sink.RetiredAt.IsZero() {
			s.note(SinkRetired, sink.Name, "sink %s was retired %s ago, since no host had had it for a week: deaths are not told to it, and it was not told of %s; start a host that has it, or forget it",
				sink.Name, span(time.Since(sink.RetiredAt)), some(sink.Pending, "death"))
			continue
		}
		told = told || sink.Name != "log"
		if sink.Pending > 0 && sink.OldestAge > Silence && !s.delivers(sink.Name) {
			s.trouble(SinkUnserved, sink.Name, "%s to %s wait, the oldest for %s, and no host that is heard of has this sink: start one, or forget it",
				some(sink.Pending, "alert"), sink.Name, span(sink.OldestAge))
			continue
		}
		if sink.Pending > 0 && sink.OldestAge > alertsLate {
			s.trouble(AlertsLate, sink.Name, "%s to %s could not be delivered, the oldest for %s%s",
				some(sink.Pending, "alert"), sink.Name, span(sink.OldestAge), because(sink.LastError))
		}
	}
	if !told {
		s.note(LogOnly, "", "no sink but the log is registered: a death alerts nobody")
	}
}

// delivers says that some host which is heard of has the sink; one that drains delivers too.
func (s *Status) delivers(sink string) bool {
	return slices.ContainsFunc(s.Hosts, func(h pawl.HostView) bool { return !Silent(h) && slices.Contains(h.Sinks, sink) })
}

func because(text string) string {
	if text == "" {
		return ""
	}
	return ": " + firstRunes(text, 120)
}

func (s *Status) judgeFailures() {
	if s.Failures.Letters == 0 {
		return
	}
	largest := s.Failures.Groups[0]
	in := ""
	if s.Failures.All > 1 {
		in = fmt.Sprintf(" in %d groups", s.Failures.All)
	}
	message := largest.Message
	if message == "" {
		message = largest.ExceptionType
	}
	s.trouble(OpenFailures, largest.Fingerprint, "%s%s, %d of the last hour; the largest group: %d of %s: %s",
		waitFor(s.Failures.Letters), in, s.LastHour, largest.Letters, largest.Kind, firstRunes(message, 120))
}

func waitFor(n int) string {
	if n == 1 {
		return "1 dead letter waits for a decision"
	}
	return fmt.Sprintf("%d dead letters wait for a decision", n)
}

// openOperations reads those that have not ended, of a store that keeps any. Nobody looks through more than a few.
func openOperations(ctx context.Context, source StatusSource) ([]pawl.Operation, error) {
	store, ok := source.(pawl.Operations)
	if !ok {
		return nil, nil
	}
	found, err := store.Operations(ctx, pawl.OperationFilter{
		State: []pawl.OperationState{pawl.OperationProbing, pawl.OperationRunning, pawl.OperationPaused},
	}, pawl.Page{Limit: 20})
	return found.Operations, err
}

// noteOperations says who has letters in hand already, so that nobody begins a second time.
func (s *Status) noteOperations() {
	for _, o := range s.Operations {
		what, how := OperationUnderway, "goes on"
		if o.State == pawl.OperationPaused {
			what, how = OperationPaused, "is paused"
		}
		s.note(what, o.ID.String(), "operation %s (%s, by %s) %s: %d of its %s wait", o.ID, o.Action, o.Who, how, o.Waiting(), some(o.Letters, "letter"))
	}
}

func (s *Status) noteSwitches(heads []pawl.QueueHead) {
	for _, q := range s.Switches.Queues {
		if q.Paused {
			s.note(QueuePaused, q.Queue, "queue %s is paused%s%s", q.Queue, until(q.Until), setBy(q.Setting))
		}
	}
	for _, k := range s.Switches.Kinds {
		if !k.On {
			s.note(KindOff, k.Kind, "kind %s is switched off%s%s", k.Kind, until(k.Until), setBy(k.Setting))
		}
		if len(s.Hosts) > 0 && !s.known(k.Kind, heads) {
			s.note(KindUnknown, k.Kind, "a switch is set of kind %s, and no host knows this kind: the name may be misspelt", k.Kind)
		}
	}
}

// known says that a kind is more than the name of a switch.
func (s *Status) known(kind string, heads []pawl.QueueHead) bool {
	return slices.ContainsFunc(s.Hosts, func(h pawl.HostView) bool { return slices.Contains(h.Kinds, kind) }) ||
		slices.ContainsFunc(heads, func(h pawl.QueueHead) bool { return h.Kind == kind })
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " until " + t.UTC().Format("2006-01-02 15:04 UTC")
}

// setBy says who has set a switch, when and why.
func setBy(s pawl.Setting) string {
	if s.By.Who == "" {
		return ""
	}
	return fmt.Sprintf(", by %s since %s%s", firstRunes(s.By.Who, 80), s.At.UTC().Format("2006-01-02 15:04 UTC"), because(s.By.Why))
}

func some(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// span is a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
