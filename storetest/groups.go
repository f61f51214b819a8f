package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Letters that are alike are one group.
func letterGroupPromises() []promise {
	return []promise{
		{name: "no letters are no groups", check: groupsOfNone},
		{name: "groups are what listing the letters would give, by every filter", check: groupsByFilter},
		{name: "the largest come first, and the others are counted", check: groupsLimited},
		{name: "a closed letter leaves the group of open failures", check: groupsFollowMoves},
		{name: "a group is found by what it begins with, where that is one", check: groupFound},
		{name: "a group that was resolved and died again is a regression, until it is resolved again", check: groupRelapses},
		{name: "a letter that is closed says since when", check: statusSince},
	}
}

func (f *fixture) groups(filter pawl.LetterFilter, limit int) pawl.LetterGroups {
	f.Helper()
	groups, err := f.store.LetterGroups(f.ctx, filter, limit)
	f.ok("group letters", err)
	return groups
}

// grouped is what grouping a list of letters, newest first, gives.
func grouped(letters []pawl.DeadLetter) (out pawl.LetterGroups) {
	index := map[string]int{}
	for _, l := range letters {
		i, there := index[l.Fingerprint]
		if !there {
			i = len(out.Groups)
			index[l.Fingerprint] = i
			out.Groups = append(out.Groups, pawl.LetterGroup{
				Fingerprint: l.Fingerprint, LastSeen: l.DeadAt, Newest: l.ID,
				Kind: l.Kind, ExceptionType: l.ExceptionType, Message: l.Message, ResolvedAt: l.GroupResolvedAt,
			})
		}
		out.Groups[i].Letters++
		out.Groups[i].FirstSeen = l.DeadAt
	}
	slices.SortFunc(out.Groups, func(a, b pawl.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	out.All, out.Letters = len(out.Groups), len(letters)
	return out
}

// counted are groups with the deaths over time, in the spans that got says, which must fit the filter.
func (f *fixture) counted(what string, out pawl.LetterGroups, got pawl.LetterGroups, filter pawl.LetterFilter, letters []pawl.DeadLetter) pawl.LetterGroups {
	f.Helper()
	if len(out.Groups) == 0 {
		return out
	}
	from := filter.Since
	if from.IsZero() {
		from = letters[len(letters)-1].DeadAt
	}
	if got.Width < time.Minute || got.From.After(from) || from.Sub(got.From) >= got.Width || got.From.UnixMilli()%got.Width.Milliseconds() != 0 {
		f.Errorf("%s: counts of %s begin at %s, not at %s", what, got.Width, got.From, from)
		return out
	}
	out.From, out.Width = got.From, got.Width
	spans := len(got.Groups[0].Counts)
	if to := filter.Until; spans > pawl.CountSpans || !to.IsZero() && spans != int(to.Add(-time.Millisecond).Sub(out.From)/out.Width)+1 {
		f.Errorf("%s: %d counts of %s from %s", what, spans, out.Width, out.From)
	}
	for i, g := range out.Groups {
		out.Groups[i].Counts = make([]int, spans)
		for _, l := range letters {
			if l.Fingerprint == g.Fingerprint {
				out.Groups[i].Counts[l.DeadAt.Sub(out.From)/out.Width]++
			}
		}
	}
	return out
}

func groupsOfNone(f *fixture) {
	f.equal("groups", f.groups(pawl.LetterFilter{}, 0), pawl.LetterGroups{})
	f.record(f.looseLetter())
	f.equal("groups", f.groups(pawl.LetterFilter{Kind: "nobody"}, 0), pawl.LetterGroups{})
}

func groupsByFilter(f *fixture) {
	var some pawl.DeadLetter
	for burst := range 3 {
		var letters []pawl.DeadLetter
		for i := range 24 {
			letters = append(letters, f.looseLetter(func(l *pawl.DeadLetter) {
				l.Fingerprint = fmt.Sprint("1-", i%(2+burst*2))
				l.Message = fmt.Sprint("message ", burst, " of ", i)
				l.Class = pawl.DeathClass(i % 3)
				l.Kind = []string{workKind, otherKind}[i%2]
				l.Queue = []string{critical, normal, bulk}[i%3]
				l.Tags = []string{fmt.Sprint("tag-", i%4)}
				l.CorrelationID = fmt.Sprint("request-", i%5)
			}))
		}
		f.record(letters...)
		f.move(pawl.Move{Letter: letters[5].ID, Action: pawl.ActionResolve})
		f.pass(time.Hour)
		some = letters[7]
	}
	some = f.letter(some.ID)
	dead := []pawl.Status{pawl.StatusDead}
	for name, filter := range map[string]pawl.LetterFilter{
		"everything":         {},
		"status":             {Status: dead},
		"statuses":           {Status: []pawl.Status{pawl.StatusDead, pawl.StatusResolved}},
		"since":              {Since: some.DeadAt},
		"until":              {Until: some.DeadAt, Status: dead},
		"group":              {Fingerprint: "1-1"},
		"group and status":   {Fingerprint: "1-1", Status: dead},
		"group and class":    {Fingerprint: "1-1", Class: []pawl.DeathClass{pawl.DeathPoison}},
		"kind":               {Kind: otherKind, Status: dead},
		"queue and time":     {Queue: bulk, Since: some.DeadAt.Add(-time.Minute)},
		"tag":                {Tag: "tag-2"},
		"text":               {Text: "of 7"},
		"correlation":        {CorrelationID: "request-3", OldestFirst: true},
		"job":                {JobID: some.JobID},
		"job of another one": {JobID: some.JobID, Fingerprint: "1-none"},
		"class":              {Class: []pawl.DeathClass{pawl.DeathPermanent, pawl.DeathPoison}},
		"regressions":        {Regression: true, Status: dead},
		"age of the status":  {StatusBefore: some.DeadAt.Add(time.Second), Status: []pawl.Status{pawl.StatusDead, pawl.StatusResolved}},
	} {
		listed := filter
		listed.OldestFirst = false
		page, err := f.store.Letters(f.ctx, listed, pawl.Page{Limit: 1000})
		f.ok("list letters", err)
		got := f.groups(filter, 0)
		f.equal("groups by "+name, got, f.counted(name, grouped(page.Letters), got, filter, page.Letters))
	}
}

func groupsLimited(f *fixture) {
	for i, size := range []int{2, 5, 1, 3} {
		for range size {
			f.record(f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = fmt.Sprint("1-", i) }))
		}
	}
	got := f.groups(pawl.LetterFilter{}, 2)
	var names []string
	for _, g := range got.Groups {
		names = append(names, g.Fingerprint)
	}
	f.equal("the largest", names, []string{"1-1", "1-3"})
	f.equal("groups in all", got.All, 4)
	f.equal("letters in all", got.Letters, 11)
	for _, limit := range []int{-1, 1001} {
		_, err := f.store.LetterGroups(f.ctx, pawl.LetterFilter{}, limit)
		f.fails(fmt.Sprint("limit ", limit), err, pawl.ErrInvalid)
	}
	_, err := f.store.LetterGroups(f.ctx, pawl.LetterFilter{Status: []pawl.Status{9}}, 0)
	f.fails("no such status", err, pawl.ErrInvalid)
}

