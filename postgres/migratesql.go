package postgres

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
)

// MigrationSQL is the text of the migrations from a version on (0: there are no tables yet) to that of this program, in one
// transaction under the lock that Open takes: for those who make their tables themselves. schema is Config.Schema; "" is pawl.
func MigrationSQL(schema string, from int) (string, error) {
	names, err := newSchema(Config{Schema: schema}.withDefaults().Schema)
	if err != nil {
		return "", err
	}
	texts, err := (&Store{schema: names}).steps()
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	if from < 0 || from > len(texts) {
		return "", &pawl.FieldError{Field: "version", Value: from, Rule: fmt.Sprintf("must be 0 to %d, which is this program's", len(texts))}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "begin;\nselect pg_advisory_xact_lock(%d);\n", names.lock("migrate"))
	if from == 0 {
		b.WriteString(names.text("create schema if not exists {s};\n"))
		b.WriteString(names.text("create table {s}.schema_version (version int primary key, applied_at timestamptz not null default now());\n"))
	}
	for i, text := range texts[from:] {
		version := from + i + 1
		fmt.Fprintf(&b, "\n-- to version %d\n%s\n%s;\n", version, strings.TrimRight(text, "\n"),
			names.text(fmt.Sprintf("insert into {s}.schema_version (version) values (%d)", version)))
	}
	b.WriteString("commit;\n")
	return b.String(), nil
}
