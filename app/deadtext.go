package app

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
)

var allReasons = []pawl.Reason{
	pawl.ReasonBudget, pawl.ReasonDeadline, pawl.ReasonTimeout, pawl.ReasonCrashed, pawl.ReasonLost,
	pawl.ReasonInterrupted, pawl.ReasonExplicit, pawl.ReasonPermanent, pawl.ReasonUnknownKind, pawl.ReasonUndecodable,
	pawl.ReasonWrongArgs, pawl.ReasonSignature, pawl.ReasonCrashLoop, pawl.ReasonSync,
	pawl.ReasonRefused,
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
	case pawl.ReasonRefused:
		return "its store would not take it out of the outbox"
	}
	return "not known to this program"
}

// nextSteps are commands to copy, for where the letter stands.
func (p *program) nextSteps(l pawl.DeadLetter) []string {
	command := p.invocation()
	switch {
	case l.Status == pawl.StatusDead:
		return openSteps(command, l)
	case l.Outcome == pawl.RedriveSucceeded:
		return []string{succeeded(l) + "; nothing to do."}
	case l.Status == pawl.StatusRedriven && !l.NextLetter.IsZero():
		return []string{step("it died again:", "%s dead show %s", command, l.NextLetter)}
	case l.Outcome == pawl.RedriveCancelled:
		return []string{
			fmt.Sprintf("Job %s, which it was run again as, was removed before it ended.", l.NewJobID),
			step("take it up again:", "%s dead reopen %s", command, l.ID),
		}
	case l.Status == pawl.StatusRedriven:
		return []string{step("what became of it:", "%s job show %s", command, l.NewJobID)}
	}
	return []string{step("take it up again:", "%s dead reopen %s", command, l.ID)}
}

func openSteps(command string, l pawl.DeadLetter) []string {
	resolve := func(when, note string) string {
		return step(when, "%s dead resolve %s --note '%s'", command, l.ID, note)
	}
	never := neverAgain(l)
	switch {
	case never != "":
		return []string{never, resolve("close it:", "what was done")}
	case l.Outcome == pawl.RedriveSucceeded:
		return []string{
			succeeded(l) + ". It was opened again since.",
			resolve("close it:", "what was done"),
			step("do it once more:", "%s dead redrive %s --confirm", command, l.ID),
		}
	case l.Reason.OutcomeUnknown():
		return []string{
			"Check first whether the effect has happened.",
			step("if it has not:", "%s dead redrive %s --confirm", command, l.ID),
			resolve("if it has:", "effect checked: it has happened"),
		}
	case l.Reason == pawl.ReasonWrongArgs:
		return []string{
			step("see the args:", "%s dead show %s --payload", command, l.ID),
			step("run again, mended:", "%s dead redrive %s --args @args.json", command, l.ID),
			resolve("or close it:", "what was done"),
		}
	}
	steps := []string{step("cause mended:", "%s dead redrive %s", command, l.ID)}
	if !oneByOne(l) {
		steps = append(steps, step("all that are alike:", "%s dead redrive --group %s --probe --reason 'what was mended'", command, l.Fingerprint))
	}
	return append(steps,
		step("with other args:", "%s dead redrive %s --args @args.json", command, l.ID),
		resolve("or close it:", "what was done"))
}

// neverAgain says why a redrive would be refused whatever is mended; it is empty where it would not.
func neverAgain(l pawl.DeadLetter) string {
	envelope, err := pawl.DecodeEnvelope(l.Envelope)
	switch {
	case len(l.Envelope) == 0: // hidden from this token, perhaps: a redrive says itself what is wrong
		return ""
	case err != nil || l.Reason == pawl.ReasonSignature:
		return "What is stored of it cannot be trusted, so it cannot be run again."
	case envelope.Policy.Redrive == pawl.RedriveNever:
		return "Its policy says that it is never run again."
	}
	return ""
}

// succeeded says of a letter that its work was done.
func succeeded(l pawl.DeadLetter) string {
	text := fmt.Sprintf("It was run again as job %s", l.NewJobID)
	if !l.RedrivenAt.IsZero() {
		text += " on " + moment(l.RedrivenAt)
	}
	return text + ", which succeeded"
}

func step(when, format string, args ...any) string {
	return fmt.Sprintf("%-19s %s", when, fmt.Sprintf(format, args...))
}
