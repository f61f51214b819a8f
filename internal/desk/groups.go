package desk

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

// CheckGroup refuses what no fingerprint can begin with.
func CheckGroup(prefix string) error {
	if prefix == "" {
		return &pawl.FieldError{Field: "group", Value: prefix, Rule: "must not be empty"}
	}
	return storable.Check("group", prefix, maxFilter)
}

// OneGroup decides which group a text means, by the fingerprints that follow it in order: the first that is not before
// it, and the one behind that.
func OneGroup(prefix string, following []string) (string, error) {
	var found []string
	for _, fingerprint := range following {
		if strings.HasPrefix(fingerprint, prefix) {
			found = append(found, fingerprint)
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("no letter has a group %q: %w", prefix, pawl.ErrNotFound)
	case len(found) > 1 && found[0] != prefix:
		return "", &pawl.FieldError{Field: "group", Value: prefix, Rule: fmt.Sprintf("must begin one group only: %s and %s do", found[0], found[1])}
	}
	return found[0], nil
}
