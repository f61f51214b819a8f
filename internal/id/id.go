// Package id makes the identifiers that jobs carry. It is apart so that the root package needs the standard
// library only.
package id

import "github.com/google/uuid"

// New returns a UUID of version 7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then random bits, so that
// ids made later sort later. It panics only when the system has no randomness to give.
func New() [16]byte { return uuid.Must(uuid.NewV7()) }

// Parse reads the canonical 36 character form.
func Parse(s string) ([16]byte, error) {
	if len(s) != 36 {
		return [16]byte{}, errLength
	}
	return uuid.Parse(s)
}

// String returns the canonical form in lower case.
func String(b [16]byte) string { return uuid.UUID(b).String() }

type lengthError struct{}

func (lengthError) Error() string { return "want 36 characters" }

var errLength error = lengthError{}
