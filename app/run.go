package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/app/internal/service"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is one run of pawl: its streams, its environment, and what the global flags said.
type program struct {
	mux     *pawl.Mux
	options Options

	in      io.Reader
	out     io.Writer             // data
	talk    io.Writer             // everything that is not data
	environ []string              // NAME=VALUE
	tty     func(stream any) bool // a person sits there
	name    string                // how this program is called

	config       string // what the global flags say
	store        string
	connection   string
	tokenFile    string
	insecureHTTP bool
	json         bool
	plain        bool

	service  bool            // serve is the work of a service
	services service.Manager // nil: this machine's

	flags []config.Flag    // settings that the command line states
	read  *config.Settings // once somebody has asked

	begun       bool // the command line was understood: an error before that is one of usage
	confirmable bool // the command has the flag --confirm
	printer     *printer
}

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.talk)
	command, err := root.ExecuteContextC(ctx)
	if p.printer != nil {
		err = errors.Join(err, p.printer.flush())
	}
	if err == nil {
		return exitOK
	}
	return p.report(command, err)
}

// report says what went wrong, and for a command line that was not understood where to read on.
func (p *program) report(command *cobra.Command, err error) int {
	code := exitStatus(err)
	if !p.begun {
		code = exitUsage
	}
	if !errors.Is(err, errReported) {
		p.refusal(err)
	}
	if code == exitUsage {
		fmt.Fprintf(p.talk, "Usage: %s\nMore: %s --help\n", command.UseLine(), command.CommandPath())
	}
	if command.GroupID == groupWrappers {
		return exitError // these know 0 and 1 only
	}
	return code
}

// calledAs is how a person who typed this would call the program again.
func calledAs(typed, title string) string {
	path := filepath.ToSlash(typed)
	if strings.Contains(path, "/") && !strings.Contains(path, "/go-build") { // where go run puts it
		return shellWord(typed)
	}
	return title
}

// title is the program's own name.
func (p *program) title() string { return cmp.Or(p.options.Name, "pawl") }

// env is a variable of the environment.
func (p *program) env(name string) string {
	for _, one := range p.environ {
		if value, found := strings.CutPrefix(one, name+"="); found {
			return value
		}
	}
	return ""
}

// refusal says one error, and what it asks for.
func (p *program) refusal(err error) {
	if p.printer != nil {
		_ = p.printer.out.Flush() // a failure is found again at the end
	}
	fmt.Fprintf(p.talk, "%s: %s\n", p.title(), escape(p.nameText(oneLine(err))))
	if errors.Is(err, pawl.ErrConfirm) && p.confirmable {
		fmt.Fprintln(p.talk, "Once that is checked, and it is to run: add --confirm.")
	}
}

// oneLine is an error's text without its line ends: joined errors have one each. What a line says twice is said once.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = withoutEcho(strings.TrimSpace(line)); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// withoutEcho takes the name of an error off where the text before it has said it in other words.
func withoutEcho(line string) string {
	for _, echo := range []error{pawl.ErrConflict, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrSchema, pawl.ErrBatchEnded} {
		if text, found := strings.CutSuffix(line, ": "+echo.Error()); found {
			return text
		}
	}
	if text, found := strings.CutSuffix(line, ": "+pawl.ErrNotFound.Error()); found {
		if last := text[strings.LastIndex(text, ": ")+1:]; strings.HasPrefix(strings.TrimSpace(last), "no ") {
			return text
		}
	}
	return line
}

// The groups of the command list.
const (
	groupNouns    = "nouns"
	groupWrappers = "wrappers"
)

const rootHelp = `pawl operates a Pawl store: it looks at jobs, queues and dead letters and acts on them.

A job that could not succeed has ended as a dead letter: durable, and waiting for a decision. From there:

  pawl status                  is it well, and if not, what first?
  pawl dead groups             what failed, by what it has in common
  pawl dead list               what failed, one by one
  pawl dead show ID            what, when and why, every attempt, and what to type next
  pawl dead redrive ID         run it again as a new job, once the cause is mended
  pawl job show JOB_ID         what became of that job
  pawl dead resolve ID         or close it: it was dealt with in another way

Data goes to standard output and everything else to standard error: tables on a terminal, tab-separated values in a
pipe, JSON with --json. NO_COLOR is honoured.

Exit status: 0 well, 1 error, 2 wrong usage, 3 not found, 4 denied, 5 not in the state that this needs (or not
confirmed), 6 partly failed, 8 unhealthy.`

