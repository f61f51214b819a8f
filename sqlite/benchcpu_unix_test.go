//go:build unix

package sqlite_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used so far. It is steadier than the clock on a machine that does other work too.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
