//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/builtin"
)

// shell is a command that stands for any program. That it is a shell is the configuration's doing, not the job's.
func shell(script string) builtin.Command {
	return builtin.Command{Run: []string{"/bin/sh", "-c", script, "sh"}, Args: 3, MaxOutput: 100, Permanent: []int{2}}
}

func run(t *testing.T, ctx context.Context, c builtin.Command, args ...string) error {
	t.Helper()
	commands, err := builtin.NewCommands(map[string]builtin.Command{"it": c})
	if err != nil {
		t.Fatal(err)
	}
	return commands.Handle(ctx, builtin.CommandRunArgs{Command: "it", Args: args})
}

func TestCommandHasWhatIsStatedAndNoMore(t *testing.T) {
	t.Setenv("PAWL_TEST_SECRET", "hush")
	t.Setenv("PAWL_TEST_SHARED", "shared")
	folder := t.TempDir()
	out := filepath.Join(folder, "out")
	c := shell(`pwd > "$OUT"; env >> "$OUT"; printf '%s|' "$@" >> "$OUT"; cat >> "$OUT"`)
	c.Dir, c.Env, c.PassEnv = folder, map[string]string{"OUT": out, "LANG": "C"}, []string{"PAWL_TEST_SHARED", "PAWL_TEST_NOT_SET"}
	id := pawl.NewID()
	if err := run(t, attempt(t, id), c, "a b", "$(touch /tmp/pawned); `id`", "*"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{folder + "\n", "PAWL_TEST_SHARED=shared\n", "PAWL_JOB_ID=" + id.String() + "\n", "PAWL_JOB_ATTEMPT=2\n", "a b|$(touch /tmp/pawned); `id`|*|"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for _, not := range []string{"hush", "HOME=", "USER="} {
		if strings.Contains(got, not) {
			t.Errorf("%q is in %s", not, got)
		}
	}
}

func TestExitStatusesAreClassified(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]struct {
		class pawl.Class
		text  string
	}{
		"echo so far; exit 0":            {},
		"echo nothing; exit 1":           {pawl.ClassTransient, "exit status 1: nothing"},
		"echo 'bad option' >&2; exit 2":  {pawl.ClassPermanent, "exit status 2: bad option"},
		"kill -9 $$":                     {pawl.ClassTransient, "signal: killed"},
		"yes | head -c 1000000; exit 1":  {pawl.ClassTransient, "exit status 1: …"},
		"printf '\\377\\000ab'; exit 1":  {pawl.ClassTransient, "\uFFFD\x00ab"},
		"sleep 300 & echo left; exit 1":  {pawl.ClassTransient, "exit status 1: left"},
		"(sleep 300 &) ; echo left >&2 ": {},
	} {
		err := run(t, t.Context(), shell(script))
		switch {
		case want.text == "":
			if err != nil {
				t.Errorf("%s: %v", script, err)
			}
		case err == nil || pawl.ClassOf(err) != want.class || !strings.Contains(err.Error(), want.text):
			t.Errorf("%s: class %v, %v", script, pawl.ClassOf(err), err)
		case len(err.Error()) > 300:
			t.Errorf("%s: %d bytes of evidence", script, len(err.Error()))
		}
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d of the command runs on", pid)
		}
	}
}

// A timeout ends the command with all that it has started, also what ignores the request to end.
func TestTimeoutEndsTheWholeFamily(t *testing.T) {
	t.Parallel()
	child := filepath.Join(t.TempDir(), "child")
	c := shell(`trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $! > ` + child + `; echo begun; wait; wait`)
	c.Timeout = 300 * time.Millisecond
	begun := time.Now()
	err := run(t, t.Context(), c)
	if pawl.ClassOf(err) != pawl.ClassTransient || !strings.Contains(err.Error(), "timeout of 300ms") || !strings.Contains(err.Error(), "begun") {
		t.Errorf("class %v: %v", pawl.ClassOf(err), err)
	}
	if took := time.Since(begun); took < 5*time.Second {
		t.Errorf("it was killed after %v, without its grace", took)
	}
	gone(t, child)
}

// What a command says when it is told to end for a shutdown decides nothing.
func TestShutdownEndsTheCommand(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel(pawl.ErrShutdown)
	}()
	err := run(t, ctx, shell(`trap 'exit 2' TERM; touch `+ready+`; while :; do sleep 0.01; done`))
	if !errors.Is(err, pawl.ErrShutdown) || pawl.ClassOf(err) == pawl.ClassPermanent {
		t.Errorf("class %v: %v", pawl.ClassOf(err), err)
	}
	if err := run(t, ctx, shell("exit 0")); !errors.Is(err, pawl.ErrShutdown) {
		t.Errorf("begun after the end: %v", err)
	}
}

func TestOnlyNamedCommandsRun(t *testing.T) {
	t.Parallel()
	commands, err := builtin.NewCommands(map[string]builtin.Command{"ok": {Run: []string{"/bin/true"}, Args: 1}, "missing": {Run: []string{"/no/such/program"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args  builtin.CommandRunArgs
		class pawl.Class
		want  string
	}{
		"a path":             {builtin.CommandRunArgs{Command: "/bin/sh"}, pawl.ClassPermanent, "has no command"},
		"nothing":            {builtin.CommandRunArgs{}, pawl.ClassPermanent, "has no command"},
		"too many arguments": {builtin.CommandRunArgs{Command: "ok", Args: []string{"a", "b"}}, pawl.ClassPermanent, "must be at most 1"},
		"a NUL":              {builtin.CommandRunArgs{Command: "ok", Args: []string{"a\x00b"}}, pawl.ClassPermanent, "without NUL"},
		"a huge argument":    {builtin.CommandRunArgs{Command: "ok", Args: []string{strings.Repeat("a", 1<<13)}}, pawl.ClassPermanent, "4 KiB"},
		"no such program":    {builtin.CommandRunArgs{Command: "missing"}, pawl.ClassUnknown, "no such file"},
	} {
		err := commands.Handle(t.Context(), row.args)
		if err == nil || pawl.ClassOf(err) != row.class || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: class %v, %v", name, pawl.ClassOf(err), err)
		}
	}
	if err := commands.Handle(t.Context(), builtin.CommandRunArgs{Command: "ok", Args: []string{"-x"}}); err != nil {
		t.Error(err)
	}
	if err := commands.Allow(map[string]builtin.Command{"ok": {Run: []string{"true"}}}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a relative path: %v", err)
	}
	if err := commands.Allow(nil); err != nil {
		t.Fatal(err)
	}
	if err := commands.Handle(t.Context(), builtin.CommandRunArgs{Command: "ok"}); err == nil {
		t.Error("a command that is gone was run")
	}
}

func TestCommandsAreChecked(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]builtin.Command{
		"run": {}, "dir": {Run: []string{"/x"}, Dir: "y"}, "args": {Run: []string{"/x"}, Args: 101}, "timeout": {Run: []string{"/x"}, Timeout: -1},
		"max output": {Run: []string{"/x"}, MaxOutput: 1 << 20}, "permanent": {Run: []string{"/x"}, Permanent: []int{0}},
		"env":  {Run: []string{"/x"}, Env: map[string]string{"A=B": "c"}},
		"Args": {Run: []string{"/x.bat"}, Args: 1}, "aRgs": {Run: []string{"/x.CMD. "}, Args: 1},
	} {
		var fault *pawl.FieldError
		if err := c.Check(); !errors.As(err, &fault) || fault.Field != strings.ToLower(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
