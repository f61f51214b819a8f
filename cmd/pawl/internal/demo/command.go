// Package demo is the command `pawl demo`: real work on one machine with nothing installed, that fails in the ways real
// work does, and an account at the end that adds up.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

const help = `Work through sign-ups as a real service would, with real failures, and account for every job.

The sign-ups come from a CSV with the columns id, email, name and role (200 of them are built in; --input takes
another). Each is one job that sends a verification mail over SMTP, and one that posts the profile to a downstream over
HTTP. Both servers are started on this machine for as long as the demo runs. They fail in the ways real ones do: down
for a while, too many requests, no answer at all, a profile and a mailbox that they refuse. Some sign-ups have a role
that nobody knows, and one stored job is damaged on purpose.

What can succeed is retried until it does. What cannot ends as a dead letter, and is alerted once to each of three
sinks: log, mail and webhook. At the end the numbers are compared, each read where it arises; the exit status is 0 only
if they agree. Everything is in one folder: the store, the mails, the alerts, the log. It is yours to delete.

Stop it with Ctrl-C or kill it at any moment: --resume goes on with what is left, sends nothing again that is recorded
as sent, and also runs what you redrive afterwards.`

// options are the command's flags.
type options struct {
	input  string
	smtp   string
	dir    string
	resume bool
	json   bool
}

// Command is `pawl demo`. It stops gently when its ctx is done; signals are its caller's to catch.
func Command() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "demo",
		Short: "Watch Pawl do real work through real failures, and account for every job",
		Long:  help,
		Example: `  pawl demo
  pawl demo --input signups.csv --dir ./demo
  pawl demo --resume`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.execute(c.Context(), streams{c.OutOrStdout(), c.ErrOrStderr(), terminal(c.ErrOrStderr())}, usual)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.input, "input", "", "CSV `FILE` with the sign-ups (default: 200 that are built in)")
	flags.StringVar(&o.smtp, "smtp", "", "send the verification mails through this server, `HOST:PORT` (default: the demo's own)")
	flags.StringVar(&o.dir, "dir", "", "`FOLDER` for all that the run keeps (default: a new one for temporary files; with --resume the latest of those)")
	flags.BoolVar(&o.resume, "resume", false, "go on with an earlier run, or run what was redriven since")
	flags.BoolVar(&o.json, "json", false, "print the account as one JSON object")
	return command
}

// streams are where a run talks to: out takes the account, talk everything else.
type streams struct {
	out, talk io.Writer
	terminal  bool // talk is one
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd()) && os.Getenv("TERM") != "dumb"
}

func (o options) execute(ctx context.Context, s streams, pace func(rows int) tempo) error {
	begun := time.Now()
	if err := o.check(); err != nil {
		return err
	}
	r, err := o.prepare()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.talk, "pawl demo: %d sign-ups, in %s\n", len(r.rows), r.folder)
	r.smtp, r.tempo = o.smtp, pace(len(r.rows))
	err = r.open(ctx)
	if r.healed {
		fmt.Fprintln(s.talk, "this run has ended before: from now on nothing fails by plan")
	}
	if err == nil {
		err = r.work(ctx, newProgress(s.talk, s.terminal, begun))
	}
	var account report
	var advice []hint
	if err == nil || errors.Is(err, errStalled) {
		account, advice, err = r.account(begun, err)
	}
	if err := errors.Join(err, r.close()); err != nil {
		return o.explain(ctx, r.folder, err)
	}
	return o.print(s, account, advice)
}

func (o options) check() error {
	if o.input != "" && o.resume {
		return misused("--input and --resume exclude each other: a run that is resumed has its sign-ups already")
	}
	if o.smtp == "" {
		return nil
	}
	_, err := newMailer(o.smtp)
	return err
}

// prepare finds or makes the folder, takes it for this run, and reads the sign-ups. Input that breaks a rule leaves
// nothing behind.
func (o options) prepare() (*run, error) {
	if o.resume {
		return o.takeUp()
	}
	text, rows, err := readSignUps(o.input)
	if err != nil {
		return nil, err
	}
	f, taken, err := newFolder(o.dir)
	if err == nil {
		err = f.fill(text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the run's folder: %w", err), taken.release())
	}
	return &run{folder: f, lock: taken, rows: rows}, nil
}

func (o options) takeUp() (*run, error) {
	f, err := oldFolder(o.dir)
	if err != nil {
		return nil, err
	}
	_, rows, err := readSignUps(f.input())
	if err != nil {
		return nil, err
	}
	taken, err := f.lock()
	if err != nil {
		return nil, err
	}
	return &run{folder: f, lock: taken, rows: rows}, nil
}

// readSignUps takes the built-in sample for the empty path.
func readSignUps(path string) (text []byte, rows []signUp, err error) {
	name := path
	if text = sample; path == "" {
		name = "the built-in sample"
	} else if text, err = os.ReadFile(path); err != nil {
		return nil, nil, fmt.Errorf("read sign-ups: %w", err)
	}
	if rows, err = parseSignUps(text); err != nil {
		return nil, nil, fmt.Errorf("read sign-ups from %s: %w; nothing was enqueued", name, err)
	}
	return text, rows, nil
}

// account counts after the host has ended. stalled is passed on as a problem among the others.
func (r *run) account(begun time.Time, stalled error) (report, []hint, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := r.gather(ctx)
	if err != nil {
		return report{}, nil, err
	}
	account := e.report()
	if stalled != nil {
		account.Problems = append(account.Problems, stalled.Error())
		account.Reconciled = false
	}
	account.Seconds = float64(time.Since(begun).Milliseconds()) / 1000
	account.Dir, account.Store, account.Mails = string(r.folder), "sqlite:"+r.folder.store(), r.folder.mails()
	if !r.ownMail() {
		account.Mails = ""
	}
	advice, err := hints(programName(), r.folder, e.letters, func(id pawl.ID) (pawl.DeadLetter, error) {
		return r.store.Letter(ctx, id)
	})
	for _, h := range advice {
		account.Next = append(account.Next, h.command)
	}
	return account, advice, err
}

var (
	errInterrupted  = errors.New("interrupted")
	errUnreconciled = errors.New("the account does not reconcile")
)

// explain says how to go on.
func (o options) explain(ctx context.Context, f folder, err error) error {
	again := programName() + " demo --resume --dir " + shellWord(string(f))
	if ctx.Err() != nil {
		return fmt.Errorf("%w: nothing is lost; go on with: %s", errInterrupted, again)
	}
	return fmt.Errorf("run demo: %w (what is done is kept; go on with: %s)", err, again)
}

func (o options) print(s streams, account report, advice []hint) error {
	var err error
	if o.json {
		err = account.json(s.out)
	} else {
		_, err = io.WriteString(s.out, account.table()+advise(account.Dir, advice))
	}
	if err != nil {
		return fmt.Errorf("print account: %w", err)
	}
	if !account.Reconciled {
		return errUnreconciled
	}
	return nil
}

func advise(dir string, advice []hint) string {
	text := fmt.Sprintf("\nAll of it is in %s: delete it when you are done.\n", dir)
	if len(advice) > 0 {
		text += "\nLook at what died, put back what you like, and run it: the outside services are healed now.\n" + printable(advice)
	}
	return text
}
