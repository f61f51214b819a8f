package main

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

// confirm asks before something that cannot be undone. Without a terminal to ask on, --yes has to be there.
func (p *program) confirm(c confirming, question string, sample []string) error {
	if c.yes {
		return nil
	}
	if !p.tty(p.in) {
		return fmt.Errorf("%s Not without being asked to: add --yes: %w", escape(question), errNotConfirmed)
	}
	for _, line := range sample {
		p.printer.say("  %s", escape(line))
	}
	fmt.Fprintf(p.talk, "%s Type yes to go on: ", escape(question))
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) == "yes" {
		return nil
	}
	return errNotConfirmed
}
