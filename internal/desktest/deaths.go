package desktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Whatever killed the job, its death is recorded, in text that can be stored, searched and shown.
func oddEvidence(t *testing.T, open Opener) {
	d := open(t)
	junk := "nul \x00, not UTF-8 \xff\xfe, é, \U0001F600, "
	long := junk + strings.Repeat("é\U0001F600", 1<<14) // more than any text may have; a hundred attempts have it four times each
	tags := make([]string, 1000)
	for i := range tags {
		tags[i] = fmt.Sprintf("tag %d \x00\xff", i)
	}
	for name, text := range map[string]string{"junk": junk, "long": long, "only junk": strings.Repeat("\xff", 100_000)} {
		odd := Letter(func(l *pawl.DeadLetter) {
			l.SourceMessageID, l.Connection, l.Queue, l.Kind, l.Fingerprint = text, text, text, text, text
			l.ExceptionType, l.Message, l.Detail, l.CorrelationID, l.Reason = text, text, text, text, pawl.Reason(text)
			l.Host, l.Server, l.Version, l.Envelope, l.Tags = text, text, text, []byte(text), tags
			l.Class, l.Attempts = 250, -1
			for n := range 100 {
				l.History = append(l.History, pawl.AttemptRecord{Attempt: n, Type: text, Message: text, Host: text, Ending: pawl.Ending(text)})
			}
		})
		d.Record(odd)
		got, err := d.Letter(t.Context(), odd.ID)
		d.OK("letter", err)
		if !bytes.Equal(got.Envelope, odd.Envelope) {
			t.Errorf("%s: the envelope was changed", name)
		}
		d.Equal(name+": tags", len(got.Tags), len(tags))
		d.Equal(name+": attempts kept", len(got.History), pawl.HistoryLimit)
		d.Equal(name+": last attempt", got.History[pawl.HistoryLimit-1].Attempt, 99)
		texts := []string{
			got.SourceMessageID, got.Connection, got.Queue, got.Kind, got.Fingerprint, got.ExceptionType, got.Message, got.Detail,
			got.CorrelationID, string(got.Reason), got.Host, got.Server, got.Version, got.Tags[3], got.History[0].Type, got.History[0].Message,
		}
		for i, kept := range texts {
			if !utf8.ValidString(kept) || strings.Contains(kept, "\x00") || kept == "" {
				t.Errorf("%s: text %d is not storable: %.40q", name, i, kept)
			}
			if len(kept) > 64<<10 {
				t.Errorf("%s: text %d has %d bytes", name, i, len(kept))
			}
			if i != 13 && len(text) > 64<<10 && !strings.Contains(kept, "[cut]") {
				t.Errorf("%s: the cut of text %d is not marked: %.40q", name, i, kept)
			}
		}
		if n := utf8.RuneCountInString(got.Message); n > 4000 {
			t.Errorf("%s: the message has %d characters", name, n)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n, err := d.CountLetters(t.Context(), pawl.LetterFilter{Kind: got.Kind, Tag: got.Tags[3]})
		d.OK("count", err)
		d.Equal(name+": found by what was kept", n, 1)
	}
}

func letterWithoutID(t *testing.T, open Opener) {
	d := open(t)
	_, err := d.RecordDeaths(t.Context(), []pawl.DeadLetter{Letter(), Letter(func(l *pawl.DeadLetter) { l.ID = pawl.ID{} })})
	d.Invalid("record deaths", err, "letter")
	n, err := d.CountLetters(t.Context(), pawl.LetterFilter{})
	d.OK("count", err)
	d.Equal("letters", n, 0)
}

// A call with many letters takes several transactions and answers for each letter.
func deathsInSeveralTransactions(t *testing.T, open Opener) {
	d := open(t)
	d.Register("mail")
	all := Letters(1203)
	d.Record(all[100], all[700])
	recorded, err := d.RecordDeaths(t.Context(), all)
	d.OK("record deaths", err)
	for i, r := range recorded {
		if want := (pawl.Recorded{ID: all[i].ID, New: i != 100 && i != 700}); r != want {
			t.Errorf("letter %d: recorded %+v, want %+v", i, r, want)
		}
	}
	sinks, err := d.Sinks(t.Context())
	d.OK("sinks", err)
	d.Equal("alerts", sinks[0].Pending, len(all))
}

// A letter that is forgotten takes its alerts along; one that is closed is still told of.
func alertsOfClosedAndForgotten(t *testing.T, open Opener) {
	d := open(t)
	session := d.Register("mail")
	closed, forgotten, leased := Letter(), Letter(), Letter()
	d.Record(leased)
	claim := pawl.AlertClaim{Session: session, Sinks: []string{"mail", "unknown", "' or 1=1 --"}, Max: 10}
	early, err := d.ClaimAlerts(t.Context(), claim)
	d.OK("claim", err)
	d.Record(closed, forgotten)
	errs, err := d.MoveLetters(t.Context(), []pawl.Move{{Letter: closed.ID, Action: pawl.ActionResolve, By: Ada()}})
	d.OK("resolve", err)
	d.OK("resolve", errs[0])
	for _, l := range []pawl.DeadLetter{forgotten, leased} {
		there, err := d.ForgetLetter(t.Context(), l.ID, Ada())
		d.OK("forget", err)
		d.Equal("forgotten", there, true)
	}
	tasks, err := d.ClaimAlerts(t.Context(), claim)
	d.OK("claim", err)
	d.Equal("tasks", len(tasks), 1)
	d.Equal("letter", tasks[0].Letters[0].ID, closed.ID)
	d.Equal("status", tasks[0].Letters[0].Status, pawl.StatusResolved)
	d.Equal("key", tasks[0].Key, closed.ID.String()+"/mail")
	errs, err = d.SettleAlerts(t.Context(), []pawl.AlertResult{
		{Row: early[0].Row, Token: early[0].Token, Delivered: true},
		{Row: tasks[0].Row, Token: tasks[0].Token, After: time.Hour, Error: "\x00\xff" + strings.Repeat("long ", 100_000)},
	})
	d.OK("settle", err)
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("settled as %v", errs)
	}
	sinks, err := d.Sinks(t.Context())
	d.OK("sinks", err)
	if got := sinks[0]; got.Pending != 1 || len(got.LastError) > 1000 || !strings.HasPrefix(got.LastError, "\u2400\uFFFDlong") {
		t.Errorf("the sink has %d pending, last error %.60q", got.Pending, got.LastError)
	}
	_, err = d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}})
	d.Invalid("a claim of none", err, "max")
}

