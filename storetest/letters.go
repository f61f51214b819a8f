package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

func letterPromises() []promise {
	return []promise{
		{name: "listed newest first, by time and then id", check: lettersNewestFirst},
		{name: "pages are complete and stable, also with equal times", check: letterPages},
		{name: "pages stay stable while letters are added", check: letterPagesWhileGrowing},
		{name: "every field of the filter picks", check: letterFilters},
		{name: "fields of the filter are joined by and", check: filtersJoin},
		{name: "times of the filter are of the death, half open", check: filterTimes},
		{name: "text is looked for as it is", check: filterText},
		{name: "a page has 50 letters unless it says otherwise", check: pageSize},
	}
}

func letterIDs(letters []pawl.DeadLetter) []pawl.ID {
	var out []pawl.ID
	for _, letter := range letters {
		out = append(out, letter.ID)
	}
	return out
}

// newestFirst orders letters as they are listed.
func newestFirst(letters []pawl.DeadLetter) []pawl.ID {
	letters = slices.Clone(letters)
	slices.SortFunc(letters, func(a, b pawl.DeadLetter) int {
		if c := b.DeadAt.Compare(a.DeadAt); c != 0 {
			return c
		}
		return slices.Compare(b.ID[:], a.ID[:])
	})
	return letterIDs(letters)
}

// recorded stores letters and returns them as they were stored.
func (f *fixture) recorded(letters ...pawl.DeadLetter) []pawl.DeadLetter {
	f.Helper()
	f.record(letters...)
	var out []pawl.DeadLetter
	for _, letter := range letters {
		out = append(out, f.letter(letter.ID))
	}
	return out
}

// manyLetters die in three bursts an hour apart, with equal times inside each.
func (f *fixture) manyLetters(n int) []pawl.DeadLetter {
	f.Helper()
	var all []pawl.ID
	for range 3 {
		letters := make([]pawl.DeadLetter, n/3)
		for i := range letters {
			letters[i] = f.looseLetter()
			all = append(all, letters[i].ID)
		}
		f.record(letters...)
		f.pass(time.Hour)
	}
	var out []pawl.DeadLetter
	for _, id := range all {
		out = append(out, f.letter(id))
	}
	return out
}

// pages lists in pages of limit until there is no next one.
func (f *fixture) pages(filter pawl.LetterFilter, limit int, between func()) []pawl.ID {
	f.Helper()
	var out []pawl.ID
	page := pawl.Page{Limit: limit}
	for range 1000 {
		letters, err := f.store.Letters(f.ctx, filter, page)
		f.ok("list letters", err)
		f.holds("a page keeps to its limit", len(letters.Letters) <= limit)
		out = append(out, letterIDs(letters.Letters)...)
		if letters.Next == "" {
			return out
		}
		f.holds("a page that has a next one is full", len(letters.Letters) == limit)
		page.After = letters.Next
		between()
	}
	f.Fatal("pages without end")
	return nil
}

func lettersNewestFirst(f *fixture) {
	want := newestFirst(f.manyLetters(12))
	f.equal("newest first", letterIDs(f.letters(pawl.LetterFilter{})), want)
	slices.Reverse(want)
	f.equal("oldest first", letterIDs(f.letters(pawl.LetterFilter{OldestFirst: true})), want)
}

func letterPages(f *fixture) {
	want := newestFirst(f.manyLetters(24))
	reversed := slices.Clone(want)
	slices.Reverse(reversed)
	for _, limit := range []int{1, 5, 8, 24, 100} {
		f.equal(fmt.Sprint("newest first, pages of ", limit), f.pages(pawl.LetterFilter{}, limit, func() {}), want)
		f.equal(fmt.Sprint("oldest first, pages of ", limit), f.pages(pawl.LetterFilter{OldestFirst: true}, limit, func() {}), reversed)
	}
}

func letterPagesWhileGrowing(f *fixture) {
	want := newestFirst(f.manyLetters(12))
	got := f.pages(pawl.LetterFilter{}, 4, func() { f.record(f.looseLetter()) })
	f.equal("letters that were there when the list began", got, want)
}

