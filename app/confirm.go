package app

import (
	"bufio"
	"fmt"
	"strings"
)

// confirming are the flags of commands that destroy something or do much at once.
type confirming struct {
	yes    bool
	dryRun bool
}

// sampleSize is how many of the things to be acted on a question shows.
const sampleSize = 5

// confirm asks before something that cannot be undone, such as "remove 3 jobs". Without a terminal to ask on, --yes has
// to be there.
func (p *program) confirm(c confirming, act string, sample []string) error {
	if c.yes {
		return nil
	}
	if !p.tty(p.in) {
		return fmt.Errorf("%w: to %s, add --yes", errNotConfirmed, act)
	}
	for _, line := range sample {
		p.printer.say("  %s", escape(line))
	}
	fmt.Fprintf(p.talk, "%s? Type yes to go on: ", escape(capitalized(act)))
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) == "yes" {
		return nil
	}
	return errNotConfirmed
}

func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// count is "1 job", "2 jobs".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
