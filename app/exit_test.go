package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{errors.New("disk full"), 1},
		{&pawl.FieldError{Field: "queue", Value: "", Rule: "must be there"}, 2},
		{pawl.ErrNotFound, 3},
		{&fs.PathError{Op: "open", Path: "pawl.db", Err: fs.ErrPermission}, 4},
		{pawl.ErrConflict, 5},
		{pawl.ErrAlreadyRedriven, 5},
		{pawl.ErrRedriveRefused, 5},
		{pawl.ErrConfirm, 5},
		{pawl.ErrSchema, 5},
		{pawl.ErrBatchEnded, 5},
		{errNotConfirmed, 5},
		{withStatus(8, pawl.ErrSchema), 8},
		{errors.Join(nil, fmt.Errorf("read letter: %w", pawl.ErrNotFound)), 3},
	} {
		if got := exitStatus(fmt.Errorf("do it: %w", test.err)); got != test.want {
			t.Errorf("%v: exit status %d, want %d", test.err, got, test.want)
		}
	}
}

func TestStatusOfMany(t *testing.T) {
	t.Parallel()
	missing, refused := pawl.ErrNotFound, pawl.ErrConflict
	for _, test := range []struct {
		failed []error
		all    int
		want   int
	}{
		{[]error{missing}, 1, 3},
		{[]error{missing, missing}, 2, 3},
		{[]error{missing, refused}, 2, 1},
		{[]error{missing, refused, refused}, 3, 1},
		{[]error{missing}, 2, 6},
		{nil, 2, 0},
	} {
		var all tally
		for i := range test.all {
			if i < len(test.failed) {
				all.add(test.failed[i])
			} else {
				all.add(nil)
			}
		}
		got := 0
		if err := all.err(); err != nil {
			got = exitStatus(err)
		}
		if got != test.want {
			t.Errorf("%v of %d: exit status %d, want %d", test.failed, test.all, got, test.want)
		}
	}
}

// Joined errors, and those of other programs with lines of their own, are one line.
func TestErrorIsOneLine(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	p := &program{talk: &talk}
	joined := fmt.Errorf("do it: %w", errors.Join(errors.New("one"), errors.New("two\n\n\tthree\r\n"), nil))
	if p.refusal(joined); talk.String() != "pawl: do it: one; two; three\n" {
		t.Errorf("said %q", talk.String())
	}
	if got := oneLine(errors.New("")); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// fullDisk takes no output.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Output that was not written is a failure, however well the work went.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	if code := run(t.Context(), pawl.NewMux(), Options{}, []string{"version"}, strings.NewReader(""), fullDisk{}, &talk, nil); code != exitError {
		t.Errorf("exit status %d, want %d", code, exitError)
	}
	if !strings.Contains(talk.String(), "no space left") {
		t.Errorf("said %q", talk.String())
	}
}
