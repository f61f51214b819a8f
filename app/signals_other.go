//go:build !unix

package app

import "os"

// quietSignals are those that make a host quiet: there is none to send here.
var quietSignals []os.Signal

// reloadSignals are those at which the configuration is read again: the files are looked at all the same.
var reloadSignals []os.Signal
