package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/pawljobs/pawl"
)

// maxChat is what Discord takes: characters, counted here as UTF-16 does, which is never less.
const maxChat = 2000

// payload is the body of a webhook: Slack reads "text", Discord "content", and both are the same. Discord is told as
// well to notify nobody that the text may name.
func payload(alert pawl.Alert, linkBase string) ([]byte, error) {
	if len(alert.Letters) == 0 && !alert.Test {
		return nil, errNoLetter
	}
	text := chatText(alert, linkBase)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{
		"text":             text,
		"content":          text,
		"allowed_mentions": map[string]any{"parse": []string{}},
	})
	return bytes.TrimSpace(body.Bytes()), err
}

// chatText has the type of each exception and never its message, which may hold what a chat service should not be
// told. Whole entries are left out where they do not fit, and counted.
func chatText(alert pawl.Alert, linkBase string) string {
	if alert.Test {
		return strings.TrimSpace(trial + "\n" + link(linkBase, pawl.ID{}))
	}
	text, groups, left := headline(alert), groupsOf(alert), 0
	if alert.Digest != nil {
		left = alert.Digest.More
	}
	for i, group := range groups {
		entry := chatEntry(alert.Letters[i], group, linkBase)
		rest := moreGroups(left + len(groups) - i - 1)
		if units(text+entry+rest) > maxChat {
			return text + moreGroups(left+len(groups)-i)
		}
		text += entry
	}
	return text + moreGroups(left)
}

func moreGroups(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\n… and %d more", n)
}

func chatEntry(letter pawl.DeadLetter, group pawl.AlertGroup, linkBase string) string {
	var b strings.Builder
	b.WriteString("\n")
	if group.Deaths > 1 {
		fmt.Fprintf(&b, "%d × ", group.Deaths)
	}
	fmt.Fprintf(&b, "%s: %s, %s", code(letter.Kind), plain(cause(letter)), attempts(letter.Attempts))
	if letter.ExceptionType != "" {
		fmt.Fprintf(&b, ", %s", code(letter.ExceptionType))
	}
	if group.Regression {
		b.WriteString("\n" + relapse)
	}
	which := "letter"
	if group.Deaths > 1 {
		which = "first letter"
	}
	fmt.Fprintf(&b, "\nqueue %s, %s %s", code(letter.Queue), which, letter.ID)
	if !letter.JobID.IsZero() {
		fmt.Fprintf(&b, ", job %s", letter.JobID)
	}
	if at := link(linkBase, letter.ID); at != "" {
		b.WriteString("\n" + at)
	}
	return b.String()
}

// plain makes text of a letter that mentions nobody and links nowhere: Slack's <…> lose their brackets, and an @ is
// followed by a zero-width space.
func plain(text string) string {
	return strings.NewReplacer("@", "@\u200b", "<", "‹", ">", "›", "`", "ʼ").Replace(oneLine(text, 128))
}

// code is plain text in a code span, where chat services format nothing either.
func code(text string) string {
	if text = plain(text); text == "" {
		return "(none)"
	}
	return "`" + text + "`"
}

func units(text string) int { return len(utf16.Encode([]rune(text))) }
