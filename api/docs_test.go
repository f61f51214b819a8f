package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page that people read names every route, its role and what it does, in the words of the description.
func TestRoutesAreInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range setup(t).description().Paths {
		for method, op := range methods {
			_, role, _ := strings.Cut(op.Description, "Role: ")
			row := fmt.Sprintf("| `%s %s` | %s | %s |", strings.ToUpper(method), path, strings.TrimSuffix(role, "."), op.Summary)
			if !strings.Contains(string(page), row+"\n") {
				t.Errorf("docs/api.md lacks:\n%s", row)
			}
		}
	}
}
