package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/wneessen/go-mail"
)

// compose makes the mail of an alert. Whatever text the letters hold, it cannot reach the headers but as one encoded
// line of the subject.
func (s *SMTP) compose(alert pawl.Alert) (*mail.Msg, error) {
	if len(alert.Letters) == 0 && !alert.Test {
		return nil, errNoLetter
	}
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	message.FromMailAddress(s.from)
	message.ToMailAddress(s.to...)
	message.SetDate()
	message.SetMessageIDWithValue(s.messageID(alert.Key))
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday replies
	message.Subject(subject(alert))
	message.SetBodyString(mail.TypeTextPlain, s.body(alert))
	return message, nil
}

// messageID is the same for every repeat of a delivery, so that mailboxes can drop the second one.
func (s *SMTP) messageID(key string) string {
	sum := sha256.Sum256([]byte(key))
	_, domain, _ := strings.Cut(s.from.Address, "@")
	return "pawl." + hex.EncodeToString(sum[:16]) + "@" + domain
}

func subject(alert pawl.Alert) string {
	if alert.Test {
		return "[pawl] Test of the alerts"
	}
	first := alert.Letters[0]
	kind, head := oneLine(first.Kind, 80), "[pawl] "
	if alert.Regression {
		head += "REGRESSION: "
	}
	if d := alert.Digest; d != nil {
		head += fmt.Sprintf("%d jobs died: %s", d.Deaths, kind)
		if len(d.Groups)+d.More > 1 {
			head += " and others"
		}
		return oneLine(head, 200)
	}
	return oneLine(head+kind+" died: "+cause(first), 200)
}

func (s *SMTP) body(alert pawl.Alert) string {
	if alert.Test {
		return strings.TrimSpace(trial+"\n\n"+link(s.linkBase, pawl.ID{})) + "\n"
	}
	var b strings.Builder
	if alert.Digest == nil {
		b.WriteString("A job has died. It will not be tried again by itself.\n\n")
		s.describe(&b, alert.Letters[0], alert.Regression)
		return b.String()
	}
	fmt.Fprintf(&b, "%s They will not be tried again by themselves.\n", headline(alert))
	for i, group := range groupsOf(alert) {
		s.summarise(&b, i+1, alert.Letters[i], group)
	}
	if alert.Digest.More > 0 {
		fmt.Fprintf(&b, "\n… and %d more groups\n", alert.Digest.More)
	}
	return b.String()
}

// describe writes everything that helps to judge one death: one fact a line, a message's further lines indented.
func (s *SMTP) describe(b *strings.Builder, letter pawl.DeadLetter, regression bool) {
	if regression {
		b.WriteString(relapse + ".\n\n")
	}
	if letter.Reason.OutcomeUnknown() {
		b.WriteString("OUTCOME UNKNOWN: its effect may have happened. Check before it is run again.\n\n")
	}
	for _, fact := range []struct{ label, value string }{
		{"Kind", letter.Kind},
		{"Class", letter.Class.String()},
		{"Reason", string(letter.Reason)},
		{"Attempts", fmt.Sprint(letter.Attempts)},
		{"Error", letter.ExceptionType},
		{"Message", letter.Message},
		{"Queue", letter.Queue},
		{"Connection", letter.Connection},
		{"Job", letter.JobID.String()},
		{"Source", letter.SourceMessageID},
		{"Letter", letter.ID.String()},
		{"Correlation", letter.CorrelationID},
		{"Tags", strings.Join(letter.Tags, ", ")},
		{"Enqueued", instant(letter.EnqueuedAt)},
		{"Died", instant(letter.DeadAt)},
		{"Host", letter.Host},
		{"Link", link(s.linkBase, letter.ID)},
	} {
		if fact.value != "" {
			fmt.Fprintf(b, "%-12s %s\n", fact.label, indent(fact.value))
		}
	}
}

func (s *SMTP) summarise(b *strings.Builder, number int, letter pawl.DeadLetter, group pawl.AlertGroup) {
	fmt.Fprintf(b, "\n%2d. %d × %s: %s\n", number, group.Deaths, oneLine(letter.Kind, 128), cause(letter))
	if group.Regression {
		b.WriteString("    " + relapse + "\n")
	}
	fmt.Fprintf(b, "    %s: %s\n", oneLine(letter.ExceptionType, 128), oneLine(letter.Message, 300))
	if group.Deaths > 1 {
		fmt.Fprintf(b, "    from %s to %s\n", instant(group.First), instant(group.Last))
	}
	fmt.Fprintf(b, "    first letter %s, job %s, %s\n", letter.ID, letter.JobID, attempts(letter.Attempts))
	if at := link(s.linkBase, letter.ID); at != "" {
		fmt.Fprintf(b, "    %s\n", at)
	}
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// indent keeps the lines of a text and sets the second and later ones under the first, so that no line of a message
// passes for a fact of ours.
func indent(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' })
	for i, line := range lines {
		lines[i] = oneLine(line, 4000)
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", 13))
}
