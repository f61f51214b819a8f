package desk

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// What a control is of.
const (
	OfKind  = "kind"
	OfQueue = "queue"
)

// Control is a switch or a pause as it is stored.
type Control struct {
	What  string // OfKind, OfQueue
	Name  string
	On    bool // a kind's: runs; a queue's: is paused
	Until time.Time
	For   time.Duration // in place of Until, until the store has added it to its now
	pawl.Setting
}

// NotSet is how the trail shows a control that nobody has set, or that is past its end.
const NotSet = "not set"

// NoSwitch is the error where a kind's switch is to be reset and none is set.
func NoSwitch(kind string) error {
	return fmt.Errorf("kind %s: no switch is set: %w", kind, pawl.ErrNotFound)
}

// mostFor is how far from now an end is at most that is stated so.
const mostFor = 10 * 365 * 24 * time.Hour

// CheckEnd refuses an end that no JSON could tell of any more, and one that is stated twice.
func CheckEnd(until time.Time, after time.Duration) error {
	switch {
	case after != 0 && !until.IsZero():
		return &pawl.FieldError{Field: "for", Value: after, Rule: "must not be given with until"}
	case after < 0 || after > mostFor:
		return &pawl.FieldError{Field: "for", Value: after, Rule: "must be at least 0 and at most 10 years"}
	}
	if year := until.Year(); year < 0 || year > 9999 {
		return &pawl.FieldError{Field: "until", Value: until, Rule: "must be a time before the year 10000"}
	}
	return nil
}

// EndOf is when a control ends that was just set for a while: the store that has added that to its now tells.
func EndOf(s pawl.Switches, what, name string) (until time.Time) {
	for _, k := range s.Kinds {
		if what == OfKind && k.Kind == name {
			until = k.Until
		}
	}
	for _, q := range s.Queues {
		if what == OfQueue && q.Queue == name {
			until = q.Until
		}
	}
	return until
}

// State is the control as the trail shows it.
func (c Control) State() string {
	text := map[string][2]string{OfKind: {"off", "on"}, OfQueue: {"running", "paused"}}[c.What]
	state := text[0]
	if c.On {
		state = text[1]
	}
	if !c.Until.IsZero() {
		state += " until " + c.Until.UTC().Format(time.RFC3339)
	}
	return state
}

// Switches are controls as operators see them.
func Switches(controls []Control) (out pawl.Switches) {
	for _, c := range controls {
		if c.What == OfKind {
			out.Kinds = append(out.Kinds, pawl.KindSwitch{Kind: c.Name, On: c.On, Until: c.Until, Setting: c.Setting})
		} else {
			out.Queues = append(out.Queues, pawl.QueuePause{Queue: c.Name, Paused: c.On, Until: c.Until, Setting: c.Setting})
		}
	}
	return out
}

// Board tells which jobs are held back.
type Board struct {
	kinds  map[string]bool // whose switch is set
	paused map[string]bool
}

// NewBoard is the board of the switches that are set.
func NewBoard(s pawl.Switches) Board {
	b := Board{map[string]bool{}, map[string]bool{}}
	for _, k := range s.Kinds {
		b.kinds[k.Kind] = k.On
	}
	for _, q := range s.Queues {
		b.paused[q.Queue] = q.Paused
	}
	return b
}

// Hold says of a job that waits or is scheduled what holds it back. A job that starts off runs only while its kind is
// switched on, any other one unless it is switched off.
func (b Board) Hold(job *pawl.JobView, startsOff bool) {
	if job.State != pawl.JobWaiting && job.State != pawl.JobScheduled {
		return
	}
	on, set := b.kinds[job.Kind]
	job.HeldByKind = set && !on || !set && startsOff
	job.HeldByQueue = b.paused[job.Queue]
}
