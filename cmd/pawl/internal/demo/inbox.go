package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/quotedprintable"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// box is a folder of what a receiver has got, one file a message.
type box struct {
	path string
	mu   sync.Mutex
}

// keep never overwrites: a second message with the same id gets a name that ends in -2, and so on.
func (b *box) keep(id, ending string, text []byte) error {
	part, err := os.CreateTemp(b.path, ".part-")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err := errors.Join(err, part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := 1; ; n++ {
		path := filepath.Join(b.path, fileName(id)+ending)
		if n > 1 {
			path = filepath.Join(b.path, fmt.Sprintf("%s-%d%s", fileName(id), n, ending))
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(part.Name(), path)
		}
	}
}

// fileName keeps the characters of an id that every file system takes.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return -1
	}, id)
	if name = strings.Trim(name, "."); name == "" {
		return "nameless"
	}
	return name[:min(len(name), 120)]
}

// each reads the box's messages of one ending.
func (b *box) each(ending string, read func(text []byte) error) error {
	entries, err := os.ReadDir(b.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !strings.HasSuffix(entry.Name(), ending) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(b.path, entry.Name()))
		if err != nil {
			return err
		}
		if err := read(text); err != nil {
			return fmt.Errorf("read %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// receivedMails counts the verification mails in a box by their unique id.
func receivedMails(mails *box) (map[string]int, error) {
	got := map[string]int{}
	err := mails.each(".eml", func(text []byte) error {
		message, err := netmail.ReadMessage(bytes.NewReader(text))
		if err != nil {
			return err
		}
		got[message.Header.Get(mailIDHeader)]++
		return nil
	})
	return got, err
}

// letterIDs finds the ids of the letters that an alert is about.
var letterIDs = regexp.MustCompile(`(?i)\bletter\s+([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`)

// alerted are the letters that one sink's receiver was told of.
type alerted map[string]bool

func (a alerted) note(text string) {
	for _, found := range letterIDs.FindAllStringSubmatch(text, -1) {
		a[strings.ToLower(found[1])] = true
	}
}

// receivedAlerts reads at the receivers what the sinks have delivered: the on-call mailbox, the posts to the chat
// service, and the log. A delivery that a crash made repeat itself counts once.
func receivedAlerts(alerts *box, logFile string) (map[string]alerted, error) {
	got := map[string]alerted{"log": {}, "email": {}, "webhook": {}}
	err := alerts.each(".eml", func(text []byte) error {
		message, err := netmail.ReadMessage(bytes.NewReader(text))
		if err != nil {
			return err
		}
		body := message.Body
		if strings.EqualFold(message.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
			body = quotedprintable.NewReader(body)
		}
		plain, err := io.ReadAll(body)
		got["email"].note(string(plain))
		return err
	})
	if err != nil {
		return nil, err
	}
	err = alerts.each(".json", func(text []byte) error {
		var post struct {
			Text string `json:"text"`
		}
		err := json.Unmarshal(text, &post)
		got["webhook"].note(post.Text)
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, logAlerts(logFile, got["log"])
}

func logAlerts(path string, got alerted) error {
	lines, err := readLines(path)
	for _, line := range lines {
		var entry struct {
			Message string `json:"msg"`
			Letter  string `json:"letter"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == "dead letter alert" {
			got[entry.Letter] = true
		}
	}
	return err
}
