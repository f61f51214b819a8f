package pawltest_test

import (
	"fmt"
	"testing"
)

// run runs the test of an example, as go test would.
func run(test func(t *testing.T)) {
	ok := testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Test", F: test}})
	if ok {
		fmt.Println("passed")
	}
}
