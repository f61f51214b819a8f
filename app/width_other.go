//go:build !unix

package app

import "os"

// terminalWidth is not told on this system.
func terminalWidth(*os.File) int { return 0 }
