//go:build !unix

package host

import "os"

// quietSignals make a host quiet: there is none to send here.
var quietSignals []os.Signal