// A lease counts once, and of several results for one row that of the lease itself.
func leasesSettledTwice(t *testing.T, open Opener) {
	d := open(t)
	session := d.Register("mail")
	d.Record(Letters(2)...)
	tasks, err := d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 2})
	d.OK("claim", err)
	d.Equal("tasks", len(tasks), 2)
	one, other := tasks[0], tasks[1]
	errs, err := d.SettleAlerts(t.Context(), []pawl.AlertResult{
		{Row: one.Row, Token: one.Token + 1000, Delivered: true},
		{Row: one.Row, Token: one.Token, Error: "no", After: time.Hour},
		{Row: one.Row, Token: one.Token, Delivered: true},
		{Row: other.Row, Token: other.Token, Delivered: true},
	})
	d.OK("settle", err)
	for i, lost := range []bool{true, false, true, false} {
		if errors.Is(errs[i], pawl.ErrLeaseLost) != lost {
			t.Errorf("result %d: %v", i, errs[i])
		}
	}
	sinks, err := d.Sinks(t.Context())
	d.OK("sinks", err)
	d.Equal("last error", sinks[0].LastError, "no")
	d.Equal("delivered", sinks[0].Delivered, 1)
}

// However many claim at once, each delivery goes to one of them.
func alertsClaimedAtOnce(t *testing.T, open Opener) {
	d := open(t)
	session := d.Register("mail", "hook")
	const letters, claimers = 60, 6
	d.Record(Letters(letters)...)
	var group sync.WaitGroup
	claimed, failures := make([][]pawl.AlertTask, claimers), make([]error, claimers)
	for n := range claimers {
		group.Go(func() {
			for {
				tasks, err := d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"hook", "mail"}, Max: 4, Storm: pawl.Storm{Deaths: letters}})
				if err != nil || len(tasks) == 0 {
					failures[n] = err
					return
				}
				claimed[n] = append(claimed[n], tasks...)
			}
		})
	}
	group.Wait()
	rows := map[int64]bool{}
	for n := range claimers {
		d.OK("claim", failures[n])
		for _, task := range claimed[n] {
			if rows[task.Row] {
				t.Errorf("row %d was claimed twice", task.Row)
			}
			rows[task.Row] = true
		}
	}
	d.Equal("rows", len(rows), 2*letters)
}
