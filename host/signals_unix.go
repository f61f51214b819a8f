//go:build unix

package host

import (
	"os"
	"syscall"
)

// quietSignals make a host quiet.
var quietSignals = []os.Signal{syscall.SIGUSR1}
