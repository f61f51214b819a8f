package sqlite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Whatever killed the job, its death is recorded, in text that can be stored, searched and shown.
func TestOddEvidence(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	junk := "nul \x00, not UTF-8 \xff\xfe, é, \U0001F600, "
	long := junk + strings.Repeat("é\U0001F600", 1<<17)
	tags := make([]string, 1000)
	for i := range tags {
		tags[i] = fmt.Sprintf("tag %d \x00\xff", i)
	}
	for name, text := range map[string]string{"junk": junk, "long": long, "only junk": strings.Repeat("\xff", 100_000)} {
		odd := letter(func(l *pawl.DeadLetter) {
			l.SourceMessageID, l.Connection, l.Queue, l.Kind, l.Fingerprint = text, text, text, text, text
			l.ExceptionType, l.Message, l.Detail, l.CorrelationID, l.Reason = text, text, text, text, pawl.Reason(text)
			l.Host, l.Server, l.Version, l.Envelope, l.Tags = text, text, text, []byte(text), tags
			l.Class, l.Attempts = 250, -1
			for n := range 100 {
				l.History = append(l.History, pawl.AttemptRecord{Attempt: n, Type: text, Message: text, Host: text, Ending: pawl.Ending(text)})
			}
		})
		d.record(odd)
		got, err := d.Letter(t.Context(), odd.ID)
		d.ok("letter", err)
		if !bytes.Equal(got.Envelope, odd.Envelope) {
			t.Errorf("%s: the envelope was changed", name)
		}
		d.equal(name+": tags", len(got.Tags), len(tags))
		d.equal(name+": attempts kept", len(got.History), pawl.HistoryLimit)
		d.equal(name+": last attempt", got.History[pawl.HistoryLimit-1].Attempt, 99)
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
		d.ok("count", err)
		d.equal(name+": found by what was kept", n, 1)
	}
}

func TestLetterWithoutID(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	_, err := d.RecordDeaths(t.Context(), []pawl.DeadLetter{letter(), letter(func(l *pawl.DeadLetter) { l.ID = pawl.ID{} })})
	d.invalid("record deaths", err, "letter")
	n, err := d.CountLetters(t.Context(), pawl.LetterFilter{})
	d.ok("count", err)
	d.equal("letters", n, 0)
}

// A call with many letters takes several transactions and answers for each letter.
func TestDeathsInSeveralTransactions(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.sinks("mail")
	all := letters(1203)
	d.record(all[100], all[700])
	recorded, err := d.RecordDeaths(t.Context(), all)
	d.ok("record deaths", err)
	for i, r := range recorded {
		if want := (pawl.Recorded{ID: all[i].ID, New: i != 100 && i != 700}); r != want {
			t.Errorf("letter %d: recorded %+v, want %+v", i, r, want)
		}
	}
	sinks, err := d.Sinks(t.Context())
	d.ok("sinks", err)
	d.equal("alerts", sinks[0].Pending, len(all))
}

// A letter that is forgotten takes its alerts along; one that is closed is still told of.
func TestAlertsOfClosedAndForgottenLetters(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	session := d.sinks("mail")
	closed, forgotten, leased := letter(), letter(), letter()
	d.record(leased)
	claim := pawl.AlertClaim{Session: session, Sinks: []string{"mail", "unknown", "' or 1=1 --"}, Max: 10}
	early, err := d.ClaimAlerts(t.Context(), claim)
	d.ok("claim", err)
	d.record(closed, forgotten)
	errs, err := d.MoveLetters(t.Context(), []pawl.Move{{Letter: closed.ID, Action: pawl.ActionResolve, By: ada}})
	d.ok("resolve", err)
	d.ok("resolve", errs[0])
	for _, l := range []pawl.DeadLetter{forgotten, leased} {
		there, err := d.ForgetLetter(t.Context(), l.ID, ada)
		d.ok("forget", err)
		d.equal("forgotten", there, true)
	}
	tasks, err := d.ClaimAlerts(t.Context(), claim)
	d.ok("claim", err)
	d.equal("tasks", len(tasks), 1)
	d.equal("letter", tasks[0].Letter.ID, closed.ID)
	d.equal("status", tasks[0].Letter.Status, pawl.StatusResolved)
	d.equal("key", tasks[0].Key, closed.ID.String()+"/mail")
	errs, err = d.SettleAlerts(t.Context(), []pawl.AlertResult{
		{Row: early[0].Row, Token: early[0].Token, Delivered: true},
		{Row: tasks[0].Row, Token: tasks[0].Token, After: time.Hour, Error: "\x00\xff" + strings.Repeat("long ", 100_000)},
	})
	d.ok("settle", err)
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("settled as %v", errs)
	}
	sinks, err := d.Sinks(t.Context())
	d.ok("sinks", err)
	if got := sinks[0]; got.Pending != 1 || len(got.LastError) > 1000 || !strings.HasPrefix(got.LastError, "\u2400\uFFFDlong") {
		t.Errorf("the sink has %d pending, last error %.60q", got.Pending, got.LastError)
	}
	_, err = d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}})
	d.invalid("a claim of none", err, "max")
}

// Where a sink stands idle, looking for work takes no write lock.
func TestIdleSinksWriteNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	session := d.sinks("mail")
	tx, err := d.beside().BeginTx(t.Context(), nil)
	d.ok("begin", err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), `insert into pawl_sink (name) values ('holds the lock')`)
	d.ok("take the write lock", err)
	tasks, err := d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 5})
	d.ok("claim", err)
	d.equal("tasks", len(tasks), 0)
}
