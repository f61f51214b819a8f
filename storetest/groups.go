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
				Kind: l.Kind, ExceptionType: l.ExceptionType, Message: l.Message,
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
	} {
		listed := filter
		listed.OldestFirst = false
		page, err := f.store.Letters(f.ctx, listed, pawl.Page{Limit: 1000})
		f.ok("list letters", err)
		f.equal("groups by "+name, f.groups(filter, 0), grouped(page.Letters))
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
