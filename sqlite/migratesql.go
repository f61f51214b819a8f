package sqlite

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
)

// MigrationSQL is the text of the migrations from a version on (0: there are no tables yet) to that of this program, in one
// transaction: for those who make their tables themselves.
func MigrationSQL(from int) (string, error) {
	texts, err := steps()
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	if from < 0 || from > len(texts) {
		return "", &pawl.FieldError{Field: "version", Value: from, Rule: fmt.Sprintf("must be 0 to %d, which is this program's", len(texts))}
	}
	var b strings.Builder
	b.WriteString("begin immediate;\n")
	for i, text := range texts[from:] {
		version := from + i + 1
		fmt.Fprintf(&b, "\n-- to version %d\n%s\ninsert into pawl_schema (version, applied_at) values (%d, cast(strftime('%%s', 'now') as integer) * 1000);\n",
			version, strings.TrimRight(text, "\n"), version)
	}
	b.WriteString("commit;\n")
	return b.String(), nil
}
