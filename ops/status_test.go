package ops_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// answers are what a store says of itself. The n-th question fails.
type answers struct {
	heads    []pawl.QueueHead
	hosts    []pawl.HostView
	groups   pawl.LetterGroups
	switches pawl.Switches
	sinks    []pawl.SinkView
	fail     int
}

var errAway = errors.New("store is away")

func (a *answers) ask() error {
	if a.fail--; a.fail == 0 {
		return errAway
	}
	return nil
}

func (a *answers) QueueHeads(context.Context) ([]pawl.QueueHead, error) { return a.heads, a.ask() }

func (a *answers) Hosts(context.Context) ([]pawl.HostView, error) { return a.hosts, a.ask() }

func (a *answers) Switches(context.Context) (pawl.Switches, error) { return a.switches, a.ask() }

func (a *answers) Sinks(context.Context) ([]pawl.SinkView, error) { return a.sinks, a.ask() }

func (a *answers) CountLetters(context.Context, pawl.LetterFilter) (int, error) { return 0, a.ask() }

func (a *answers) LetterGroups(context.Context, pawl.LetterFilter, int) (pawl.LetterGroups, error) {
	return a.groups, a.ask()
}

func hostOf(queue string, kinds ...string) pawl.HostView {
	return pawl.HostView{
		HostInfo: pawl.HostInfo{Name: "a", Kinds: kinds, Servers: []pawl.ServerInfo{{Name: "io", Queues: []string{queue}, Workers: 2}}},
		BeatAt:   time.Now(),
	}
}

func wait(queue, kind string, age time.Duration) pawl.QueueHead {
	return pawl.QueueHead{Queue: queue, Kind: kind, OldestReady: age}
}

func TestStatusVerdicts(t *testing.T) {
	t.Parallel()
	const late, soon = 20 * time.Minute, time.Minute
	gone, going := hostOf("q", "k"), hostOf("q", "k")
	gone.BeatAt, going.Draining = time.Now().Add(-2*time.Minute), true
	full := hostOf("q", "k")
	full.Unsettled = 2
	startsOff := pawl.QueueHead{Queue: "q", Kind: "k", StartsOff: true, OldestReady: late}
	mail := []pawl.SinkView{{Name: "mail"}}
	off := pawl.Switches{Kinds: []pawl.KindSwitch{{Kind: "k"}}}
	for name, c := range map[string]struct {
		answers         answers
		troubles, notes []ops.What
	}{
		"nothing at all": {answers{sinks: mail}, nil, nil},
		"only the log":   {answers{sinks: []pawl.SinkView{{Name: "log"}}}, nil, []ops.What{ops.LogOnly}},
		"no host":        {answers{sinks: mail, heads: []pawl.QueueHead{wait("q", "k", 0)}}, []ops.What{ops.NoHost}, nil},
		"taken":          {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{wait("q", "k", soon)}}, nil, nil},
		"late":           {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{wait("q", "k", late)}}, []ops.What{ops.QueueLate}, nil},
		"late and off":   {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, switches: off, heads: []pawl.QueueHead{wait("q", "k", late)}}, nil, []ops.What{ops.KindOff}},
		"not on":         {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{startsOff}}, nil, []ops.What{ops.KindNotOn}},
		"misspelt": {
			answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, switches: pawl.Switches{Kinds: []pawl.KindSwitch{{Kind: "K", On: true}}}},
			nil,
			[]ops.What{ops.KindUnknown},
		},
		"switched before its host is there": {answers{sinks: mail, switches: pawl.Switches{Kinds: []pawl.KindSwitch{{Kind: "k", On: true}}}}, nil, nil},
		"switched while its host is away": {
			answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "other")}, switches: pawl.Switches{Kinds: []pawl.KindSwitch{{Kind: "k", On: true}}}, heads: []pawl.QueueHead{wait("q", "k", soon)}},
			nil,
			[]ops.What{ops.NotServed},
		},
		"unserved":             {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{wait("p", "k", late)}}, []ops.What{ops.QueueUnserved}, nil},
		"unserved for a while": {answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{wait("p", "k", soon)}}, nil, []ops.What{ops.NotServed}},
		"unknown kind": {
			answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k")}, heads: []pawl.QueueHead{wait("q", "k2", late), wait("q", "k", soon)}},
			[]ops.What{ops.KindUnserved},
			nil,
		},
		"kind and queue on two hosts": {
			answers{sinks: mail, hosts: []pawl.HostView{hostOf("q", "k"), hostOf("p", "k2")}, heads: []pawl.QueueHead{wait("q", "k2", late)}},
			[]ops.What{ops.KindUnserved},
			nil,
		},
		"silent and draining": {answers{sinks: mail, hosts: []pawl.HostView{gone, going, hostOf("q", "k")}}, []ops.What{ops.HostSilent}, []ops.What{ops.HostsDrain}},
		"unsettled":           {answers{sinks: mail, hosts: []pawl.HostView{full}}, []ops.What{ops.HostUnsettled}, nil},
		"alerts that no host delivers": {
			answers{hosts: []pawl.HostView{hostOf("q", "k")}, sinks: []pawl.SinkView{{Name: "mail", Pending: 1, OldestAge: late}, {Name: "hook"}, {Name: "chat", Pending: 1, OldestAge: 30 * time.Second}}},
			[]ops.What{ops.SinkUnserved},
			nil,
		},
		"alerts": {
			answers{hosts: []pawl.HostView{{HostInfo: pawl.HostInfo{Sinks: []string{"mail", "hook"}}, BeatAt: time.Now(), Draining: false}}, sinks: []pawl.SinkView{{Name: "mail", Pending: 2, OldestAge: late, LastError: "refused"}, {Name: "hook", Pending: 1, OldestAge: soon}}},
			[]ops.What{ops.AlertsLate},
			nil,
		},
		"a retired sink is no trouble, and tells nobody": {
			answers{hosts: []pawl.HostView{hostOf("q", "k")}, sinks: []pawl.SinkView{{Name: "mail", Pending: 1, OldestAge: late, RetiredAt: time.Now().Add(-time.Hour)}}},
			nil,
			[]ops.What{ops.SinkRetired, ops.LogOnly},
		},
		"failures after the rest": {
			answers{sinks: mail, hosts: []pawl.HostView{gone}, groups: pawl.LetterGroups{All: 1, Letters: 1, Groups: []pawl.LetterGroup{{Letters: 1}}}},
			[]ops.What{ops.HostSilent, ops.OpenFailures},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, err := ops.ReadStatus(t.Context(), &c.answers, ops.StatusOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := whats(status.Troubles); !slices.Equal(got, c.troubles) {
				t.Errorf("troubles are %v, want %v: %+v", got, c.troubles, status.Troubles)
			}
			if got := whats(status.Notes); !slices.Equal(got, c.notes) {
				t.Errorf("notes are %v, want %v: %+v", got, c.notes, status.Notes)
			}
			if status.Well() != (len(c.troubles) == 0) {
				t.Error("well disagrees with the troubles")
			}
		})
	}
}

