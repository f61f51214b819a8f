package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// The page says which values scripts can meet.
func TestPageListsTheValues(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(text), "\n## Values\n")
	page, _, _ = strings.Cut(page, "\n## ")
	if !found {
		t.Fatal("no section Values")
	}
	var values []any
	for _, state := range allStates {
		values = append(values, state)
	}
	for _, reason := range allReasons {
		values = append(values, reason)
	}
	values = append(values,
		pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved, pawl.StatusDiscarded,
		pawl.DeathExhausted, pawl.DeathPermanent, pawl.DeathPoison,
		pawl.RedrivePending, pawl.RedriveSucceeded, pawl.RedriveDiedAgain, pawl.RedriveCancelled,
		pawl.EndReturned, pawl.EndPanicked, pawl.EndTimedOut, pawl.EndInterrupted, pawl.EndCutOff, pawl.EndCrashed, pawl.EndReleased,
		pawl.Accepted, pawl.Repeated, pawl.Duplicate)
	for _, value := range values {
		if !strings.Contains(page, fmt.Sprintf("`%v`", value)) {
			t.Errorf("%T %v is not there", value, value)
		}
	}
}

var (
	yamlBlock  = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n")
	secretPath = regexp.MustCompile(`_file: (\S+)`)
)

// Every configuration in the docs is a good one, once the files that it names are there.
func TestConfigurationsInDocsAreGood(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			checkConfiguration(t, page, block[1])
			checked++
		}
	}
	if checked < 4 {
		t.Errorf("only %d were found: does the check still see them?", checked)
	}
}

func checkConfiguration(t *testing.T, page, text string) {
	t.Helper()
	folder := t.TempDir()
	for _, secret := range secretPath.FindAllStringSubmatch(text, -1) {
		if filepath.IsAbs(secret[1]) {
			t.Errorf("%s: %s is not beside the configuration, where a reader can make it", page, secret[1])
		}
		write(t, filepath.Join(folder, secret[1]), "https://chat.example.com/hooks/1\n")
	}
	file := filepath.Join(folder, "pawl.yaml")
	write(t, file, text)
	var said bytes.Buffer
	code := run(t.Context(), pawl.NewMux(), Options{BuiltIn: true}, []string{"config", "check", "--config", file}, strings.NewReader(""), discard{}, &said, nil)
	if code != exitOK {
		t.Errorf("%s: status %d: %s", page, code, said.String())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
