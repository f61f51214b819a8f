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
	"github.com/pawljobs/pawl/resilience"
	"github.com/spf13/cobra"
)

// Options are what a program has beside its handlers.
type Options struct {
	// Name of the program, as it speaks of itself. Default "pawl".
	Name string
	// Config is a configuration in YAML that the program brings: where a file, the environment or flags say something
	// else, that is what counts. docs/config.md lists the settings.
	Config []byte
	// BuiltIn adds the kinds of package builtin to the handlers.
	BuiltIn bool
	// Sinks are channels for alerts beside those of the configuration.
	Sinks []pawl.Sink
	// Classifiers are asked about errors that carry no class, before package classify is.
	Classifiers []pawl.Classifier
	// Schedules are the recurring jobs that serve declares; see package schedule.
	Schedules []pawl.Schedule
	// Downstreams are those of the handlers, whose timeouts doctor compares with those of the kinds. Default: none.
	Downstreams []*resilience.Downstream
	// Start is called before jobs run, by the commands that run some, with the store that they come from: for what
	// handlers need, such as a store to enqueue to. What it returns is called when all of them have ended; not after a second
	// signal, which waits for nothing. Default: nothing.
	Start func(ctx context.Context, store pawl.Enqueuer) (stop func() error, err error)
	// Commands are the program's own, beside those that every program has. An error that one returns is printed, and
	// ends the program with the exit status of what it is, as for the others. Store opens the configured store for them.
	// A command is for one call of Main or Run: make it anew for the next.
	Commands []*cobra.Command
}

// Main runs the command line of this process and ends it with its exit status. An interrupt or SIGTERM ends the
// command's ctx, a second one the process. A nil mux has no handlers.
func Main(mux *pawl.Mux, o Options) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, mux, o, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	stop()
	os.Exit(code)
}

// Run is Main for a program that has something to do afterwards, or a test: it returns the exit status. args are those
// behind the program's name.
func Run(ctx context.Context, mux *pawl.Mux, o Options, args ...string) int {
	return run(ctx, mux, o, args, os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, mux *pawl.Mux, o Options, args []string, in io.Reader, out, talk io.Writer, environ []string) int {
	p := &program{mux: mux, options: o, in: in, out: out, talk: talk, environ: environ, tty: isTerminal}
	p.name = calledAs(os.Args[0], p.title())
	return p.run(ctx, args)
}
