// Package chain takes apart errors that wrap others, whatever their methods do.
package chain

// Limit bounds a walk through errors that wrap each other in a circle.
const Limit = 100_000

// Unwrap returns what err wraps: several parts, or one error. A method that panics wraps nothing.
func Unwrap(err error) (parts []error, inner error) {
	defer func() {
		if recover() != nil {
			parts, inner = nil, nil
		}
	}()
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return nil, e.Unwrap()
	case interface{ Unwrap() []error }:
		return append([]error{}, e.Unwrap()...), nil
	}
	return nil, nil
}
