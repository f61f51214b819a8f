//go:build unix

package app

import (
	"os"
	"syscall"
)

// quietSignals are those that make a host quiet.
var quietSignals = []os.Signal{syscall.SIGUSR1}
