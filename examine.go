package pawl

import "context"

// Grade says how bad a finding is.
type Grade uint8

// Grades, from good to bad.
const (
	GradeFine  Grade = iota // nothing is to be done
	GradeRisk               // it works, and may hurt one day
	GradeFault              // it does not work, or not as promised
)

func (g Grade) String() string {
	switch g {
	case GradeRisk:
		return "risk"
	case GradeFault:
		return "fault"
	}
	return "fine"
}

// Finding is what one check has found.
type Finding struct {
	Check string // what was looked at, such as "clock"; part of the JSON form, it never changes its meaning
	Grade Grade
	Text  string // what was found: a sentence without its full stop
	Fix   string // what to do about it, likewise; empty when it is fine
}

// Examiner is a store that can be asked what about itself, its database and the machine beneath may hurt one day. It changes
// nothing. Each check has at least one finding; one that cannot be made is a risk that says why. The error is that of a store
// which cannot be asked at all.
type Examiner interface {
	Examine(ctx context.Context) ([]Finding, error)
}
