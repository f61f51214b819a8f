// Package app makes a program of a service's handlers: one that runs the service's jobs, and that operates its store
// with every command that pawl has.
//
//	func main() {
//		mux := pawl.NewMux()
//		pawl.Handle(mux, Welcome, mailer.SendWelcome)
//		app.Main(mux, app.Options{})
//	}
package app

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

// Options are what a program has beside its handlers.
type Options struct {
	// Commands are the program's own, beside those that every program has. An error that one returns is printed, and
	// ends the program with the exit status of what it is, as for the others.
	Commands []*cobra.Command
}

// Main runs the command line of this process and ends it with its exit status. An interrupt or SIGTERM ends the
// command's ctx, a second one the process.
func Main(mux *pawl.Mux, o Options) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, mux, o, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, mux *pawl.Mux, o Options, args []string, in io.Reader, out, talk io.Writer, env func(string) string) int {
	p := &program{mux: mux, options: o, in: in, out: out, talk: talk, env: env, tty: isTerminal, name: calledAs(os.Args[0])}
	return p.run(ctx, args)
}
