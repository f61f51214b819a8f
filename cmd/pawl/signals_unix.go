//go:build unix

package main

import (
	"os"
	"syscall"
)

// quietSignals are those that make a host quiet.
var quietSignals = []os.Signal{syscall.SIGUSR1}