func groupsFollowMoves(f *fixture) {
	letters := []pawl.DeadLetter{f.looseLetter(), f.looseLetter()}
	f.record(letters...)
	open := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
	f.equal("before", f.groups(open, 0).Letters, 2)
	f.move(pawl.Move{Letter: letters[0].ID, Action: pawl.ActionResolve})
	after := f.groups(open, 0)
	f.equal("after", after.Letters, 1)
	f.equal("the newest that is open", after.Groups[0].Newest, letters[1].ID)
}

func groupFound(f *fixture) {
	for _, name := range []string{"1-aab1", "1-aab12", "1-aac", "2-a%b"} {
		f.record(f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = name }), f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = name }))
	}
	for prefix, want := range map[string]string{
		"1-aac": "1-aac", "1-aab12": "1-aab12", "1-aab1": "1-aab1", "2": "2-a%b", "2-a%": "2-a%b",
	} {
		got, err := f.store.FindGroup(f.ctx, prefix)
		f.ok("find "+prefix, err)
		f.equal("found by "+prefix, got, want)
	}
	for prefix, want := range map[string]error{
		"1-aab": pawl.ErrInvalid, "1-": pawl.ErrInvalid, "": pawl.ErrInvalid, "a\x00": pawl.ErrInvalid,
		"1-ab": pawl.ErrNotFound, "3": pawl.ErrNotFound, "0": pawl.ErrNotFound, "2-a_": pawl.ErrNotFound, "1-aac1": pawl.ErrNotFound,
	} {
		_, err := f.store.FindGroup(f.ctx, prefix)
		f.fails("find "+prefix, err, want)
	}
}

