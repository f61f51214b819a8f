package desktest

import (
	"cmp"
	"encoding/base64"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
)

// Every letter that is there from the first page to the last is listed once, whatever comes and goes meanwhile.
func cursorsHold(t *testing.T, open Opener) {
	for _, filter := range []pawl.LetterFilter{
		{}, {OldestFirst: true}, {Status: []pawl.Status{pawl.StatusDead}}, {Fingerprint: "1-abc", OldestFirst: true}, {Kind: "mail.v1"},
	} {
		d := open(t)
		staying, going := Letters(60), Letters(20)
		for i := range going { // among the others
			d.Record(staying[3*i], going[i], staying[3*i+1], staying[3*i+2])
		}
		got := d.walk(filter, 7, func(page int) {
			d.Record(Letters(3)...)
			_, err := d.ForgetLetter(d.Context(), going[page%len(going)].ID, Ada())
			d.OK("forget", err)
			errs, err := d.MoveLetters(d.Context(), []pawl.Move{{Letter: going[(page+10)%len(going)].ID, Action: pawl.ActionResolve, By: Ada()}})
			d.OK("resolve", err)
			_ = errs // it may have gone
		})
		seen := map[pawl.ID]int{}
		for _, id := range got {
			seen[id]++
			if seen[id] > 1 {
				t.Errorf("%+v: letter %s is listed twice", filter, id)
			}
		}
		for _, l := range staying {
			if seen[l.ID] == 0 {
				t.Errorf("%+v: letter %s is missing", filter, l.ID)
			}
		}
	}
}

func malformedCursors(t *testing.T, open Opener) {
	d := open(t)
	d.Record(Letters(3)...)
	d.enqueue(d.jobs(3)...)
	found, err := d.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{Limit: 1})
	d.OK("list letters", err)
	jobs, err := d.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{Limit: 1})
	d.OK("list jobs", err)
	raw, err := base64.RawURLEncoding.DecodeString(found.Next)
	d.OK("decode cursor", err)

	bad := []string{
		"x", "no such page", "AAAA", found.Next + "A", found.Next[1:], found.Next + "=", " " + found.Next, strings.ToUpper(found.Next),
		jobs.Next, strings.Repeat("A", 1<<16), "' or 1=1 --", "\x00", "\xff",
	}
	for i := range raw {
		flipped := slices.Clone(raw)
		flipped[i] ^= 1
		bad = append(bad, base64.RawURLEncoding.EncodeToString(flipped))
	}
	for _, after := range bad {
		_, err := d.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{After: after})
		d.Invalid("letters after "+after, err, "page")
		if after != jobs.Next {
			_, err = d.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{After: after})
			d.Invalid("jobs after "+after, err, "page")
		}
		_, err = d.Audit(t.Context(), pawl.AuditFilter{}, pawl.Page{After: after})
		d.Invalid("audit after "+after, err, "page")
	}
	for _, limit := range []int{-1, 1001, 1 << 40} {
		_, err := d.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{Limit: limit})
		d.Invalid("limit", err, "limit")
	}
}

// Text of a filter is only ever compared: it is no SQL, no pattern and no JSON.
func filtersAreData(t *testing.T, open Opener) {
	d := open(t)
	odd := []string{`'; drop table pawl_letter; --`, `" or ""="`, `%`, `_`, `\`, `\%`, `["a"]`, `a","b`, `,`, `]`, "\u2028", `é`, `<&>`, `"`, "\t\n", `?1`}
	for _, text := range odd {
		d.Record(Letter(func(l *pawl.DeadLetter) {
			l.Kind, l.Queue, l.Connection, l.Fingerprint, l.CorrelationID = text, text, text, text, text
			l.Message, l.ExceptionType, l.Reason, l.Tags = text, text, pawl.Reason(text), []string{"first", text, "last"}
		}))
	}
	for _, text := range odd {
		for name, filter := range map[string]pawl.LetterFilter{
			"kind": {Kind: text}, "queue": {Queue: text}, "connection": {Connection: text}, "fingerprint": {Fingerprint: text},
			"correlation id": {CorrelationID: text}, "reason": {Reason: pawl.Reason(text)}, "tag": {Tag: text},
		} {
			n, err := d.CountLetters(t.Context(), filter)
			d.OK("count", err)
			d.Equal("letters by "+name+" "+text, n, 1)
		}
		want := 0
		for _, other := range odd {
			if strings.Contains(other, text) {
				want++
			}
		}
		n, err := d.CountLetters(t.Context(), pawl.LetterFilter{Text: text})
		d.OK("count", err)
		d.Equal("letters by text "+text, n, want)
		jobs, err := d.Jobs(t.Context(), pawl.JobFilter{Kind: text, Queue: text}, pawl.Page{})
		d.OK("list jobs", err)
		d.Equal("jobs", len(jobs.Jobs), 0)
	}
}

