package builtin

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written, and takes all of it, so that no program has to wait.
type tail struct {
	most int

	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= t.most {
		t.cut = t.cut || len(t.kept) > 0 || len(p) > t.most
		t.kept = append(t.kept[:0], p[len(p)-t.most:]...)
		return len(p), nil
	}
	if over := len(t.kept) + len(p) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

// evidence is the end of the output as a part of an error; "" where nothing is kept.
func (t *tail) evidence() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.kept
	if len(text) > maxEvidence {
		text = text[len(text)-maxEvidence:]
	}
	line := strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
	switch {
	case line == "":
		return ""
	case t.cut || len(text) < len(t.kept):
		return ": …" + line
	}
	return ": " + line
}
