package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/pawljobs/pawl"
)

// An action that audit list does not know could not be asked for.
func TestAuditListKnowsEveryAction(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			kind, is := spec.Type.(*ast.Ident)
			value, literal := spec.Values[0].(*ast.BasicLit)
			if !is || !literal || kind.Name != "Action" {
				return true
			}
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			if found++; !slices.Contains(auditActions, pawl.Action(text)) {
				t.Errorf("audit list does not know the action %q", text)
			}
			return true
		})
	}
	if found < 20 {
		t.Fatalf("only %d actions were found", found)
	}
}
