package alert

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// checkName gives a sink its name: 1-128 bytes without control characters.
func checkName(name, otherwise string) (string, error) {
	if name == "" {
		return otherwise, nil
	}
	if len(name) > 128 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", &pawl.FieldError{Field: "sink name", Value: name, Rule: "must have 1 to 128 bytes of UTF-8 without control characters"}
	}
	return name, nil
}

// checkLinkBase takes the empty text: no links.
func checkLinkBase(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(base) > 500 {
		return &pawl.FieldError{Field: "link base", Value: hostOf(u), Rule: "must be an http or https URL of at most 500 bytes without user, query and fragment, such as https://ops.example.com/jobs"}
	}
	return nil
}

// link is where a letter can be looked at: LinkBase + "/dead/" + its id; without a letter LinkBase.
func link(base string, letter pawl.ID) string {
	if base == "" {
		return ""
	}
	if letter.IsZero() {
		return base
	}
	return strings.TrimRight(base, "/") + "/dead/" + letter.String()
}

func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}

// oneLine makes text that is part of one line whatever it holds: control characters, line separators and what turns
// the direction of writing become spaces, invalid UTF-8 is replaced, and what is longer than limit characters is cut with an ellipsis.
func oneLine(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
	return cut(text, limit)
}

// cut keeps at most limit characters, the ellipsis included.
func cut(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// trial is what a test says.
const trial = "This is a test of the alerts. Nothing has died."

var errNoLetter = errors.New("the alert has no letter")

// relapse is said of a death whose group had been resolved.
const relapse = "REGRESSION: this had been resolved"

// headline says how many have died, and in a digest when.
func headline(alert pawl.Alert) string {
	d := alert.Digest
	switch {
	case d == nil:
		return "A job has died."
	case len(d.Groups)+d.More == 1:
		return fmt.Sprintf("%d jobs have died alike, from %s to %s.", d.Deaths, instant(d.First), instant(d.Last))
	}
	return fmt.Sprintf("%d jobs have died in %d groups, from %s to %s.", d.Deaths, len(d.Groups)+d.More, instant(d.First), instant(d.Last))
}

// groupsOf are those of a digest that have their letter, or the one of a single death.
func groupsOf(alert pawl.Alert) []pawl.AlertGroup {
	if alert.Digest == nil {
		at := alert.Letters[0].DeadAt
		return []pawl.AlertGroup{{Deaths: 1, First: at, Last: at, Regression: alert.Regression}}
	}
	return alert.Digest.Groups[:min(len(alert.Digest.Groups), len(alert.Letters))]
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// cause is a letter's class and reason, the reason only where it adds something.
func cause(letter pawl.DeadLetter) string {
	if string(letter.Reason) == letter.Class.String() || letter.Reason == "" {
		return letter.Class.String()
	}
	text := letter.Class.String() + ", " + string(letter.Reason)
	if letter.Reason.OutcomeUnknown() {
		text += ", OUTCOME UNKNOWN"
	}
	return text
}
