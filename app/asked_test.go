package app

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// meanwhile says yes to a question, after something has happened.
type meanwhile struct {
	happens func()
	answer  io.Reader
}

func (m *meanwhile) Read(text []byte) (int, error) {
	if m.happens != nil {
		m.happens()
		m.happens = nil
	}
	return m.answer.Read(text)
}

// A yes is to what the question has said.
func TestWhatChangesWhileAQuestionWaitsIsLeftAlone(t *testing.T) {
	t.Parallel()
	kind := pawl.NewKind[int]("email.welcome.v1", pawl.Policy{})
	for _, line := range []string{"dead prune --before 2100-01-01 --status dead --reason test", "dead erase --kind email.welcome.v1 --reason test"} {
		f := setupFar(t)
		f.die(1)
		var out, talk strings.Builder
		asked := &meanwhile{func() { recordDeath(t, f.store, kind) }, strings.NewReader("yes\n")}
		p := &program{in: asked, out: &out, talk: &talk, environ: []string{"USER=kim"}, tty: func(any) bool { return true }, name: "pawl"}
		code := p.run(context.WithoutCancel(t.Context()), append(strings.Fields(line), "--store", f.local))
		if code != exitPrecondition || asked.happens != nil {
			t.Errorf("%s: status %d\n%s%s", line, code, out.String(), talk.String())
		}
		if n, err := letters(t, f.store); err != nil || n != 2 {
			t.Errorf("%s: %d letters are left as they were, %v", line, n, err)
		}
	}
}

// letters counts those that are whole.
func letters(t *testing.T, s *sqlite.Store) (n int, err error) {
	t.Helper()
	page, err := s.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{})
	for _, l := range page.Letters {
		if l.ErasedAt.IsZero() {
			n++
		}
	}
	return n, err
}