// The first death after the resolve opens the group again, and those behind it belong to that.
func groupRelapses(f *fixture) {
	same := func(l *pawl.DeadLetter) { l.Fingerprint = "1-same" }
	other := func(l *pawl.DeadLetter) { l.Fingerprint = "1-other" }
	die := func(what string, change func(*pawl.DeadLetter)) pawl.DeadLetter {
		f.pass(time.Hour)
		l := f.looseLetter(change)
		f.record(l)
		return f.letter(l.ID)
	}
	close := func(l pawl.DeadLetter, action pawl.Action) pawl.DeadLetter {
		f.pass(time.Minute)
		f.move(pawl.Move{Letter: l.ID, Action: action})
		return f.letter(l.ID)
	}
	regressions := func() (ids []pawl.ID) {
		page, err := f.store.Letters(f.ctx, pawl.LetterFilter{Regression: true, OldestFirst: true}, pawl.Page{})
		f.ok("list regressions", err)
		for _, l := range page.Letters {
			ids = append(ids, l.ID)
		}
		return ids
	}
	first, beside := die("first", same), die("beside", other)
	f.equal("a first death", first.GroupResolvedAt, time.Time{})
	f.equal("regressions", regressions(), []pawl.ID(nil))
	close(first, pawl.ActionDiscard)
	second := die("after a discard", same)
	f.equal("a death after a discard", second.GroupResolvedAt, time.Time{})
	close(second, pawl.ActionResolve)
	third := die("after the resolve", same)
	fourth := die("behind it", same)
	second = f.letter(second.ID)
	resolved := second.StatusAt
	for what, l := range map[string]pawl.DeadLetter{"the first after the resolve": f.letter(third.ID), "the next": fourth} {
		f.equal(what, l.GroupResolvedAt, resolved)
	}
	f.equal("regressions", regressions(), []pawl.ID{third.ID, fourth.ID})
	open := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
	for _, g := range f.groups(open, 0).Groups {
		f.equal("resolved before: "+g.Fingerprint, g.ResolvedAt, map[string]time.Time{"1-same": resolved}[g.Fingerprint])
	}
	open.Regression = true
	f.equal("groups that are regressions", f.groups(open, 0).Letters, 2)

	third, fourth = close(third, pawl.ActionResolve), close(fourth, pawl.ActionResolve)
	fifth := die("after both", same)
	fourth = f.letter(fourth.ID)
	f.equal("a death after the next resolve", fifth.GroupResolvedAt, fourth.StatusAt)
	_, err := f.store.ForgetLetter(f.ctx, beside.ID, operator("test"))
	f.ok("forget", err)
	f.equal("a death after all others were forgotten", die("again", other).GroupResolvedAt, time.Time{})
}

// The status of a letter has an age of its own: of an open failure it is the letter's.
func statusSince(f *fixture) {
	one, two := f.looseLetter(), f.looseLetter()
	f.record(one, two)
	before := func(age time.Duration) int {
		now := f.letter(two.ID).DeadAt // moves with the time
		n, err := f.store.CountLetters(f.ctx, pawl.LetterFilter{StatusBefore: now.Add(age)})
		f.ok("count", err)
		return n
	}
	stored := f.letter(one.ID)
	f.equal("of an open failure", stored.StatusAt, stored.DeadAt)
	f.pass(time.Hour)
	f.move(pawl.Move{Letter: one.ID, Action: pawl.ActionResolve})
	resolved := f.letter(one.ID)
	if since := resolved.StatusAt.Sub(resolved.DeadAt); since < time.Hour || since > 2*time.Hour {
		f.Errorf("resolved %s after it died, want an hour", since)
	}
	f.move(pawl.Move{Letter: one.ID, Action: pawl.ActionNote, Note: "of no matter"})
	f.equal("after a note", f.letter(one.ID).StatusAt, resolved.StatusAt)
	f.equal("in their status since before they died", before(0), 0)
	f.equal("in their status since an hour or so", before(time.Minute), 1)
	f.equal("in their status since they were looked at", before(3*time.Hour), 2)
}