// Text is found as it is, but for the case of ASCII letters.
func textIsFound(t *testing.T, open Opener) {
	d := open(t)
	lower := func(text string) string {
		return strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, text)
	}
	alphabet := rapid.StringOfN(rapid.RuneFrom([]rune(`aAbB%_\"'éÉ .`)), 0, 6, -1)
	rapid.Check(t, func(r *rapid.T) {
		message, text := alphabet.Draw(r, "message"), alphabet.Draw(r, "text")
		one := Letter(func(l *pawl.DeadLetter) { l.Message, l.ExceptionType = message, "" })
		d.Record(one)
		n, err := d.CountLetters(t.Context(), pawl.LetterFilter{JobID: one.JobID, Text: text})
		if err != nil {
			r.Fatal(err)
		}
		if want := strings.Contains(lower(message), lower(text)); (n == 1) != want {
			r.Fatalf("text %q found in %q: %v, want %v", text, message, n == 1, want)
		}
	})
}

func filtersAreChecked(t *testing.T, open Opener) {
	d := open(t)
	d.Record(Letter())
	for _, text := range []string{"nul \x00", "not UTF-8 \xff", strings.Repeat("x", 1001)} {
		for field, filter := range map[string]pawl.LetterFilter{
			"kind": {Kind: text}, "queue": {Queue: text}, "connection": {Connection: text}, "fingerprint": {Fingerprint: text},
			"correlation id": {CorrelationID: text}, "reason": {Reason: pawl.Reason(text)}, "tag": {Tag: text}, "text": {Text: text},
		} {
			_, err := d.Letters(t.Context(), filter, pawl.Page{})
			d.Invalid("list by "+field, err, field)
			_, err = d.CountLetters(t.Context(), filter)
			d.Invalid("count by "+field, err, field)
		}
		_, err := d.Jobs(t.Context(), pawl.JobFilter{Kind: text}, pawl.Page{})
		d.Invalid("jobs by kind", err, "kind")
		_, err = d.Jobs(t.Context(), pawl.JobFilter{Queue: text}, pawl.Page{})
		d.Invalid("jobs by queue", err, "queue")
		_, err = d.Audit(t.Context(), pawl.AuditFilter{Subject: text}, pawl.Page{})
		d.Invalid("audit by subject", err, "subject")
	}
	_, err := d.CountLetters(t.Context(), pawl.LetterFilter{Status: []pawl.Status{0, 4}})
	d.Invalid("status", err, "status")
	_, err = d.CountLetters(t.Context(), pawl.LetterFilter{Status: []pawl.Status{200}})
	d.Invalid("status", err, "status")
	_, err = d.CountLetters(t.Context(), pawl.LetterFilter{Class: []pawl.DeathClass{3}})
	d.Invalid("class", err, "class")
	_, err = d.Jobs(t.Context(), pawl.JobFilter{State: "running"}, pawl.Page{})
	d.Invalid("state", err, "state")
}

// Times are kept in milliseconds; bounds between two of them do not let in what lies before.
func finerTimes(t *testing.T, open Opener) {
	d := open(t)
	one := Letter()
	d.Record(one)
	stored, err := d.Letter(t.Context(), one.ID)
	d.OK("letter", err)
	at := stored.DeadAt
	for _, c := range []struct {
		since, until time.Time
		want         int
	}{
		{at, time.Time{}, 1},
		{at.Add(time.Nanosecond), time.Time{}, 0},
		{at.Add(-time.Nanosecond), time.Time{}, 1},
		{time.Time{}, at, 0},
		{time.Time{}, at.Add(time.Nanosecond), 1},
		{at, at.Add(time.Millisecond), 1},
		{at.Add(time.Hour), at, 0},
	} {
		n, err := d.CountLetters(t.Context(), pawl.LetterFilter{Since: c.since, Until: c.until})
		d.OK("count", err)
		d.Equal("letters since "+c.since.String()+" until "+c.until.String(), n, c.want)
	}
}

