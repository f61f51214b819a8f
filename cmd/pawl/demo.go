package main

import (
	"fmt"

	"github.com/pawljobs/pawl/cmd/pawl/internal/demo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// demoCommand takes none of the global flags: the demo has a store and a form of output of its own.
func demoCommand() *cobra.Command {
	command := demo.Command()
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q", args[0])
		}
		return nil
	}
	command.PreRunE = func(c *cobra.Command, _ []string) (err error) {
		c.InheritedFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Changed && err == nil {
				err = fmt.Errorf("--%s is not for demo: each run makes a store of its own, in the folder that --dir names", flag.Name)
			}
		})
		return err
	}
	command.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
		c.Parent().HelpFunc()(c, args)
	})
	return command
}
