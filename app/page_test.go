package app

import (
	"fmt"
	"os"
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
