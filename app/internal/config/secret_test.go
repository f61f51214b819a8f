package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawljobs/pawl/app/internal/config"
)

// A connection string of another form is no URL, and has a password all the same.
func TestErrorsAboutAStoreShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, store := range []string{
		"host=db user=pawl password=hunter2 dbname=app", "host=db password=hun:hunter2", "pawl:hunter2@db/app", "hunter2@db",
		"password=hunter2 host=db:5432", "//pawl:hunter2@db/app",
	} {
		_, err := config.ParseTarget(store)
		if err == nil || strings.Contains(err.Error(), "hun") {
			t.Errorf("%s: %v", store, err)
		}
	}
	if _, err := config.ParseTarget("jobs.db"); err == nil || !strings.Contains(err.Error(), "write sqlite:jobs.db") {
		t.Errorf("a path: %v", err)
	}
}

func TestPasswordsInAQuery(t *testing.T) {
	t.Parallel()
	for url, has := range map[string]bool{
		"postgres://u@h/db?password=hunter2": true, "postgres://u@h/db?sslpassword=hunter2": true, "postgres://u:hunter2@h/db": true,
		"postgres://u@h/db?password=a;hunter2": true, "postgres://u@h/db?pass%77ord=hunter2": true, "postgres://u@h/db?x=%zzhunter2": true,
		"postgres://u@h/db?sslmode=disable": false, "postgres://u@h/db": false,
	} {
		if shown := config.Redacted(url); strings.Contains(shown, "hunter2") || !strings.HasPrefix(shown, "postgres:") {
			t.Errorf("%s is shown as %s", url, shown)
		}
		if config.HasPassword(url) != has {
			t.Errorf("%s has a password: %v", url, !has)
		}
	}
}

// A file of a secret that is replaced may be away for a moment.
func TestASecretThatCameLateIsSeen(t *testing.T) {
	t.Parallel()
	path := file(t, "pawl.yaml", "sinks:\n  chat: {url_file: url}\n")
	first, err := config.Load(config.Sources{File: path})
	if err == nil {
		t.Fatal("a secret without its file was taken")
	}
	if first.Stale() {
		t.Error("nothing has changed, and it is stale")
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "url"), []byte("https://chat.example.com/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !first.Stale() {
		t.Error("the secret is there by now, and nobody looks")
	}
}

func TestTokensHaveSecretsOfTheirOwn(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("1f3c", 16)
	path := file(t, "pawl.yaml", "api:\n  tokens:\n    a: {role: viewer, hash: "+hash+"}\n    b: {role: admin, hash: "+strings.ToUpper(hash)+"}\n")
	_, err := config.Load(config.Sources{File: path})
	if err == nil || !strings.Contains(err.Error(), ":4: api.tokens.b.hash: is that of token a too") {
		t.Error(err)
	}
}

// What is wrong with a file is never taken for a wrong command line.
func TestAFileThatIsNoTextIsAtFault(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"bytes": "log: {level: info}\nlisten: \"\xff\"\n", "depth": strings.Repeat("[", 60), "YAML": "a: [", "tabs": "\t- a",
	} {
		_, err := config.Load(config.Sources{File: file(t, "pawl.yaml", text)})
		problems, ok := err.(config.Problems) //nolint:errorlint // as it comes
		if !ok || !problems.InFile() {
			t.Errorf("%s: %v", name, err)
		}
		if name == "bytes" && !strings.Contains(err.Error(), "pawl.yaml:2: it is no valid UTF-8") {
			t.Error(err)
		}
	}
}
