package pawl

import "time"

// LetterGroup is what a filter matches of the letters with one fingerprint: the same kind that failed in the same way.
type LetterGroup struct {
	Fingerprint string
	Letters     int
	FirstSeen   time.Time // of the deaths that were counted
	LastSeen    time.Time
	// Counts are the deaths over time: those in each span of LetterGroups.Width, the first of which begins at
	// LetterGroups.From. They add up to Letters.
	Counts []int
	// Of the newest letter, which stands for the others:
	Newest        ID
	Kind          string
	ExceptionType string
	Message       string
	// ResolvedAt is DeadLetter.GroupResolvedAt: not zero in a regression, a group that had been resolved and whose jobs
	// died again.
	ResolvedAt time.Time
}

// LetterGroups are the largest groups of what a filter matches, and what there is in all.
type LetterGroups struct {
	Groups  []LetterGroup // largest first; of the same size, the one that was seen last first
	All     int           // groups, those included that are not in Groups
	Letters int           // in all of them
	// From and Width say what the Counts of each group are of: at most CountSpans spans of time, each as long as the others,
	// from the filter's Since, or else the first death that it matches, to its Until, or else now. Width is the least that does,
	// of 1, 5 and 15 minutes, 1, 3, 6 and 12 hours, 1, 7, 28 and 364 days, and longer ones; From is a multiple of it since
	// 1970 in UTC. Zero without groups.
	From  time.Time
	Width time.Duration
}

// CountSpans is the most spans of time that deaths of a group are counted in.
const CountSpans = 32
