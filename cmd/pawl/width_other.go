//go:build !unix

package main

import "os"

// terminalWidth is not told on this system.
func terminalWidth(*os.File) int { return 0 }
