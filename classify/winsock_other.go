//go:build !windows

package classify

import "syscall"

func isWinsockErrno(syscall.Errno) bool { return false }
