package pawl_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawljobs/pawl"

// layers are the packages of each storey, from the ground up. A package imports only what lies beneath its own storey;
// the packages of the topmost wire everything and may import each other.
var layers = [][]string{
	{"internal/id", "internal/chain"},
	{""},
	{"internal/rows", "internal/storable", "internal/page", "internal/reply", "internal/reach", "internal/execer", "internal/trouble", "schedule"},
	{"internal/desk", "internal/desktest", "internal/guest"},
	{"sqlite", "postgres", "inline", "host", "ops", "alert", "classify", "resilience", "outbox", "once", "storetest", "chaos/internal/proof"},
	{"internal/wire"},
	{"api"},
	{"internal/remotetest"},
	{"pawltest", "app", "app/", "cmd/", "examples/", "chaos"},
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// storey returns the layer of one of the module's packages, or -1.
func storey(path string) int {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	for i, layer := range layers {
		for _, entry := range layer {
			if path == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry) {
				return i
			}
		}
	}
	return -1
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// violation says what is wrong with one import, or "".
func violation(from, to string) string {
	a, b := storey(from), storey(to)
	switch top := len(layers) - 1; {
	case a == top:
		return ""
	case b >= a:
		return from + " imports " + to + ", which is not beneath it"
	}
	return ""
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if storey(p.ImportPath) < 0 {
			t.Errorf("%s belongs to no layer: name it in layers", p.ImportPath)
		}
		for _, name := range strings.Split(p.ImportPath, "/") {
			if slices.Contains([]string{"util", "utils", "common", "shared", "helpers", "types", "models"}, name) {
				t.Errorf("%s: a package is named after its one job", p.ImportPath)
			}
		}
		for _, imported := range p.Imports {
			if ours(imported) {
				if v := violation(p.ImportPath, imported); v != "" {
					t.Error(v)
				}
			} else if p.ImportPath == module && strings.Contains(strings.Split(imported, "/")[0], ".") {
				t.Errorf("the root package imports %s: it needs the standard library only", imported)
			}
		}
	}
}

// The check itself must be able to fail.
func TestArchitectureCheckSeesViolations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		from, to string
		bad      bool
	}{
		{module + "/host", module + "/sqlite", true},
		{module, module + "/host", true},
		{module + "/sqlite", module + "/cmd/pawl", true},
		{module + "/internal/id", module, true},
		{module + "/host", module, false},
		{module, module + "/internal/id", false},
		{module + "/cmd/pawl", module + "/cmd/pawl/internal/demo", false},
		{module + "/cmd/pawl", module + "/sqlite", false},
		{module + "/cmd/pawl", module + "/app", false},
		{module + "/host", module + "/app", true},
		{module + "/chaos", module + "/host", false},
		{module + "/chaos/internal/proof", module + "/host", true},
	} {
		if got := violation(row.from, row.to) != ""; got != row.bad {
			t.Errorf("%s -> %s: violation %v, want %v", row.from, row.to, got, row.bad)
		}
	}
}
