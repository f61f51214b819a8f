package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// The table of acts has every Action of the root package, and what it leaves to another case is one.
func TestTableOfActsIsWhole(t *testing.T) {
	t.Parallel()
	in := map[pawl.Action]bool{}
	cases := map[string]bool{}
	for _, g := range groups() {
		for _, p := range g.promises {
			cases[g.name+"/"+p.name] = true
		}
	}
	for _, a := range acts() {
		in[a.action] = true
		if (a.lacking == nil) == (a.elsewhere == "") {
			t.Errorf("%s: either lacking or elsewhere has to say what becomes of it", a.name("not there"))
		}
		if a.elsewhere != "" && !cases[a.elsewhere] {
			t.Errorf("%s: there is no case %q", a.name("not there"), a.elsewhere)
		}
	}
	all := actions(t)
	if len(all) < 25 {
		t.Errorf("only %d actions were found: does the check still see them?", len(all))
	}
	bySweeps := map[pawl.Action]string{pawl.ActionRetire: "Alerts/a sink that no host has had for a week is retired"} // no operator's
	for action, elsewhere := range bySweeps {
		if !cases[elsewhere] {
			t.Errorf("%s: there is no case %q", action, elsewhere)
		}
	}
	for name, action := range all {
		if !in[action] && bySweeps[action] == "" {
			t.Errorf("pawl.%s is not in the table", name)
		}
	}
}

// actions reads the constants of type Action in the root package.
func actions(t *testing.T) map[string]pawl.Action {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]pawl.Action{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			kind, named := spec.Type.(*ast.Ident)
			literal, written := spec.Values[0].(*ast.BasicLit)
			if !named || kind.Name != "Action" || !written {
				return true
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = pawl.Action(value)
			return true
		})
	}
	return found
}
