package alert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/pawljobs/pawl"
)

// maxChat is what Discord takes: characters, counted here as UTF-16 does, which is never less.
const maxChat = 2000

// payload is the body of a webhook: Slack reads "text", Discord "content", and both are the same. Discord is told as
// well to notify nobody that the text may name.
func payload(letters []pawl.DeadLetter, linkBase string) ([]byte, error) {
	if len(letters) == 0 {
		return nil, errors.New("the alert has no letter")
	}
	text := chatText(letters, linkBase)
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
func chatText(letters []pawl.DeadLetter, linkBase string) string {
	text := "A job has died."
	if len(letters) > 1 {
		text = fmt.Sprintf("%d jobs have died.", len(letters))
	}
	for i, letter := range letters {
		entry := chatEntry(letter, linkBase)
		rest := ""
		if after := len(letters) - i - 1; after > 0 {
			rest = fmt.Sprintf("\n… and %d more", after)
		}
		if i == maxListed || units(text+entry+rest) > maxChat {
			return text + fmt.Sprintf("\n… and %d more", len(letters)-i)
		}
		text += entry
	}
	return text
}

func chatEntry(letter pawl.DeadLetter, linkBase string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s, %s", code(letter.Kind), plain(cause(letter)), attempts(letter.Attempts))
	if letter.ExceptionType != "" {
		fmt.Fprintf(&b, ", %s", code(letter.ExceptionType))
	}
	fmt.Fprintf(&b, "\nqueue %s, letter %s", code(letter.Queue), letter.ID)
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
