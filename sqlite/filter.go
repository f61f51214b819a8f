package sqlite

import (
	"encoding/json"
	"errors"
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

// Indexes of letters. That of lists has all that filters ask for but texts; that of groups has statuses and times.
const (
	listIndex   = "pawl_letter_list"
	statusIndex = "pawl_letter_status"
	groupIndex  = "pawl_letter_group"
	jobIndex    = "pawl_letter_job"
	batchIndex  = "pawl_letter_batch"
)

// letterQuery is a filter as SQL: the index that drives the query, the terms and the times that this index answers, and the
// rest, for which the rows themselves must be looked at: texts, and the facts that the index of lists would answer.
type letterQuery struct {
	index  string
	driven where
	times  page.Span
	facts  where
	texts  where
	// The index of groups has all that the filter asks for.
	inGroups bool
}

func newLetterQuery(f pawl.LetterFilter) (q letterQuery, err error) {
	if err := desk.CheckLetters(f); err != nil {
		return q, err
	}
	q.times = letterTimes(f)
	q.facts = letterFacts(f)
	if f.Text != "" {
		pattern := likePattern(f.Text)
		q.texts.add(`(message like ? escape '\' or exception_type like ? escape '\')`, pattern, pattern)
	}
	bare := len(q.facts.terms) == 0 && len(q.texts.terms) == 0 // but for statuses
	q.inGroups = bare && f.JobID.IsZero() && f.Batch.IsZero()
	switch {
	case !f.JobID.IsZero():
		q.index = jobIndex
		q.driven.add("job_id = ?", f.JobID[:])
		q.facts.text("fingerprint = ?", f.Fingerprint)
		q.facts.statuses(f.Status)
		if !f.Batch.IsZero() {
			q.facts.add("batch = ?", f.Batch[:])
		}
	case !f.Batch.IsZero():
		q.index = batchIndex
		q.driven.add("batch = ?", f.Batch[:])
		q.facts.text("fingerprint = ?", f.Fingerprint)
		q.facts.statuses(f.Status)
	case f.Fingerprint != "":
		q.index = groupIndex
		q.driven.text("fingerprint = ?", f.Fingerprint)
		q.driven.statuses(f.Status)
	case len(f.Status) == 1 && bare:
		q.index = statusIndex
		q.driven.statuses(f.Status)
	default:
		q.driven.statuses(f.Status)
		q = q.listed()
	}
	return q, errors.Join(q.facts.err, q.driven.err)
}

// letterTimes is the span of a filter's times.
func letterTimes(f pawl.LetterFilter) (times page.Span) {
	if !f.Since.IsZero() {
		times.NotBefore(page.Cursor{At: ceilMilli(f.Since)})
	}
	if !f.Until.IsZero() {
		times.Before(page.Cursor{At: ceilMilli(f.Until)})
	}
	return times
}

// letterFacts are the terms beside status, group, job, time and text.
func letterFacts(f pawl.LetterFilter) (w where) {
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
	return w
}

// listed is the query by the index of lists, which answers the facts too.
func (q letterQuery) listed() letterQuery {
	q.index = listIndex
	q.driven, q.facts = q.driven.and(q.facts), where{}
	return q
}

// rest are the terms that the index does not answer.
func (q letterQuery) rest() where { return q.facts.and(q.texts) }

// within are the terms that the index answers, for a part of the list.
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

// by is a query of columns that goes through the driving index.
func (q letterQuery) by(columns string) string {
	return "select " + columns + " from pawl_letter l indexed by " + q.index
}

// all is a query of columns that goes through the whole table, by the index that the table is. For each row that takes
// a fraction of the time of a look from another index.
func (q letterQuery) all(columns string) string {
	return "select " + columns + " from pawl_letter l indexed by sqlite_autoindex_pawl_letter_1"
}

// of is a query of columns of those letters that a query of picks finds: it has done with its index before the rows are looked
// at.
func of(columns, picking string) string {
	return "select " + columns + " from (" + picking + ") p cross join pawl_letter l on l.id = p.picked"
}

const picks = "id as picked, dead_at as died"

// pickedOrder is the order of a list in terms of picks, which SQLite sees to be that of their index.
var pickedOrder = map[string]string{
	newestFirst: " order by died desc, picked desc",
	oldestFirst: " order by died, picked",
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
