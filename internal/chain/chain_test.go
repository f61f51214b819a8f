package chain_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/pawljobs/pawl/internal/chain"
)

type bomb struct{}

func (bomb) Error() string { return "bomb" }
func (bomb) Unwrap() error { panic("Unwrap") }

type bombs struct{}

func (bombs) Error() string   { return "bombs" }
func (bombs) Unwrap() []error { panic("Unwrap") }

type empty struct{}

func (empty) Error() string   { return "empty" }
func (empty) Unwrap() []error { return nil }

func TestUnwrap(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err   error
		parts int // -1: nil
		inner error
	}{
		"nil":              {nil, -1, nil},
		"plain":            {io.EOF, -1, nil},
		"one":              {fmt.Errorf("x: %w", io.EOF), -1, io.EOF},
		"joined":           {errors.Join(io.EOF, io.EOF), 2, nil},
		"joined, of none":  {empty{}, 0, nil},
		"a panic":          {bomb{}, -1, nil},
		"a panic of parts": {bombs{}, -1, nil},
	} {
		parts, inner := chain.Unwrap(row.err)
		if inner != row.inner || (parts == nil) != (row.parts < 0) || len(parts) != max(row.parts, 0) {
			t.Errorf("%s: %v, %v", name, parts, inner)
		}
	}
}
