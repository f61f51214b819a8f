package main

import (
	"github.com/pawljobs/pawl/cmd/pawl/internal/demo"
	"github.com/spf13/cobra"
)

// demoCommand makes sure that what goes wrong in the demo does not pass for a wrong command line.
func (p *program) demoCommand() *cobra.Command {
	command := demo.Command()
	run := command.RunE
	command.RunE = func(c *cobra.Command, args []string) error {
		p.begun = true
		return run(c, args)
	}
	return command
}
