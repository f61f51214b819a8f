package desk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// CheckPrune refuses to prune letters without naming their statuses and an age.
func CheckPrune(f pawl.LetterFilter, by pawl.By) error {
	if err := CheckBy(by); err != nil {
		return err
	}
	if len(f.Status) == 0 {
		return &pawl.FieldError{Field: "status", Value: "", Rule: "must be named: open failures are pruned only where that says dead"}
	}
	if f.StatusBefore.IsZero() {
		return &pawl.FieldError{Field: "status before", Value: "", Rule: "must be a time: letters that have had their status since before are pruned"}
	}
	return CheckLetters(f)
}

// Picks reports that what can change of a letter still fits a filter to prune by.
func Picks(f pawl.LetterFilter, fate Fate) bool {
	return slices.Contains(f.Status, fate.Status) && fate.StatusAt.Before(f.StatusBefore)
}

// PruneEntry is the line in the trail when letters are pruned.
func PruneEntry(f pawl.LetterFilter, p pawl.Pruned) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionPrune, Subject: "letters", From: FilterText(f), To: "pruned", Outcome: PrunedText(p),
	}
}

// PrunedText says what became of the letters.
func PrunedText(p pawl.Pruned) string { return fmt.Sprintf("%d removed, %d kept", p.Removed, p.Kept) }

// Expired are the letters that a retention prunes at now: those that have been closed for so long. It moves by the hour, so
// that the trail has at most one line for each.
func Expired(now time.Time, retention time.Duration) pawl.LetterFilter {
	return pawl.LetterFilter{
		Status:       []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded},
		StatusBefore: now.Add(-retention).Truncate(time.Hour),
	}
}

// Retention is who prunes, where a store was told to.
func Retention() pawl.By {
	by := System()
	by.Why = "retention"
	return by
}

// FilterText writes a filter for people, such as "status resolved, since before 2026-01-01T00:00:00Z, kind mail.v1".
func FilterText(f pawl.LetterFilter) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	add("status", list(f.Status))
	add("since before", at(f.StatusBefore))
	add("class", list(f.Class))
	add("reason", string(f.Reason))
	add("kind", f.Kind)
	add("queue", f.Queue)
	add("connection", f.Connection)
	add("group", f.Fingerprint)
	add("correlation id", f.CorrelationID)
	add("tag", f.Tag)
	add("job", f.JobID.String())
	add("batch", f.Batch.String())
	add("died since", at(f.Since))
	add("died before", at(f.Until))
	add("text", f.Text)
	if f.Regression {
		parts = append(parts, "regressions")
	}
	return strings.Join(parts, ", ")
}

func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, " or ")
}
