package main

import (
	"fmt"

	"github.com/pawljobs/pawl/cmd/pawl/internal/demo"
	"github.com/spf13/cobra"
)

// notForDemo are global flags that the demo, which has a store and a form of output of its own, has no use for.
var notForDemo = [...]string{"store", "connection", "plain"}

// demoCommand makes sure that what goes wrong in the demo does not pass for a wrong command line.
func (p *program) demoCommand() *cobra.Command {
	command := demo.Command()
	command.Args = needs("", 0, 0)
	run := command.RunE
	command.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, name := range notForDemo {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s is not for demo: each run makes a store of its own, in the folder that --dir names", name)
			}
		}
		return nil
	}
	command.RunE = func(c *cobra.Command, args []string) error {
		p.begun = true
		return run(c, args)
	}
	command.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, name := range notForDemo {
			if flag := c.InheritedFlags().Lookup(name); flag != nil {
				flag.Hidden = true
			}
		}
		c.Parent().HelpFunc()(c, args)
	})
	return command
}
