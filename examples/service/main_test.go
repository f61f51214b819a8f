package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"service": main})
}

// The commands of a service's own program.
func TestService(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, Setup: func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second to end
		return nil
	}})
}
