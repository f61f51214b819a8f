//go:build !unix

package app

import "os"

// quietSignals are those that make a host quiet: there is none to send here.
var quietSignals []os.Signal
