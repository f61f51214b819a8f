package demo

import "github.com/pawljobs/pawl"

// refusal is an error with a text of its own that counts as one of package pawl's: the program ends with the exit
// status for that.
type refusal struct {
	text string
	is   error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.is }

func misused(text string) error  { return &refusal{text, pawl.ErrInvalid} }
func occupied(text string) error { return &refusal{text, pawl.ErrConflict} }
func missing(text string) error  { return &refusal{text, pawl.ErrNotFound} }
