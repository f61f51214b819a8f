// Command pawl operates a Pawl store: it looks at jobs, queues and dead letters and acts on them, without the code of
// the handlers.
package main

import (
	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app"
	"github.com/spf13/cobra"
)

func main() {
	app.Main(pawl.NewMux(), app.Options{BuiltIn: true, Commands: []*cobra.Command{demoCommand()}})
}
