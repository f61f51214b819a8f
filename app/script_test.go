package app

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the program as people do. Beside pawl they have pawltty, which takes its streams for a terminal,
// mkbox and mkbatch, which stand for a business, and mkdead, finish, live and retire, which stand for hosts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"pawl":    func() { Main(pawl.NewMux(), Options{}) },
		"pawltty": pawltty,
		"mkdead":  mkdead,
		"mkbatch": mkbatch,
		"mkbox":   mkbox,
		"finish":  finish,
		"live":    liveHost,
		"retire":  retire,
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_GOLDEN") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("USER", "kim")
			env.Setenv("TERM", "xterm")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second to end
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":     expectStatus,
			"capture":    capture,
			"capture-id": captureID,
			"masked":     masked,
			"json":       maskedStatus,
			"lines":      lines,
		},
	})
}

// status N pawl …: runs a command that must end with exit status N.
func expectStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := statusOf(err); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// capture-id NAME: keeps the first id in what was printed last.
func captureID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture-id NAME")
	}
	ts.Setenv(args[0], masks[0].pattern.FindString(ts.ReadFile("stdout")))
}

// json N FILE command…: as masked, of a command that must end with exit status N.
func maskedStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: json N FILE command [args…]")
	}
	expectStatus(ts, false, append(args[:1:1], args[2:]...))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(mask(ts.ReadFile("stdout"))), 0o600))
}

// capture NAME: keeps what was printed last in a variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// masked FILE command…: runs a command and writes its output to a file, with ids, times and ages replaced.
func masked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: masked FILE command [args…]")
	}
	ts.Check(ts.Exec(args[1], args[2:]...))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(mask(ts.ReadFile("stdout"))), 0o600))
}

// lines N: what was printed last has so many lines.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lines N")
	}
	if got := strconv.Itoa(strings.Count(ts.ReadFile("stdout"), "\n")); got != args[0] {
		ts.Fatalf("%s lines, want %s", got, args[0])
	}
}

func pawltty() {
	p := &program{mux: pawl.NewMux(), in: os.Stdin, out: os.Stdout, talk: os.Stderr, environ: os.Environ(), tty: func(any) bool { return true }, name: "pawl"}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
