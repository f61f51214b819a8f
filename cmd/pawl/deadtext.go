package main

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
)

var allReasons = []pawl.Reason{
	pawl.ReasonBudget, pawl.ReasonDeadline, pawl.ReasonTimeout, pawl.ReasonCrashed, pawl.ReasonLost,
	pawl.ReasonInterrupted, pawl.ReasonExplicit, pawl.ReasonPermanent, pawl.ReasonUnknownKind, pawl.ReasonUndecodable,
	pawl.ReasonWrongArgs, pawl.ReasonSignature, pawl.ReasonCrashLoop, pawl.ReasonSync,
}

func reasonNames() string {
	names := make([]string, len(allReasons))
	for i, reason := range allReasons {
		names[i] = hyphened(reason)
	}
	return strings.Join(names, ", ")
}

// reasonText says a reason in a sentence.
func reasonText(reason pawl.Reason) string {
	switch reason {
	case pawl.ReasonBudget:
		return "every try failed"
	case pawl.ReasonDeadline:
		return "the next try would have started too late"
	case pawl.ReasonTimeout:
		return "every try failed, the last one by its timeout"
	case pawl.ReasonCrashed:
		return "the tries are used up; the last one ended with its host"
	case pawl.ReasonLost:
		return "it may run once only, was started, and was not heard of again"
	case pawl.ReasonInterrupted:
		return "it may run once only, and a shutdown cut it short"
	case pawl.ReasonExplicit:
		return "its handler said that it has failed"
	case pawl.ReasonPermanent:
		return "an error that no retry can mend"
	case pawl.ReasonUnknownKind:
		return "no host has known its kind for long"
	case pawl.ReasonUndecodable:
		return "what is stored of it cannot be read"
	case pawl.ReasonWrongArgs:
		return "its args do not fit its handler"
	case pawl.ReasonSignature:
		return "its signature is bad or missing"
	case pawl.ReasonCrashLoop:
		return "it took down one host after the other"
	case pawl.ReasonSync:
		return "it ran inside its enqueue, which is one try"
	}
	return "not known to this program"
}

// nextSteps are commands to copy, for where the letter stands.
func (p *program) nextSteps(l pawl.DeadLetter) []string {
	command := p.invocation()
	switch {
	case l.Status == pawl.StatusRedriven && !l.NextLetter.IsZero():
		return []string{step("it died again:", "%s dead show %s", command, l.NextLetter)}
	case l.Status == pawl.StatusRedriven && l.Outcome == pawl.RedriveCancelled:
		return []string{step("take it up again:", "%s dead reopen %s", command, l.ID)}
	case l.Status == pawl.StatusRedriven:
		return []string{step("what became of it:", "%s job show %s", command, l.NewJobID)}
	case l.Status != pawl.StatusDead:
		return []string{step("take it up again:", "%s dead reopen %s", command, l.ID)}
	}
	steps := []string{}
	switch {
	case l.Reason.OutcomeUnknown():
		steps = append(steps,
			"Check first whether the effect has happened.",
			step("if it has not:", "%s dead redrive %s --confirm", command, l.ID),
			step("if it has:", "%s dead resolve %s --note 'effect checked: it has happened'", command, l.ID))
		return steps
	case l.Reason == pawl.ReasonUndecodable || l.Reason == pawl.ReasonSignature:
		steps = append(steps, "What is stored of it cannot be trusted, so it cannot be run again as it is.")
	case l.Reason == pawl.ReasonWrongArgs:
		steps = append(steps,
			step("see the args:", "%s dead show %s --payload", command, l.ID),
			step("run again, mended:", "%s dead redrive %s --args @args.json", command, l.ID))
	default:
		steps = append(steps,
			step("cause mended:", "%s dead redrive %s", command, l.ID),
			step("with other args:", "%s dead redrive %s --args @args.json", command, l.ID))
	}
	return append(steps, step("or close it:", "%s dead resolve %s --note 'what was done'", command, l.ID))
}

func step(when, format string, args ...any) string {
	return fmt.Sprintf("%-19s %s", when, fmt.Sprintf(format, args...))
}
