package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl/app/internal/config"
)

// The page lists every setting as it is.
func TestPageListsEverySetting(t *testing.T) {
	t.Parallel()
	const page, mark = "../../../docs/config.md", "by UPDATE_GOLDEN=1 go test ./app/internal/config -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, table, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no mark", page)
	}
	want := settingsTable()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, []byte(before+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Error(diff)
	}
}

func settingsTable() string {
	var out strings.Builder
	out.WriteString("\n| setting | type | default | live | |\n|---|---|---|---|---|\n")
	for _, key := range config.Keys() {
		path, start, live := "`"+key.Path+"`", "", ""
		if key.Secret {
			path += ", `" + key.Path + "_file`"
		}
		if key.Default != "" && key.Default != "[]" && key.Default != "{}" && key.Default != "0s" {
			start = "`" + key.Default + "`"
		}
		if key.Live {
			live = "live"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", path, key.Type, start, live, key.Doc)
	}
	return out.String()
}

// Every setting says what it is, and its variable states it.
func TestEverySettingIsComplete(t *testing.T) {
	t.Parallel()
	for _, key := range config.Keys() {
		if key.Doc == "" || key.Type == "" {
			t.Errorf("%s does not say what it is", key.Path)
		}
		variable := "PAWL_" + strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(key.Path, "NAME", "default"), ".", "_"))
		_, err := config.Load(config.Sources{BuiltIn: true, Environ: []string{variable + "=1"}})
		if err != nil && strings.Contains(err.Error(), "unknown variable") {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