// 20,000 deaths are listed once each, in order and counted, and what a page takes does not grow with what died.
func manyDeaths(t *testing.T, open Opener) {
	d := open(t)
	const first = 500
	n := cmp.Or(d.Many, 20_000)
	all := Letters(first)
	for i := range all {
		all[i].Kind = []string{"mail.v1", "post.v1"}[i%2]
		all[i].Tags = []string{"even", "odd"}[i%2 : i%2+1]
		if i == 17 {
			all[i].Message, all[i].Kind = "the needle", "rare.v1"
		}
	}
	d.Record(all...)
	d.Tables.Multiply(d, n/first, time.Second)
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		want   int
	}{
		"all": {pawl.LetterFilter{}, n}, "oldest first": {pawl.LetterFilter{OldestFirst: true}, n},
		"kind": {pawl.LetterFilter{Kind: "mail.v1"}, n / 2}, "tag": {pawl.LetterFilter{Tag: "odd", OldestFirst: true}, n / 2},
		"rare text":           {pawl.LetterFilter{Text: "NEEDLE", Status: []pawl.Status{0}}, n / first},
		"text":                {pawl.LetterFilter{Text: "No Answer", OldestFirst: true}, n - n/first},
		"text of a kind":      {pawl.LetterFilter{Text: "answer", Kind: "post.v1"}, n/2 - n/first},
		"kind of a group":     {pawl.LetterFilter{Fingerprint: "1-abc", Kind: "mail.v1"}, n / 2},
		"rare kind":           {pawl.LetterFilter{Kind: "rare.v1", OldestFirst: true}, n / first},
		"nothing":             {pawl.LetterFilter{Kind: "no.v1"}, 0},
		"group with a status": {pawl.LetterFilter{Fingerprint: "1-abc", Status: []pawl.Status{0, 1}}, n},
	} {
		count, err := d.CountLetters(t.Context(), c.filter)
		d.OK("count", err)
		d.Equal("count of "+name, count, c.want)
		groups, err := d.LetterGroups(t.Context(), c.filter, 0)
		d.OK("groups", err)
		d.Equal("letters in groups of "+name, groups.Letters, c.want)
		got := d.walk(c.filter, 1000, func(int) {})
		d.Equal("number listed of "+name, len(got), c.want)
		slices.SortFunc(got, func(a, b pawl.ID) int { return slices.Compare(a[:], b[:]) })
		d.Equal("distinct of "+name, len(slices.Compact(got)), c.want)
	}
}

func pagesStaySmall(t *testing.T, open Opener) {
	// Not parallel: it measures what is allocated.
	d := open(t)
	heavy := func(l *pawl.DeadLetter) {
		l.Detail, l.Envelope = strings.Repeat("x", 64<<10), make([]byte, 128<<10)
		l.History = slices.Repeat([]pawl.AttemptRecord{{Message: strings.Repeat("y", 4000)}}, 20)
	}
	const n = 100
	d.Record(Letters(n, heavy)...)
	var page pawl.LetterPage
	least := uint64(math.MaxUint64) // others in this process allocate too
	for range 5 {
		var before, after runtime.MemStats
		var err error
		runtime.ReadMemStats(&before)
		page, err = d.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{Limit: n})
		runtime.ReadMemStats(&after)
		d.OK("list", err)
		d.Equal("letters", len(page.Letters), n)
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/n)
	}
	if least > 32<<10 { // an eighth of what one has; over the network it is encoded and decoded as well
		t.Errorf("a listed letter takes %d bytes", least)
	}
	whole, err := d.Letter(t.Context(), page.Letters[0].ID)
	d.OK("letter", err)
	if len(whole.Detail) != 64<<10 || len(whole.Envelope) != 128<<10 || len(whole.History) != 20 {
		t.Errorf("the whole letter has %d bytes of detail, %d of envelope, %d attempts", len(whole.Detail), len(whole.Envelope), len(whole.History))
	}
}
