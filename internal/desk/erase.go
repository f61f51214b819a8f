package desk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// ErasedText stands where a text was erased.
const ErasedText = "(erased)"

// CheckErase refuses a request that picks nothing, or more than it can mean.
func CheckErase(e pawl.Erase) error {
	if err := CheckBy(e.By); err != nil {
		return err
	}
	switch {
	case len(e.IDs) > pawl.MaxErase:
		return &pawl.FieldError{Field: "ids", Value: len(e.IDs), Rule: fmt.Sprintf("must be at most %d", pawl.MaxErase)}
	case slices.Contains(e.IDs, pawl.ID{}):
		return &pawl.FieldError{Field: "ids", Value: "", Rule: "must be ids of jobs or letters"}
	case len(e.IDs) == 0 && e.CorrelationID == "" && e.Tag == "" && e.Kind == "" && e.Text == "":
		return &pawl.FieldError{Field: "erase", Value: "", Rule: "must name ids, a correlation id, a tag, a kind or a text: it never means everything"}
	case e.Expect < 0:
		return &pawl.FieldError{Field: "expect", Value: e.Expect, Rule: "must not be negative"}
	}
	return checkTexts([][2]string{{"correlation id", e.CorrelationID}, {"tag", e.Tag}, {"kind", e.Kind}, {"text", e.Text}})
}

// CheckExpected refuses to erase another number than was expected.
func CheckExpected(e pawl.Erase, found pawl.Erased) error {
	if e.Expect != 0 && e.Expect != found.All() {
		return fmt.Errorf("there are %d to erase, and %d were expected: %w", found.All(), e.Expect, pawl.ErrConflict)
	}
	return nil
}

// Carried is what a job or letter carries as it is stored.
type Carried struct {
	ID, Job, Letter pawl.ID // a letter's and its job's, or a job's and the letter that it came from or died as
	Kind            string
	CorrelationID   string
	Tags            []string
	Envelope        []byte
}

// CarriedBy is a job, of which all but ids and kind lies in its envelope.
func CarriedBy(id, letter pawl.ID, kind string, envelope []byte) Carried {
	c := Carried{Job: id, Letter: letter, Kind: kind, Envelope: envelope}
	if e, err := pawl.DecodeEnvelope(envelope); err == nil {
		c.CorrelationID, c.Tags = e.CorrelationID, e.Tags
	}
	return c
}

// Erases reports that a request picks it.
func Erases(e pawl.Erase, c Carried) bool {
	named := func(id pawl.ID) bool { return !id.IsZero() && slices.Contains(e.IDs, id) }
	return (len(e.IDs) == 0 || named(c.ID) || named(c.Job) || named(c.Letter)) &&
		(e.CorrelationID == "" || e.CorrelationID == c.CorrelationID) &&
		(e.Tag == "" || slices.Contains(c.Tags, e.Tag)) &&
		(e.Kind == "" || e.Kind == c.Kind) &&
		(e.Text == "" || holds(c.Envelope, e.Text))
}

// holds reports that a text is part of the args.
func holds(envelope []byte, text string) bool {
	e, err := pawl.DecodeEnvelope(envelope)
	if err != nil {
		return bytes.Contains(lower(envelope), lower([]byte(text)))
	}
	part := lower([]byte(text))
	if bytes.Contains(lower(e.Args), part) {
		return true
	}
	if !bytes.ContainsRune(e.Args, '\\') {
		return false
	}
	for decoder := json.NewDecoder(bytes.NewReader(e.Args)); ; {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if s, ok := token.(string); ok && bytes.Contains(lower([]byte(s)), part) {
			return true
		}
	}
}

// lower has the ASCII letters in lower case.
func lower(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// IsErased says of an envelope whether its args, and with texts its tags, were erased.
func IsErased(stored []byte, texts bool) bool {
	e, err := pawl.DecodeEnvelope(stored)
	return err == nil && !e.Erased.IsZero() && (!texts || len(e.Tags) == 0)
}

// EraseEnvelope is what is left of one; of one that does not decode no more than what stands beside it. It is empty where
// not even that makes a job.
func EraseEnvelope(stored []byte, id pawl.ID, kind, queue string, texts bool, at time.Time) (left []byte, key string) {
	e, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		if id.IsZero() || kind == "" || queue == "" {
			return nil, ""
		}
		e = pawl.Envelope{ID: id, Kind: kind, Policy: pawl.Policy{Queue: queue, MaxTries: 1}}
	}
	key = e.Unique.Key
	if texts {
		e.Tags, e.TraceState = nil, ""
	}
	if !e.Erased.IsZero() {
		at = e.Erased
	}
	return e.Erase(at).Encode(), key
}

// EraseHistory takes the messages from attempts.
func EraseHistory(history []pawl.AttemptRecord) []pawl.AttemptRecord {
	for i := range history {
		if history[i].Message != "" {
			history[i].Message = ErasedText
		}
	}
	return history
}

// EraseEntry is the line in the trail. Of a text or a tag it says that one was looked for, and not which.
func EraseEntry(e pawl.Erase, done pawl.Erased) pawl.AuditEntry {
	var by []string
	if len(e.IDs) > 0 {
		by = append(by, fmt.Sprintf("%d ids", len(e.IDs)))
	}
	if e.CorrelationID != "" {
		by = append(by, "correlation id "+e.CorrelationID)
	}
	if e.Kind != "" {
		by = append(by, "kind "+e.Kind)
	}
	if e.Tag != "" {
		by = append(by, "a tag")
	}
	if e.Text != "" {
		by = append(by, "a text")
	}
	to := "erased"
	if e.Texts {
		to += ", texts too"
	}
	return pawl.AuditEntry{Action: pawl.ActionErase, Subject: "args", From: "by " + strings.Join(by, ", "), To: to, Outcome: ErasedCounts(done)}
}

// ErasedCounts says how many of each.
func ErasedCounts(e pawl.Erased) string {
	return fmt.Sprintf("letters %d, finished jobs %d, removed %d, stopping %d, left %d, erased before %d",
		e.Letters, e.History, e.Removed, e.Stopping, e.Left, e.Before)
}

// Sample adds an item, while there is room.
func Sample(e *pawl.Erased, what string, id pawl.ID, kind string, at time.Time) {
	if len(e.Sample) < pawl.EraseSample {
		e.Sample = append(e.Sample, pawl.ErasedItem{What: what, ID: id, Kind: kind, At: at})
	}
}
