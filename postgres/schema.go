package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

// schema is the name of the store's schema in the forms that statements need. Nothing else brings a name into SQL.
type schema struct {
	name    string
	replace *strings.Replacer // {s} by the quoted identifier, {l} by the same inside a literal
	channel string            // of notifications
}

func newSchema(name string) (schema, error) {
	if name == "" || len(name) > 63 || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return schema{}, &pawl.FieldError{Field: "schema", Value: name, Rule: "must have 1 to 63 bytes of UTF-8, without NUL"}
	}
	quoted := pgx.Identifier{name}.Sanitize()
	sum := sha256.Sum256([]byte(name))
	return schema{
		name:    name,
		replace: strings.NewReplacer("{s}", quoted, "{l}", strings.ReplaceAll(quoted, "'", "''")),
		channel: "pawl_" + hex.EncodeToString(sum[:8]),
	}, nil
}

// text is a statement's text for this schema.
func (s schema) text(template string) string { return s.replace.Replace(template) }

// lock is the key of an advisory lock for one purpose in this schema.
func (s schema) lock(purpose string) int64 {
	sum := sha256.Sum256([]byte("pawl\x00" + purpose + "\x00" + s.name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
