// Package storable makes text and letters that every SQL store takes and gives back as they are: valid UTF-8 without
// NUL, within bounds.
package storable

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Bounds of evidence. What hosts write keeps them; deaths elsewhere may come from anywhere.
const (
	maxMessage = 4000     // characters
	maxDetail  = 64 << 10 // bytes
	maxLine    = 1000     // bytes of every other text
)

// cutMark ends text that was cut.
const cutMark = " … [cut]"

// Letter is a letter whose text can be stored, searched and shown: recording must not fail by what killed the job.
func Letter(l pawl.DeadLetter) pawl.DeadLetter {
	for _, text := range []*string{
		&l.SourceMessageID, &l.Connection, &l.Queue, &l.Kind, &l.ExceptionType, &l.CorrelationID, &l.Fingerprint,
		&l.Host, &l.Server, &l.Version, (*string)(&l.Reason),
	} {
		*text = Text(*text, maxLine)
	}
	l.Message = cutRunes(Text(l.Message, maxMessage*utf8.UTFMax), maxMessage)
	l.Detail = Text(l.Detail, maxDetail)
	tags := make([]string, len(l.Tags))
	for i, tag := range l.Tags {
		tags[i] = Text(tag, maxLine)
	}
	l.Tags = tags
	l.EnqueuedAt, l.StartedAt = moment(l.EnqueuedAt), moment(l.StartedAt)
	history := make([]pawl.AttemptRecord, 0, pawl.HistoryLimit)
	for _, record := range l.History[max(0, len(l.History)-pawl.HistoryLimit):] {
		record.Type, record.Host = Text(record.Type, maxLine), Text(record.Host, maxLine)
		record.StartedAt = moment(record.StartedAt)
		record.Message = cutRunes(Text(record.Message, maxMessage*utf8.UTFMax), maxMessage)
		history = append(history, record)
	}
	l.History = history
	return l
}

// moment is a time that JSON and every database can hold; others, which no clock shows, are the zero time.
func moment(t time.Time) time.Time {
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// Text is text of at most limit bytes. A cut is marked and ends on a rune boundary.
func Text(text string, limit int) string {
	whole := len(text) <= limit
	text = strings.ToValidUTF8(text[:min(limit, len(text))], "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\u2400") // these grow the text
	if whole && len(text) <= limit {
		return text
	}
	end := min(limit-len(cutMark), len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutMark
}

// cutRunes keeps at most limit characters, the mark of the cut included.
func cutRunes(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	keep := limit - utf8.RuneCountInString(cutMark)
	for i := range text {
		if keep == 0 {
			return text[:i] + cutMark
		}
		keep--
	}
	return text
}

// Check refuses text that would not come back from a store as it went in.
func Check(field, value string, limit int) error {
	switch {
	case len(value) > limit:
		return &pawl.FieldError{Field: field, Value: value, Rule: fmt.Sprintf("must have at most %d bytes", limit)}
	case !utf8.ValidString(value):
		return &pawl.FieldError{Field: field, Value: value, Rule: "must be valid UTF-8"}
	case strings.Contains(value, "\x00"):
		return &pawl.FieldError{Field: field, Value: value, Rule: "must have no NUL"}
	}
	return nil
}
