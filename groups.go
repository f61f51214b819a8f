package pawl

import "time"

// LetterGroup is what a filter matches of the letters with one fingerprint: the same kind that failed in the same way.
type LetterGroup struct {
	Fingerprint string
	Letters     int
	FirstSeen   time.Time // of the deaths that were counted
	LastSeen    time.Time
	// Of the newest letter, which stands for the others:
	Newest        ID
	Kind          string
	ExceptionType string
	Message       string
}

// LetterGroups are the largest groups of what a filter matches, and what there is in all.
type LetterGroups struct {
	Groups  []LetterGroup // largest first; of the same size, the one that was seen last first
	All     int           // groups, those included that are not in Groups
	Letters int           // in all of them
}
