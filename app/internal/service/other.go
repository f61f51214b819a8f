//go:build !linux && !windows

package service

import (
	"fmt"
	"runtime"

	"github.com/pawljobs/pawl"
)

// System is the service manager of this machine: none that this program knows.
func System() (Manager, error) {
	return nil, fmt.Errorf("services of %s: %w", runtime.GOOS, pawl.ErrUnsupported)
}
