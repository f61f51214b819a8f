package demo

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

//go:embed sample.csv
var sample []byte

// signUp is one row of the input.
type signUp struct {
	ID    string
	Email string
	Name  string
	Role  string
}

// roles are what the demo's business knows. A sign-up with another role is a row that nobody can process: its profile
// job dies at once, as a permanent failure.
var roles = []string{"admin", "billing", "editor", "support", "viewer"}

func isKnown(role string) bool { return slices.Contains(roles, role) }

// column is a column that the input must have, and the rule for its cells.
type column struct {
	name  string
	check func(string) string // what is wrong, or ""
	field func(*signUp) *string
}

var columns = []column{
	{"id", limited(64), func(s *signUp) *string { return &s.ID }},
	{"email", checkEmail, func(s *signUp) *string { return &s.Email }},
	{"name", limited(200), func(s *signUp) *string { return &s.Name }},
	{"role", limited(64), func(s *signUp) *string { return &s.Role }},
}

// lineError says where the input breaks which rule.
type lineError struct {
	line int
	rule string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.rule) }
func (e *lineError) Unwrap() error { return pawl.ErrInvalid }

func broken(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// parseSignUps reads CSV (RFC 4180, UTF-8) with a header that has the columns id, email, name and role, in any order
// and among others. It takes all rows or none: the first broken rule is a *lineError.
func parseSignUps(text []byte) ([]signUp, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // the mark that spreadsheets put before UTF-8
	if line := invalidLine(text); line > 0 {
		return nil, broken(line, "must be UTF-8")
	}
	reader := csv.NewReader(bytes.NewReader(text))
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, broken(1, "must be a header with the columns id, email, name and role; the input is empty")
	}
	if err != nil {
		return nil, parseError(err)
	}
	where, err := locate(header)
	if err != nil {
		return nil, err
	}
	return readRows(reader, where)
}

// locate finds the index of each needed column.
func locate(header []string) (map[string]int, error) {
	where := map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := where[name]; twice {
			return nil, broken(1, "column %q must be named once", name)
		}
		where[name] = i
	}
	for _, c := range columns {
		if _, ok := where[c.name]; !ok {
			return nil, broken(1, "the header must name a column %q (id, email, name and role are needed)", c.name)
		}
	}
	return where, nil
}

func readRows(reader *csv.Reader, where map[string]int) ([]signUp, error) {
	var rows []signUp
	seen := map[string]int{}
	for {
		cells, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, parseError(err)
		}
		row, err := readRow(reader, cells, where)
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(where["id"])
		if first, twice := seen[row.ID]; twice {
			return nil, broken(line, "id %q must be unique: line %d has it too", row.ID, first)
		}
		seen[row.ID] = line
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, broken(2, "must be a sign-up; there is none below the header")
	}
	return rows, nil
}

func readRow(reader *csv.Reader, cells []string, where map[string]int) (signUp, error) {
	var row signUp
	for _, c := range columns {
		i := where[c.name]
		value := strings.TrimSpace(cells[i])
		if wrong := c.check(value); wrong != "" {
			line, _ := reader.FieldPos(i)
			return signUp{}, broken(line, "%s %s %s", c.name, quoted(value), wrong)
		}
		*c.field(&row) = value
	}
	return row, nil
}

// parseError says a fault of the CSV itself in the words of the other rules.
func parseError(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	switch {
	case errors.Is(parse.Err, csv.ErrFieldCount):
		return broken(parse.Line, "must have as many fields as the header")
	case errors.Is(parse.Err, csv.ErrQuote):
		return broken(parse.StartLine, "a quoted field must end with a quote, and a quote inside one must be doubled")
	case errors.Is(parse.Err, csv.ErrBareQuote):
		return broken(parse.Line, "a field with a quote in it must be quoted, and the quote doubled")
	}
	return broken(parse.Line, "%v", parse.Err)
}

// limited is the rule of a text: something to read, in one line, of at most so many bytes.
func limited(most int) func(string) string {
	return func(text string) string {
		switch {
		case text == "":
			return "must not be empty"
		case len(text) > most:
			return fmt.Sprintf("must have at most %d bytes", most)
		case strings.ContainsFunc(text, unicode.IsControl):
			return "must have no control characters"
		}
		return ""
	}
}

func checkEmail(text string) string {
	if wrong := limited(254)(text); wrong != "" { // RFC 5321, section 4.5.3.1.3
		return wrong
	}
	address, err := mail.ParseAddress(text)
	ascii := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	if err != nil || address.Address != text || !ascii {
		return "must be a bare mail address in ASCII, such as ada@example.com"
	}
	return ""
}

func quoted(text string) string {
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

// invalidLine is the first line that is not UTF-8, counted from 1; 0 when there is none.
func invalidLine(text []byte) int {
	if utf8.Valid(text) {
		return 0
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return i + 1
		}
	}
	return 0
}
