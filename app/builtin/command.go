package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// CommandRun is the kind of a job that runs a command of the host's configuration. Exit status 0 is a success; of the
// others, the configuration says which no retry can mend.
var CommandRun = pawl.NewKind[CommandRunArgs]("command.run.v1", pawl.Policy{})

// CommandRunArgs say which command is run.
type CommandRunArgs struct {
	// Command is the name that the host's configuration has for it.
	Command string `json:"command"`
	// Args are added to its arguments, as many as its configuration lets a job add.
	Args []string `json:"args,omitempty"`
}

// UnmarshalJSON refuses what it does not know.
func (a *CommandRunArgs) UnmarshalJSON(text []byte) error {
	type plain CommandRunArgs
	return decodeStrictly(text, (*plain)(a))
}

// Command is one that jobs can run.
type Command struct {
	// Run is the program, as an absolute path, and its arguments. No shell sees them.
	Run []string
	// Args is how many arguments a job may add at the end; none to a batch file of Windows.
	Args int
	// Dir is the working folder, absolute. Default: the system's folder for temporary files.
	Dir string
	// Env is its environment, beside PAWL_JOB_ID and PAWL_JOB_ATTEMPT.
	Env map[string]string
	// PassEnv are variables of this process that it inherits. Nothing else is inherited.
	PassEnv []string
	// Timeout ends it. Default: the job's own, which ends it in any case.
	Timeout time.Duration
	// Permanent are the exit statuses that no retry can mend.
	Permanent []int
	// MaxOutput is how many bytes of the end of its output are kept as evidence of a failure. Default: none.
	MaxOutput int
}

// Fixed limits of a command.
const (
	mostArgs    = 100
	maxArg      = 4 << 10         // bytes of one argument
	endGrace    = 5 * time.Second // from being asked to end until it is killed
	mostOutput  = 64 << 10
	maxEvidence = 3000 // bytes of output in an error, of which 4,000 characters are kept
)

// Check says what is wrong with a command.
func (c Command) Check() error {
	switch {
	case len(c.Run) == 0:
		return &pawl.FieldError{Field: "run", Value: "[]", Rule: "must name a program"}
	case !filepath.IsAbs(c.Run[0]):
		return &pawl.FieldError{Field: "run", Value: c.Run[0], Rule: "must begin with the absolute path of a program"}
	case c.Args > 0 && isBatch(c.Run[0]):
		return &pawl.FieldError{Field: "args", Value: c.Args, Rule: "must be 0 for a batch file: Windows has a shell read its arguments"}
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return &pawl.FieldError{Field: "dir", Value: c.Dir, Rule: "must be an absolute path"}
	case c.Args < 0 || c.Args > mostArgs:
		return &pawl.FieldError{Field: "args", Value: c.Args, Rule: fmt.Sprintf("must be from 0 to %d", mostArgs)}
	case c.Timeout < 0:
		return &pawl.FieldError{Field: "timeout", Value: c.Timeout, Rule: "must not be negative"}
	case c.MaxOutput < 0 || c.MaxOutput > mostOutput:
		return &pawl.FieldError{Field: "max output", Value: c.MaxOutput, Rule: "must be from 0 to 64KiB"}
	}
	for _, status := range c.Permanent {
		if status < 1 || status > 255 {
			return &pawl.FieldError{Field: "permanent", Value: status, Rule: "must be exit statuses from 1 to 255"}
		}
	}
	for _, name := range append(slices.Sorted(maps.Keys(c.Env)), c.PassEnv...) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return &pawl.FieldError{Field: "env", Value: name, Rule: "must have names without ="}
		}
	}
	return nil
}

// isBatch reports that Windows hands a program to cmd.exe, which takes what stands in arguments for commands.
func isBatch(program string) bool {
	switch strings.ToLower(filepath.Ext(strings.TrimRight(program, ". "))) {
	case ".bat", ".cmd":
		return true
	}
	return false
}

// Commands handles CommandRun.
type Commands struct {
	known atomic.Pointer[map[string]Command]
}

// NewCommands returns a handler of CommandRun that can run these commands.
func NewCommands(known map[string]Command) (*Commands, error) {
	c := &Commands{}
	return c, c.Allow(known)
}

// Allow says anew which commands there are, from the next one on. One that breaks a rule changes nothing.
func (c *Commands) Allow(known map[string]Command) error {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if err := known[name].Check(); err != nil {
			return fmt.Errorf("configure %s: command %s: %w", CommandRun.Name(), name, err)
		}
	}
	known = maps.Clone(known)
	c.known.Store(&known)
	return nil
}

// Handle runs the command of one job, and returns when it has ended with all that it has started.
func (c *Commands) Handle(ctx context.Context, args CommandRunArgs) error {
	command, known := (*c.known.Load())[args.Command]
	if !known {
		return refused("command run: this host's configuration has no command %q", args.Command)
	}
	if err := command.takes(args.Args); err != nil {
		return pawl.Permanent(fmt.Errorf("command run: %s: %w", args.Command, err))
	}
	limited, cancel := ctx, func() {}
	if command.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, command.Timeout)
	}
	defer cancel()
	err := command.run(limited, args.Args)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && limited.Err() != nil:
		err = pawl.Transient(fmt.Errorf("ended after its timeout of %v: %w", command.Timeout, err))
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %v", context.Cause(ctx), err) // what it says about its own end decides nothing
	}
	return fmt.Errorf("command run: %s: %w", args.Command, err)
}

// takes checks the arguments of a job.
func (c Command) takes(args []string) error {
	if len(args) > c.Args {
		return &pawl.FieldError{Field: "args", Value: len(args), Rule: fmt.Sprintf("must be at most %d: the host lets a job add no more", c.Args)}
	}
	for _, arg := range args {
		if len(arg) > maxArg || !utf8.ValidString(arg) || strings.ContainsRune(arg, 0) {
			return &pawl.FieldError{Field: "args", Value: arg, Rule: "must be valid UTF-8 of at most 4 KiB, without NUL"}
		}
	}
	return nil
}

// environment is what a command is given.
func (c Command) environment(job *pawl.Job) []string {
	env := []string{}
	for _, name := range c.PassEnv {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	if job != nil {
		env = append(env, "PAWL_JOB_ID="+job.ID.String(), fmt.Sprintf("PAWL_JOB_ATTEMPT=%d", job.Attempt))
	}
	return env
}

// run starts the command and waits until it, and all that it has started, has ended.
func (c Command) run(ctx context.Context, args []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	out := &tail{most: c.MaxOutput}
	process := &exec.Cmd{
		Path: c.Run[0], Args: append(slices.Clone(c.Run), args...), Dir: c.Dir, Env: c.environment(pawl.FromContext(ctx)),
		Stdout: out, Stderr: out, WaitDelay: endGrace,
	}
	if process.Dir == "" {
		process.Dir = os.TempDir()
	}
	family, err := start(process)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = family.end(ended)
	}
	family.kill() // what it has left behind
	family.release()
	return c.judge(err, out)
}

// end asks the processes to end, and kills them when they have not.
func (f family) end(ended <-chan error) error {
	f.ask()
	patience := time.NewTimer(endGrace)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		f.kill()
	}
	return <-ended
}

// judge says what an exit status means.
func (c Command) judge(err error, out *tail) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // the status was 0; something that it has left kept its output open
		return nil
	case !errors.As(err, &exit):
		return pawl.Transient(err)
	}
	failure := errors.New(exit.String() + out.evidence())
	if slices.Contains(c.Permanent, exit.ExitCode()) {
		return pawl.Permanent(failure)
	}
	return pawl.Transient(failure)
}
