//go:build unix

package app

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is the number of characters in a line of the terminal; 0 when it cannot be told.
func terminalWidth(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
