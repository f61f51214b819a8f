package app

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// However many kinds, queues and sinks a store has, its status is one screen: the worst of each, and where the others are.
func TestStatusIsOneScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &program{out: &out, talk: &out, tty: func(any) bool { return false }, name: "pawl"}
	p.printer = newPrinter(p)
	status, err := ops.ReadStatus(t.Context(), crowd{}, ops.StatusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Troubles) < 900 || len(status.Notes) < 500 || len(status.Queues) != 501 {
		t.Fatalf("%d troubles, %d notes, %d queues", len(status.Troubles), len(status.Notes), len(status.Queues))
	}
	p.showStatus(status)
	if err := p.printer.flush(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n > 80 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{
		"  ! Jobs of kind late-499.v1 wait for 8h", "  ! And 495 more of this sort: pawl kind list\n", "  - And 495 more of this sort: pawl kind list\n",
		"  ! And 495 more of this sort: pawl queue list\n", "Queues       q-495: the oldest job has waited for ", " and 496 queues more: pawl queue list\n",
		" and 495 sinks more: pawl alerts list\n", "Alerts       sink-0: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "late-494.v1") || strings.Contains(text, "q-494: ") {
		t.Errorf("it has more than the five worst:\n%s", text)
	}
}

// crowd is a store with 500 of everything, of which the last has waited longest.
type crowd struct{ ops.StatusSource }

func (crowd) QueueHeads(context.Context) (heads []pawl.QueueHead, err error) {
	for n := range 500 {
		wait := time.Hour + time.Duration(n)*time.Minute
		heads = append(heads, pawl.QueueHead{Queue: "busy", Kind: fmt.Sprintf("late-%d.v1", n), OldestReady: wait - time.Hour + 20*time.Minute},
			pawl.QueueHead{Queue: fmt.Sprintf("q-%d", n), Kind: "a.v1", OldestReady: wait})
	}
	return heads, nil
}

func (crowd) Hosts(context.Context) ([]pawl.HostView, error) {
	info := pawl.HostInfo{Name: "host-a", Servers: []pawl.ServerInfo{{Name: "io", Queues: []string{"busy"}, Workers: 1}}}
	return []pawl.HostView{{HostInfo: info, BeatAt: time.Now()}}, nil
}

func (crowd) LetterGroups(context.Context, pawl.LetterFilter, int) (pawl.LetterGroups, error) {
	return pawl.LetterGroups{}, nil
}

func (crowd) CountLetters(context.Context, pawl.LetterFilter) (int, error) { return 0, nil }

func (crowd) Switches(context.Context) (s pawl.Switches, err error) {
	for n := range 500 {
		s.Kinds = append(s.Kinds, pawl.KindSwitch{Kind: fmt.Sprintf("off-%d.v1", n)})
	}
	return s, nil
}

func (crowd) Sinks(context.Context) (sinks []pawl.SinkView, err error) {
	for n := range 500 {
		sinks = append(sinks, pawl.SinkView{Name: fmt.Sprintf("sink-%d", n)})
	}
	return sinks, nil
}
