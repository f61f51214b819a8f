package postgres

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// conditions are those of a query. Values only ever become parameters.
type conditions struct {
	terms []string
	args  []any
}

// arg adds a parameter and returns how it is written.
func (c *conditions) arg(value any) string {
	c.args = append(c.args, value)
	return "$" + strconv.Itoa(len(c.args))
}

// add adds a term, in which a parameter takes the place of each question mark.
func (c *conditions) add(term string, args ...any) {
	for _, value := range args {
		term = strings.Replace(term, "?", c.arg(value), 1)
	}
	c.terms = append(c.terms, term)
}

// text adds a term for a text, unless that is empty.
func (c *conditions) text(term, value string) {
	if value != "" {
		c.add(term, value)
	}
}

func (c *conditions) where() string {
	if len(c.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(c.terms, " and ")
}

// ceilMicro is the first stored time that is not before t.
func ceilMicro(t time.Time) time.Time {
	micros := time.UnixMicro(t.UnixMicro())
	if micros.Before(t) {
		return micros.Add(time.Microsecond)
	}
	return micros
}

// letterConditions are a filter without its times.
func letterConditions(f pawl.LetterFilter) (c conditions, err error) {
	if err := desk.CheckLetters(f); err != nil {
		return c, err
	}
	if !f.JobID.IsZero() {
		c.add("job_id = ?", idValue(f.JobID))
	}
	switch len(f.Status) {
	case 0:
	case 1:
		c.add("status = ?", int16(f.Status[0]))
	default:
		c.add("status = any(?)", column(f.Status, func(s *pawl.Status) int16 { return int16(*s) }))
	}
	if len(f.Class) > 0 {
		c.add("class = any(?)", column(f.Class, func(k *pawl.DeathClass) int16 { return int16(*k) }))
	}
	c.text("fingerprint = ?", f.Fingerprint)
	c.text("reason = ?", string(f.Reason))
	c.text("kind = ?", f.Kind)
	c.text("queue = ?", f.Queue)
	c.text("connection = ?", f.Connection)
	c.text("correlation_id = ?", f.CorrelationID)
	c.text("? = any(tags)", f.Tag)
	if f.Text != "" { // in the collation "C", in which ASCII letters alone have cases
		text := lowerASCII(f.Text)
		c.add(`(strpos(lower(message collate "C"), ?) > 0 or strpos(lower(exception_type collate "C"), ?) > 0)`, text, text)
	}
	return c, nil
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, text)
}

// letterTimes is the span of a filter's times.
func letterTimes(f pawl.LetterFilter) (times page.Span) {
	if !f.Since.IsZero() {
		times.NotBefore(page.Cursor{At: ceilMicro(f.Since).UnixMicro()})
	}
	if !f.Until.IsZero() {
		times.Before(page.Cursor{At: ceilMicro(f.Until).UnixMicro()})
	}
	return times
}

// within adds the bounds of a span of letters.
func (c *conditions) within(times page.Span) {
	if times.From != nil {
		c.add("(dead_at, id) >= (?, ?)", time.UnixMicro(times.From.At), idBound(times.From.ID))
	}
	if times.To != nil {
		c.add("(dead_at, id) < (?, ?)", time.UnixMicro(times.To.At), idBound(times.To.ID))
	}
}

// idBound is an id as an argument, the zero id too.
func idBound(id pawl.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
