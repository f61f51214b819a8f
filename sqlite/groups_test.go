package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/desktest"
)

// However few letters are looked at in one step of a grouping, the groups are the same.
func TestGroupsInStretches(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	letters := desktest.Letters(100)
	for i := range letters {
		letters[i].Fingerprint = fmt.Sprintf("1-%d \n", i%7) // what is between letters may be in its text
		letters[i].Kind = []string{"a", "b"}[i%2]
		letters[i].JobID = letters[0].JobID
	}
	if _, err := s.RecordDeaths(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	for name, filter := range map[string]pawl.LetterFilter{
		"all": {}, "status": {Status: []pawl.Status{pawl.StatusDead}}, "kind": {Kind: "b"}, "group": {Fingerprint: "1-3 \n"},
		"group since": {Fingerprint: "1-3 \n", Since: time.UnixMilli(1), Until: time.Now().Add(time.Hour), Kind: "b"},
		"job":         {JobID: letters[0].JobID}, "none": {Kind: "c"}, "text": {Text: "ANSWER", Kind: "a"},
	} {
		q, err := newLetterQuery(filter)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		var want pawl.LetterGroups
		for _, stretch := range []int{1000, 1, 9, 100, 99} {
			tally := desk.NewTally(filter, at)
			err := s.view(t.Context(), func(x execer) error {
				if filter.Text != "" && stretch < 1000 { // as if there were many
					return q.tallyTable(t.Context(), x, tally, stretch)
				}
				return q.tally(t.Context(), x, tally, stretch)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := tally.Groups(1000)
			if stretch == 1000 {
				if want = got; (want.Letters == 0) != (name == "none") {
					t.Errorf("%s: %d letters", name, want.Letters)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %d letters at a time (-all +got):\n%s", name, stretch, diff)
			}
		}
	}
}
