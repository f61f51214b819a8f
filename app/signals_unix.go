//go:build unix

package app

import (
	"os"
	"syscall"
)

// quietSignals are those that make a host quiet.
var quietSignals = []os.Signal{syscall.SIGUSR1}

// reloadSignals are those at which the configuration is read again.
var reloadSignals = []os.Signal{syscall.SIGHUP}
