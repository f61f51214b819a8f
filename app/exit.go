package app

import (
	"errors"
	"io/fs"

	"github.com/pawljobs/pawl"
)

// Exit statuses.
const (
	exitOK           = 0
	exitError        = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitDenied       = 4
	exitPrecondition = 5
	exitPartly       = 6
	exitUnhealthy    = 8
)

var (
	// errReported is under errors whose text was printed already.
	errReported = errors.New("reported")
	// errNotConfirmed means that a question was not answered with yes.
	errNotConfirmed = errors.New("not confirmed")
)

// statusError fixes the exit status of an error.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func withStatus(code int, err error) error { return &statusError{code, err} }

// exitStatus maps what happened to a status. An error that carries one of its own is asked first.
func exitStatus(err error) int {
	var own *statusError
	if errors.As(err, &own) {
		return own.code
	}
	for _, known := range []struct {
		err  error
		code int
	}{
		{pawl.ErrNotFound, exitNotFound},
		{fs.ErrPermission, exitDenied},
		{pawl.ErrConflict, exitPrecondition},
		{pawl.ErrAlreadyRedriven, exitPrecondition},
		{pawl.ErrRedriveRefused, exitPrecondition},
		{pawl.ErrConfirm, exitPrecondition},
		{pawl.ErrSchema, exitPrecondition},
		{pawl.ErrBatchEnded, exitPrecondition},
		{errNotConfirmed, exitPrecondition},
		{pawl.ErrInvalid, exitUsage},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return exitError
}
