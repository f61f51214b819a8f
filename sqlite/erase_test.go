package sqlite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// What was erased is nowhere in the file, whatever its rows have been through, nor in what lies beside it.
func TestErasedBytesAreGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	kind := pawl.NewKind[json.RawMessage]("work.v1", pawl.Policy{})
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{kind.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	const mark = "Ada-Person-7b1"
	for _, size := range []int{10, 3000, 20_000, 100_000} {
		for range 40 {
			args := json.RawMessage(`"` + strings.Repeat(mark+" ", size/len(mark)+1) + `"`)
			if _, err := kind.Enqueue(t.Context(), store, args, pawl.Tags("ada")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 400 {
		claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind.Name()}, Max: 7})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed.Jobs) == 0 {
			break
		}
		var settlements []pawl.Settlement
		for i, job := range claimed.Jobs {
			s := pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
			switch {
			case job.Attempt == 1 && i%3 == 0:
				s.Outcome = pawl.Retry{}
			case i%2 == 0:
				letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, job, pawl.Dead{}, time.Now(), errors.New("down"))
				s.Outcome, s.Letter = pawl.Dead{}, &letter
			}
			settlements = append(settlements, s)
		}
		errs, err := store.Settle(t.Context(), session, settlements)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	if !anywhere(t, path, mark) {
		t.Fatal("the args are not found before they are erased: does the test still look at them?")
	}
	done, err := store.EraseArgs(t.Context(), pawl.Erase{Tag: "ada", By: pawl.By{Who: "ada"}})
	if err != nil || done.Letters == 0 || done.History != 160 || done.Residue != "" {
		t.Fatalf("%+v, %v", done, err)
	}
	if anywhere(t, path, mark) {
		t.Error("the args are still in the file")
	}
}

// anywhere looks into the file and those beside it.
func anywhere(t *testing.T, path, mark string) bool {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(content, []byte(mark)); n > 0 {
			t.Logf("%s: %d times", filepath.Base(name), n)
			return true
		}
	}
	return false
}
