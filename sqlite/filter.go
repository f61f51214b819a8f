package sqlite

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// where collects the terms of a query. Values only ever become parameters.
type where struct {
	terms []string
	args  []any
	err   error
}

func (w *where) add(term string, args ...any) {
	w.terms = append(w.terms, term)
	w.args = append(w.args, args...)
}

// text adds a term for a text of the caller's, unless it is empty.
func (w *where) text(term, value string) {
	if value != "" {
		w.add(term, value)
	}
}

// check keeps the first error.
func (w *where) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

// bound adds a term that compares a stored time with one of the caller's, unless that is zero: "at >= ?" or "at < ?".
func (w *where) bound(term string, t time.Time) {
	if !t.IsZero() {
		w.add(term, ceilMilli(t))
	}
}

// and returns the terms of both, which were checked.
func (w where) and(other where) where {
	return where{
		terms: slices.Concat(w.terms, other.terms),
		args:  slices.Concat(w.args, other.args),
	}
}

func (w where) sql() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(w.terms, " and ")
}

// letterQuery is a filter as SQL: the index that drives the query, the terms and the times that this index answers,
// and the rest, for which the rows themselves must be looked at.
type letterQuery struct {
	index  string
	driven where
	times  page.Span
	rest   where
	// The index of groups has all that the filter asks for: statuses and times.
	inGroups bool
}

func newLetterQuery(f pawl.LetterFilter) (q letterQuery, err error) {
	if err := desk.CheckLetters(f); err != nil {
		return q, err
	}
	statuses := f.Status
	switch {
	case !f.JobID.IsZero():
		q.index = "pawl_letter_job"
		q.driven.add("job_id = ?", f.JobID[:])
		q.rest.text("fingerprint = ?", f.Fingerprint)
	case f.Fingerprint != "":
		q.index = "pawl_letter_group"
		q.driven.text("fingerprint = ?", f.Fingerprint)
	case len(statuses) == 1:
		q.index = "pawl_letter_status"
		q.driven.statuses(statuses)
		statuses = nil
	default:
		q.index = "pawl_letter_time"
	}
	if !f.Since.IsZero() {
		q.times.NotBefore(page.Cursor{At: ceilMilli(f.Since)})
	}
	if !f.Until.IsZero() {
		q.times.Before(page.Cursor{At: ceilMilli(f.Until)})
	}
	w := &q.rest
	w.statuses(statuses)
	byStatus := len(w.terms)
	w.classes(f.Class)
	w.text("reason = ?", string(f.Reason))
	w.text("kind = ?", f.Kind)
	w.text("queue = ?", f.Queue)
	w.text("connection = ?", f.Connection)
	w.text("correlation_id = ?", f.CorrelationID)
	w.bound("max(status_at, dead_at) < ?", f.StatusBefore)
	if f.Regression {
		w.add("group_resolved_at is not null")
	}
	w.tag(f.Tag)
	if f.Text != "" {
		pattern := likePattern(f.Text)
		w.add(`(exception_type like ? escape '\' or message like ? escape '\')`, pattern, pattern)
	}
	q.inGroups = len(w.terms) == byStatus
	return q, w.err
}

// selective reports that the driving index leaves few rows to look at whatever else lies in the store.
func (q letterQuery) selective() bool {
	return len(q.rest.terms) == 0 || q.index == "pawl_letter_job" || q.index == "pawl_letter_group"
}

// within are the driven terms for a part of the list.
func (q letterQuery) within(part page.Span) where {
	w := q.driven.and(where{})
	if part.From != nil {
		w.add("(dead_at, id) >= (?, ?)", part.From.At, part.From.ID[:])
	}
	if part.To != nil {
		w.add("(dead_at, id) < (?, ?)", part.To.At, part.To.ID[:])
	}
	return w
}

// by is a query of columns that goes through the driving index, which is in the order of lists.
func (q letterQuery) by(columns string) string {
	return "select " + columns + " from pawl_letter l indexed by " + q.index
}

// all is a query of columns that goes through the whole table, by the index that the table is. For each row that takes
// a fraction of the time.
func (q letterQuery) all(columns string) string {
	return "select " + columns + " from pawl_letter l indexed by sqlite_autoindex_pawl_letter_1"
}

func (w *where) statuses(statuses []pawl.Status) {
	if len(statuses) == 0 {
		return
	}
	args := make([]any, len(statuses))
	for i, status := range statuses {
		args[i] = int64(status)
	}
	w.add("status in ("+marks(len(args))+")", args...)
}

func (w *where) classes(classes []pawl.DeathClass) {
	if len(classes) == 0 {
		return
	}
	args := make([]any, len(classes))
	for i, class := range classes {
		args[i] = int64(class)
	}
	w.add("class in ("+marks(len(args))+")", args...)
}

// tag looks for the tag's JSON text where one begins. Within a tag every quote has a backslash before it, so what looks like
// a beginning is one, or the end of a tag which ends in a comma or bracket; behind that comes a comma or a bracket, so only a
// tag that begins so itself has to be looked for in the list as it is read.
func (w *where) tag(tag string) {
	if tag == "" {
		return
	}
	encoded, err := json.Marshal(tag)
	w.check(err)
	w.add("(instr(tags, ?) > 0 or instr(tags, ?) > 0)", "["+string(encoded), ","+string(encoded))
	if strings.ContainsAny(tag[:1], ",]") {
		w.add("exists (select 1 from json_each(tags) where value = ?)", tag)
	}
}

// marks is n parameters for a list.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

var likeSpecials = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// likePattern matches text anywhere, taken literally but for the case of ASCII letters.
func likePattern(text string) string { return "%" + likeSpecials.Replace(text) + "%" }
