package app

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

// The JSON forms are those of package wire.
type (
	stamp = wire.Stamp
	ref   = wire.Ref
	text  = wire.Text
)

// endUnseen reports that nobody knows how long an attempt took: its host died.
func endUnseen(a pawl.AttemptRecord) bool { return wire.EndUnseen(a) }

// moment is a time as tables show it.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// age is a duration as people say it.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// took is how long something lasted, to a tenth of a second where it was short.
func took(d time.Duration) string {
	if d >= time.Minute {
		return age(d)
	}
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// momentAgo is a time with its age.
func momentAgo(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t) + " (" + age(time.Since(t)) + " ago)"
}
