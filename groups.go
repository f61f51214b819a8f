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
	// From and Width say what the Counts of each group are of: at most CountSpans spans of time, as long as each other, from
	// the filter's Since, or else the first death in Groups, to its Until, or else now. Width is a round number of minutes,
	// hours or days, and From a multiple of it in UTC. Zero without groups.
	From  time.Time
	Width time.Duration
}

// CountSpans is the most spans of time that deaths of a group are counted in.
const CountSpans = 24