func whats(all []ops.Trouble) (out []ops.What) {
	for _, t := range all {
		out = append(out, t.What)
	}
	return out
}

func TestStatusOfAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 6; n++ {
		if _, err := ops.ReadStatus(t.Context(), &answers{fail: n}, ops.StatusOptions{}); !errors.Is(err, errAway) {
			t.Errorf("question %d fails: error is %v", n, err)
		}
	}
	if _, err := ops.ReadStatus(t.Context(), &answers{}, ops.StatusOptions{Wait: -1}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("negative wait: error is %v", err)
	}
}

type operations interface{ pawl.Operations }

// working is a store that keeps operations.
type working struct {
	answers
	operations
	asked pawl.OperationFilter
}

func (w *working) Operations(_ context.Context, filter pawl.OperationFilter, _ pawl.Page) (pawl.OperationPage, error) {
	w.asked = filter
	return pawl.OperationPage{Operations: []pawl.Operation{
		{ID: pawl.ID{1}, Action: pawl.ActionRedrive, Who: "ada", State: pawl.OperationRunning, Letters: 600, Done: 100, Refused: 20},
		{ID: pawl.ID{2}, Action: pawl.ActionResolve, Who: "kim", State: pawl.OperationPaused, Letters: 1},
	}}, w.ask()
}

// Letters that somebody has in hand already are no news to act on.
func TestStatusOfOperations(t *testing.T) {
	t.Parallel()
	source := &working{answers: answers{sinks: []pawl.SinkView{{Name: "mail"}}}}
	status, err := ops.ReadStatus(t.Context(), source, ops.StatusOptions{})
	if err != nil || !status.Well() {
		t.Fatalf("troubles are %+v, %v", status.Troubles, err)
	}
	if got, want := whats(status.Notes), []ops.What{ops.OperationUnderway, ops.OperationPaused}; !slices.Equal(got, want) {
		t.Fatalf("notes are %v, want %v", got, want)
	}
	want := "operation 01000000-0000-0000-0000-000000000000 (redrive, by ada) goes on: 480 of its 600 letters wait"
	if got := status.Notes[0].Text; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if slices.ContainsFunc(source.asked.State, pawl.OperationState.Ended) || len(source.asked.State) != 3 {
		t.Errorf("operations were asked for that are %v", source.asked.State)
	}
	for n := 1; ; n++ {
		source := &working{answers: answers{fail: n}}
		if _, err := ops.ReadStatus(t.Context(), source, ops.StatusOptions{}); err == nil {
			if n != 8 {
				t.Errorf("%d questions were asked, want 7", n-1)
			}
			break
		}
	}
}