func letterFilters(f *fixture) {
	batch := pawl.NewID()
	plain := f.looseLetter()
	special := f.looseLetter(func(l *pawl.DeadLetter) {
		l.Class, l.Reason, l.Kind, l.Queue, l.Connection = pawl.DeathPoison, pawl.ReasonCrashLoop, otherKind, critical, "reports"
		l.Fingerprint, l.CorrelationID, l.Tags = "1-abc", "req-7", []string{"x", "red"}
		l.ExceptionType, l.Message, l.Batch = "*smtp.Error", "mailbox full", batch
	})
	resolved := f.looseLetter()
	f.recorded(plain, special, resolved)
	f.move(pawl.Move{Letter: resolved.ID, Action: pawl.ActionResolve})
	for name, filter := range map[string]pawl.LetterFilter{
		"class":           {Class: []pawl.DeathClass{pawl.DeathPoison, pawl.DeathPermanent}},
		"reason":          {Reason: pawl.ReasonCrashLoop},
		"kind":            {Kind: otherKind},
		"queue":           {Queue: critical},
		"connection":      {Connection: "reports"},
		"fingerprint":     {Fingerprint: "1-abc"},
		"correlation id":  {CorrelationID: "req-7"},
		"tag":             {Tag: "red"},
		"job":             {JobID: special.JobID},
		"batch":           {Batch: batch},
		"job of a batch":  {JobID: special.JobID, Batch: batch},
		"group in batch":  {Batch: batch, Fingerprint: "1-abc", Status: []pawl.Status{pawl.StatusDead}, Kind: otherKind},
		"text of message": {Text: "box fu"},
		"text of type":    {Text: "smtp.Err"},
	} {
		f.picks(name, filter, special.ID)
	}
	f.picks("status", pawl.LetterFilter{Status: []pawl.Status{pawl.StatusResolved}}, resolved.ID)
	f.picks("class 0", pawl.LetterFilter{Class: []pawl.DeathClass{pawl.DeathExhausted}}, plain.ID, resolved.ID)
	f.picks("status 0", pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}, plain.ID, special.ID)
	f.picks("two statuses", pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead, pawl.StatusResolved}}, plain.ID, special.ID, resolved.ID)
	for name, filter := range map[string]pawl.LetterFilter{
		"kind":           {Kind: "storetest.other"},
		"queue":          {Queue: "1"},
		"correlation id": {CorrelationID: "req"},
		"tag":            {Tag: "re"},
		"two tags":       {Tag: `x","red`},
		"job":            {JobID: pawl.NewID()},
		"batch":          {Batch: pawl.NewID()},
		"job of batch":   {JobID: plain.JobID, Batch: batch},
		"group in batch": {Batch: batch, Fingerprint: "1-abd"},
		"status":         {Status: []pawl.Status{pawl.StatusDiscarded}},
	} {
		f.picks("no "+name, filter)
	}
}

// picks checks what a filter lists and counts.
func (f *fixture) picks(what string, filter pawl.LetterFilter, want ...pawl.ID) {
	f.Helper()
	f.equal("letters by "+what, sorted(letterIDs(f.letters(filter))), sorted(want))
	count, err := f.store.CountLetters(f.ctx, filter)
	f.ok("count letters", err)
	f.equal("count by "+what, count, len(want))
}

func filtersJoin(f *fixture) {
	both := f.looseLetter(func(l *pawl.DeadLetter) { l.Kind, l.Queue = otherKind, critical })
	one := f.looseLetter(func(l *pawl.DeadLetter) { l.Kind = otherKind })
	f.record(both, one)
	f.picks("kind and queue", pawl.LetterFilter{Kind: otherKind, Queue: critical}, both.ID)
	f.picks("kind and status", pawl.LetterFilter{Kind: otherKind, Status: []pawl.Status{pawl.StatusDead}}, both.ID, one.ID)
}

func filterTimes(f *fixture) {
	f.record(f.looseLetter())
	f.pass(time.Hour)
	middle := f.looseLetter()
	f.record(middle)
	f.pass(time.Hour)
	f.record(f.looseLetter())
	at := f.letter(middle.ID).DeadAt
	f.picks("since and until", pawl.LetterFilter{Since: at, Until: at.Add(time.Millisecond)}, middle.ID)
	f.picks("an empty span", pawl.LetterFilter{Since: at, Until: at})
	f.equal("since", len(f.letters(pawl.LetterFilter{Since: at})), 2)
	f.equal("until", len(f.letters(pawl.LetterFilter{Until: at})), 1)
}

func filterText(f *fixture) {
	message := func(text string) func(*pawl.DeadLetter) {
		return func(l *pawl.DeadLetter) { l.Message = text }
	}
	percent, under, quote := f.looseLetter(message("100% full")), f.looseLetter(message("a_b")), f.looseLetter(message(`it's "x" \ y`))
	f.record(percent, under, quote, f.looseLetter(message("100 full, axb")))
	f.picks("percent", pawl.LetterFilter{Text: "100%"}, percent.ID)
	f.picks("underscore", pawl.LetterFilter{Text: "a_b"}, under.ID)
	f.picks("quotes", pawl.LetterFilter{Text: `'s "x" \`}, quote.ID)
}

func pageSize(f *fixture) {
	letters := make([]pawl.DeadLetter, 60)
	for i := range letters {
		letters[i] = f.looseLetter()
	}
	f.record(letters...)
	page, err := f.store.Letters(f.ctx, pawl.LetterFilter{}, pawl.Page{})
	f.ok("list letters", err)
	f.equal("letters", len(page.Letters), 50)
	f.holds("there is a next page", page.Next != "")
	page, err = f.store.Letters(f.ctx, pawl.LetterFilter{}, pawl.Page{After: page.Next})
	f.ok("list letters", err)
	f.equal("letters", len(page.Letters), 10)
	_, err = f.store.Letters(f.ctx, pawl.LetterFilter{}, pawl.Page{After: "no such page"})
	f.fails("a page that never was", err, pawl.ErrInvalid)
}
