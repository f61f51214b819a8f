package main

import (
	"fmt"

	"github.com/pawljobs/pawl/cmd/pawl/internal/demo"
	"github.com/spf13/cobra"
)

// notForDemo are global flags that the demo, which has a store and a form of output of its own, has no use for.
var notForDemo = [...]string{"store", "connection", "plain"}

func demoCommand() *cobra.Command {
	command := demo.Command()
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q", args[0])
		}
		return nil
	}
	command.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, name := range notForDemo {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s is not for demo: each run makes a store of its own, in the folder that --dir names", name)
			}
		}
		return nil
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
