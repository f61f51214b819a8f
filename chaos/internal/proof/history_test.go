package proof

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := int64(0)
	w, err := Create(folder, "host-1", func() int64 { at++; return at })
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Event{What: Started, Job: "j", Token: 1 << 60})
	w.Write(Event{What: Left, Text: "a\nb"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(folder, "host-1", nil); err == nil {
		t.Error("a second history of one name was made")
	}
	histories, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]Event{"host-1": {
		{At: 1, What: Started, Job: "j", Token: 1 << 60, Process: "host-1"}, {At: 2, What: Left, Text: "a\nb", Process: "host-1"},
	}}
	if d := cmp.Diff(want, histories); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A process that is killed in the middle of a line leaves it torn; anything else that does not read is an error.
func TestTornLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, `{"at":1,"what":"beat"}` + "\n": 1, `{"at":1,"what":"beat"}` + "\n" + `{"at":2,"wh`: 1, `{"at`: 0, "{\"at\"\n{}\n": -1,
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "host-1"+suffix), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		histories, err := Read(folder)
		switch {
		case want < 0 && err == nil:
			t.Errorf("%q was read", text)
		case want >= 0 && (err != nil || len(histories["host-1"]) != want):
			t.Errorf("%q: %v, %v", text, histories, err)
		}
	}
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	w, err := Create(t.TempDir(), "host-1", func() int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.file.Close(); err != nil {
		t.Fatal(err)
	}
	w.Write(Event{What: Beat})
	if w.Close() == nil {
		t.Error("a history that could not be written was closed well")
	}
}