func (p *program) root() *cobra.Command {
	root := p.versioned(noun(p.title(), "Operate a Pawl store: jobs, queues, dead letters", rootHelp))
	root.SilenceErrors, root.SilenceUsage = true, true
	flags := root.PersistentFlags()
	flags.StringVar(&p.store, "store", "", "the store, as `URL` such as sqlite:PATH or postgres://USER@HOST/DATABASE, or https://HOST of a server's API (default $PAWL_STORE, else the configuration, else "+config.DefaultStore+")")
	keyed(flags, "store", config.StoreKey)
	flags.StringVar(&p.tokenFile, "token-file", "", "for a server's API: a `FILE` with the token (default $"+tokenVariable+")")
	flags.BoolVar(&p.insecureHTTP, "insecure-http", false, "for a server's API: http:// to another machine, where anybody on the way sees the token")
	flags.StringVar(&p.connection, "connection", "", "the connection, by the `NAME` that the configuration and the services give to a store (default: default)")
	keyed(flags, "connection", "connection")
	flags.StringVar(&p.config, "config", "", "the configuration, a `FILE` in YAML (default $PAWL_CONFIG)")
	flags.BoolVar(&p.json, "json", false, "print JSON: one object, or one a line for lists")
	flags.BoolVar(&p.plain, "plain", false, "print plain lines, also on a terminal")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		p.flags = stated(c.Flags())
		return oneOfFlags(c, "json", "plain")
	}
	root.AddGroup(
		&cobra.Group{ID: groupNouns, Title: "Commands:"},
		&cobra.Group{ID: groupWrappers, Title: "For people who come from tools with such commands (exit status 0 or 1):"},
	)
	for _, command := range []*cobra.Command{
		p.statusCommand(), p.doctorCommand(), p.deadCommand(), p.opCommand(), p.jobCommand(), p.batchCommand(), p.queueCommand(), p.kindCommand(), p.scheduleCommand(), p.hostCommand(),
		p.outboxCommand(), p.alertsCommand(), p.auditCommand(), p.migrateCommand(), p.tokenCommand(), p.configCommand(), p.serveCommand(), p.workCommand(), p.serviceCommand(), p.versionCommand(),
	} {
		command.GroupID = groupNouns
		root.AddCommand(command)
	}
	p.nameTexts(root)
	for _, command := range p.options.Commands {
		command.GroupID = groupNouns
		root.AddCommand(p.ownCommand(command))
	}
	for _, command := range p.wrapperCommands() {
		command.GroupID = groupWrappers
		root.AddCommand(command)
	}
	root.SetHelpCommand(helpCommand())
	p.completions(root)
	return root
}

var ownName = regexp.MustCompile(`\bpawl (operates|alerts|audit|batch|config|dead|doctor|host|job|kind|migrate|op|outbox|queue|schedule|serve|service|status|token|work)\b`)

var quotedName = regexp.MustCompile("`pawl ([a-z])")

// nameText has the commands that a text tells its reader to run be those of this program.
func (p *program) nameText(text string) string {
	return quotedName.ReplaceAllString(text, "`"+p.title()+" $1")
}

// nameTexts has the help call a service's program by its own name.
func (p *program) nameTexts(command *cobra.Command) {
	if p.title() == "pawl" {
		return
	}
	rename := func(text string) string { return ownName.ReplaceAllString(text, p.title()+" $1") }
	command.Short, command.Long, command.Example = rename(command.Short), rename(command.Long), rename(command.Example)
	command.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = rename(f.Usage) })
	for _, verb := range command.Commands() {
		p.nameTexts(verb)
	}
}

// helpCommand does not answer with help for something else than what was asked for.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(c *cobra.Command, args []string) error {
			asked, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = asked.ValidateArgs(rest)
			}
			if err != nil {
				return err
			}
			asked.InitDefaultHelpFlag()
			return asked.Help()
		},
	}
}

// noun makes a command that only holds others. Alone it prints its help; an unknown verb is a usage error that names
// what may have been meant.
func noun(name, short, long string, verbs ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: name, Short: short, Long: long}
	command.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c.SuggestionsMinimumDistance = 2
		message := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			message += ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return errors.New(message)
	}
	command.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	command.AddCommand(verbs...)
	return command
}

// doing wraps a command's work: what fails from here on is no longer an error of usage, unless it says so.
func (p *program) doing(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		p.begun = true
		p.printer = newPrinter(p)
		return work(c.Context(), args)
	}
}

// onStore is doing with an open store.
func (p *program) onStore(access access, work func(ctx context.Context, s store, args []string) error) func(*cobra.Command, []string) error {
	return p.doing(func(ctx context.Context, args []string) error {
		s, err := p.open(ctx, access)
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, s, args), s.Close())
	})
}

// needs is the rule for a command's arguments: at least low and at most high of them (high < 0: no limit).
func needs(what string, low, high int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return fmt.Errorf("%s is missing", what)
		case high >= 0 && len(args) > high:
			return fmt.Errorf("unexpected argument %q", args[high])
		case slices.Contains(args, ""):
			return fmt.Errorf("%s must not be empty", what)
		}
		return nil
	}
}
