package desk_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawljobs/pawl/internal/desk"
)

func TestOpened(t *testing.T) {
	t.Parallel()
	for found, want := range map[int]string{
		0: `level=INFO msg="store made" path=jobs.db tables=12`,
		9: `level=INFO msg="store brought up to date" path=jobs.db tables=12 from=9`, 12: `level=INFO msg="store opened" path=jobs.db tables=12`,
	} {
		var out bytes.Buffer
		desk.Opened(slog.New(slog.NewTextHandler(&out, nil)), found, 12, slog.String("path", "jobs.db"))
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), " "); got != want {
			t.Errorf("found %d: %s", found, got)
		}
	}
}
