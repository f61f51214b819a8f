package desk

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// widths are the spans of time that deaths are counted in, in milliseconds. Each is a multiple of the one before, so that
// counts in one add up to counts in the next.
var widths = func() []int64 {
	const minute, day = int64(time.Minute / time.Millisecond), 24 * int64(time.Hour/time.Millisecond)
	return []int64{
		minute, 5 * minute, 15 * minute, 60 * minute, 180 * minute, 360 * minute, 720 * minute,
		day, 7 * day, 28 * day, 364 * day, 3640 * day, 36400 * day, 364000 * day,
	}
}()

// Tally groups deaths by their fingerprints as they are read. What it holds is bounded by the groups, not by the deaths: the
// spans that it counts in grow with the time from the first death to the last.
type Tally struct {
	from, to int64 // milliseconds; first what the filter says, then the deaths too
	width    int   // of widths
	letters  int
	groups   map[string]*tallied
}

// tallied is a group so far. A span's count is at its number modulo pawl.CountSpans: no more lie between from and to.
type tallied struct {
	letters     int
	first, last int64
	counts      [pawl.CountSpans]int
}

// NewTally begins to count what a filter matches at now.
func NewTally(filter pawl.LetterFilter, now time.Time) *Tally {
	t := &Tally{from: math.MaxInt64, to: now.UnixMilli(), groups: map[string]*tallied{}}
	if !filter.Until.IsZero() {
		t.to = min(t.to, filter.Until.UnixMilli()-1)
	}
	if !filter.Since.IsZero() {
		t.from = min(filter.Since.UnixMilli(), t.to)
		t.widen()
	}
	return t
}

// Add counts deaths of a group: so many, all within the minute of at, which is in Unix milliseconds.
func (t *Tally) Add(fingerprint []byte, at int64, deaths int) {
	if at < t.from || at > t.to {
		t.from, t.to = min(t.from, at), max(t.to, at)
		t.widen()
	}
	g := t.groups[string(fingerprint)]
	if g == nil {
		g = &tallied{first: at, last: at}
		t.groups[string(fingerprint)] = g
	}
	g.letters += deaths
	g.first, g.last = min(g.first, at), max(g.last, at)
	g.counts[slot(floor(at, widths[t.width]))] += deaths
	t.letters += deaths
}

// Seen notes a death that Add has counted as another of its minute.
func (t *Tally) Seen(fingerprint []byte, at int64) {
	t.groups[string(fingerprint)].last = at
}

// widen takes the first width of which few enough lie between from and to.
func (t *Tally) widen() {
	before := t.width
	for t.width < len(widths)-1 && floor(t.to, widths[t.width])-floor(t.from, widths[t.width]) >= pawl.CountSpans {
		t.width++
	}
	if t.width == before {
		return
	}
	for _, g := range t.groups {
		counts := g.counts
		g.counts = [pawl.CountSpans]int{}
		for n := floor(g.first, widths[before]); n <= floor(g.last, widths[before]); n++ {
			g.counts[slot(floor(n*widths[before], widths[t.width]))] += counts[slot(n)]
		}
	}
}

func floor(at, width int64) int64 {
	n := at / width
	if at%width < 0 {
		n--
	}
	return n
}

func slot(n int64) int64 { return (n%pawl.CountSpans + pawl.CountSpans) % pawl.CountSpans }

// Groups are the largest, at most limit, without their newest letters.
func (t *Tally) Groups(limit int) pawl.LetterGroups {
	out := pawl.LetterGroups{All: len(t.groups), Letters: t.letters}
	if len(t.groups) == 0 {
		return out
	}
	width := widths[t.width]
	first, spans := floor(t.from, width), floor(t.to, width)-floor(t.from, width)+1
	out.From, out.Width = time.UnixMilli(first*width).UTC(), time.Duration(width)*time.Millisecond
	for fingerprint, g := range t.groups {
		out.Groups = append(out.Groups, pawl.LetterGroup{
			Fingerprint: fingerprint, Letters: g.letters, FirstSeen: time.UnixMilli(g.first).UTC(), LastSeen: time.UnixMilli(g.last).UTC(),
		})
	}
	slices.SortFunc(out.Groups, func(a, b pawl.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	out.Groups = out.Groups[:min(limit, len(out.Groups))]
	for i := range out.Groups {
		g := t.groups[out.Groups[i].Fingerprint]
		out.Groups[i].Counts = make([]int, spans)
		for n := range spans {
			out.Groups[i].Counts[n] = g.counts[slot(first+n)]
		}
	}
	return out
}
