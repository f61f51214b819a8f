package ops_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
)

// The same desk over a real store.

const workKind = "work.v1"

var work = pawl.NewKind[args](workKind, pawl.Policy{})

type real struct {
	*sqlite.Store
	session pawl.SessionID
	desk    *ops.Desk
}

func openFile(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func openReal(t *testing.T, connections ...pawl.Enqueuer) real {
	t.Helper()
	store := openFile(t)
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{workKind}, Sinks: []string{"one", "two"}})
	if err != nil {
		t.Fatal(err)
	}
	return real{store, session, newDesk(t, store, connections...)}
}

func (r real) enqueue(t *testing.T, options ...pawl.Option) pawl.ID {
	t.Helper()
	job, err := work.Enqueue(t.Context(), r.Store, args{1}, options...)
	if err != nil || job.Status != pawl.Accepted {
		t.Fatalf("%+v, %v", job, err)
	}
	return job.ID
}

func (r real) claim(t *testing.T) pawl.ClaimedJob {
	t.Helper()
	claimed, err := r.Claim(t.Context(), pawl.ClaimRequest{Session: r.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 10})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("%d jobs claimed, %v", len(claimed.Jobs), err)
	}
	return claimed.Jobs[0]
}

func (r real) settle(t *testing.T, job pawl.ClaimedJob, outcome pawl.Outcome) pawl.ID {
	t.Helper()
	settlement := pawl.Settlement{Reservation: job.Reservation, Outcome: outcome}
	if death, ok := outcome.(pawl.Dead); ok {
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, job, death, time.Now(), errors.New("down"))
		settlement.Letter = &letter
	}
	errs, err := r.Settle(t.Context(), r.session, []pawl.Settlement{settlement})
	if err = errors.Join(err, errs[0]); err != nil {
		t.Fatal(err)
	}
	if settlement.Letter == nil {
		return pawl.ID{}
	}
	return settlement.Letter.ID
}

// dies claims the one ready job, and buries it.
func (r real) dies(t *testing.T) pawl.ID {
	t.Helper()
	return r.settle(t, r.claim(t), pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget})
}

func (r real) letter(t *testing.T, id pawl.ID) pawl.DeadLetter {
	t.Helper()
	letter, err := r.Letter(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return letter
}

// count says how many jobs are waiting.
func (r real) count(t *testing.T) int {
	t.Helper()
	page, err := r.Jobs(t.Context(), pawl.JobFilter{State: pawl.JobWaiting}, pawl.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

// alerted are the letters that the sinks are still to be told of, in the order of their rows.
func (r real) alerted(t *testing.T) (letters []pawl.ID) {
	t.Helper()
	tasks, err := r.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: r.session, Sinks: []string{"one"}, Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		letters = append(letters, task.Letters[0].ID)
	}
	return letters
}

// A letter whose redrive did its work is not run again by mistake, also when somebody has opened it again.
func TestWorkThatWasDoneIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.enqueue(t)
	letter := r.dies(t)
	first, err := r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann})
	if err != nil {
		t.Fatal(err)
	}
	r.settle(t, r.claim(t), pawl.Done{})
	_, err = r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann})
	if !errors.Is(err, pawl.ErrAlreadyRedriven) || !strings.Contains(err.Error(), first.String()) || !strings.Contains(err.Error(), "succeeded") {
		t.Errorf("a second redrive: got %v", err)
	}
	if err := r.desk.Reopen(t.Context(), letter, ann, ""); err != nil {
		t.Fatal(err)
	}
	if _, err = r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann}); !errors.Is(err, pawl.ErrConfirm) {
		t.Errorf("after reopening: got %v", err)
	}
	if _, err = r.desk.Retry(t.Context(), letter, ops.RetryOptions{By: ann}); !errors.Is(err, pawl.ErrConfirm) {
		t.Errorf("retry after reopening: got %v", err)
	}
	if r.count(t) > 0 {
		t.Error("a refused redrive stored a job")
	}
	if _, err = r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann, Confirmed: true}); err != nil || r.count(t) != 1 {
		t.Errorf("confirmed: got %v", err)
	}
}

func TestThreeRedriveTheSameLetter(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.enqueue(t)
	letter := r.dies(t)
	jobs, errs := make([]pawl.ID, 3), make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { jobs[i], errs[i] = r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann}) })
	}
	wg.Wait()
	won, refused := pawl.ID{}, 0
	for i, err := range errs {
		switch {
		case err == nil && won.IsZero():
			won = jobs[i]
		case errors.Is(err, pawl.ErrAlreadyRedriven):
			refused++
		default:
			t.Errorf("job %s, %v", jobs[i], err)
		}
	}
	if refused != 2 || r.count(t) != 1 || r.letter(t, letter).NewJobID != won || r.claim(t).ID != won {
		t.Errorf("%d refused, %d jobs, %s won", refused, r.count(t), won)
	}
}

func TestARedriveThatDiesAgain(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.enqueue(t, pawl.CorrelationID("request-1"))
	first := r.dies(t)
	job, err := r.desk.Redrive(t.Context(), first, ops.RedriveOptions{By: ann})
	if err != nil {
		t.Fatal(err)
	}
	again := r.claim(t)
	if again.ID != job || again.Attempt != 1 || again.Letter != first || len(again.History) != 0 {
		t.Errorf("claimed %+v", again)
	}
	second := r.settle(t, again, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget})
	old, fresh := r.letter(t, first), r.letter(t, second)
	if old.Status != pawl.StatusRedriven || old.Outcome != pawl.RedriveDiedAgain || old.NextLetter != second {
		t.Errorf("old letter is %s, %s, goes on as %s", old.Status, old.Outcome, old.NextLetter)
	}
	if fresh.Previous != first || fresh.Status != pawl.StatusDead || fresh.CorrelationID != "request-1" {
		t.Errorf("new letter %+v", fresh)
	}
	if alerts := r.alerted(t); len(alerts) != 2 {
		t.Errorf("alerts of %v", alerts)
	}
	results := r.desk.RedriveMany(t.Context(), []pawl.ID{first, second}, ops.RedriveOptions{By: ann})
	if !errors.Is(results[0].Err, pawl.ErrAlreadyRedriven) || results[1].Err != nil || r.count(t) != 1 {
		t.Errorf("results %+v, %d jobs", results, r.count(t))
	}
	r.settle(t, r.claim(t), pawl.Done{})
	if end := r.letter(t, second); end.Status != pawl.StatusResolved || end.Outcome != pawl.RedriveSucceeded {
		t.Errorf("letter of a redrive that succeeded is %s, %s", end.Status, end.Outcome)
	}
	if err := r.desk.Resolve(t.Context(), first, ann, ""); !errors.Is(err, pawl.ErrAlreadyRedriven) {
		t.Errorf("resolve of a letter that went on: %v", err)
	}
}

func TestOneOfAThousandCannotBePushed(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	holder := r.enqueue(t, pawl.UniqueWhileUnfinished("taken"))
	letters := make([]pawl.DeadLetter, 1000)
	ids := make([]pawl.ID, len(letters))
	for i := range letters {
		switch i {
		case 500:
			letters[i] = deadLetter(t, "default", pawl.Policy{}, pawl.UniqueWhileUnfinished("taken"))
		case 700:
			letters[i] = deadLetter(t, "default", pawl.Policy{})
			letters[i].Envelope[30] ^= 1
		default:
			letters[i] = deadLetter(t, "default", pawl.Policy{})
		}
		ids[i] = letters[i].ID
	}
	if _, err := r.RecordDeaths(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	results := r.desk.RedriveMany(t.Context(), ids, ops.RedriveOptions{By: ann})
	for i, result := range results {
		want := map[int]error{500: pawl.ErrConflict, 700: pawl.ErrRedriveRefused}[i]
		if result.Letter != ids[i] || !errors.Is(result.Err, want) {
			t.Fatalf("%d: %+v, want %v", i, result, want)
		}
	}
	if err := results[500].Err; !strings.Contains(err.Error(), holder.String()) {
		t.Errorf("the holder is not named: %v", err)
	}
	open, err := r.CountLetters(t.Context(), pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}})
	if err != nil || open != 2 {
		t.Errorf("%d letters are open, %v", open, err)
	}
	if waiting := r.count(t); waiting != 999 {
		t.Errorf("%d jobs wait, want 998 and the holder", waiting)
	}
}

func TestTheSameJobDiesTwice(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	id := r.enqueue(t)
	first := r.dies(t)
	before := r.letter(t, first)
	if job, err := r.desk.Retry(t.Context(), first, ops.RetryOptions{By: ann}); err != nil || job != id {
		t.Fatalf("job %s, %v", job, err)
	}
	again := r.claim(t)
	if again.ID != id || again.Attempt != 1 || !bytes.Equal(again.Envelope, before.Envelope) || !again.EnqueuedAt.Equal(before.EnqueuedAt) {
		t.Errorf("claimed %+v", again)
	}
	if _, err := r.desk.Retry(t.Context(), first, ops.RetryOptions{By: ann}); !errors.Is(err, pawl.ErrAlreadyRedriven) {
		t.Errorf("a second retry: %v", err)
	}
	second := r.settle(t, again, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget})
	if first == second || r.letter(t, second).JobID != id || r.letter(t, second).Previous != first {
		t.Errorf("letters %s, %s", first, second)
	}
	if alerts := r.alerted(t); len(alerts) != 2 || alerts[0] == alerts[1] {
		t.Errorf("alerts of %v", alerts)
	}
}

func TestRetryOfAJobThatCameBack(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	id := r.enqueue(t)
	letter := r.letter(t, r.dies(t))
	// A second letter of the same job, such as one that was recorded elsewhere.
	twin := letter
	twin.ID = pawl.LetterID("default", id, 999)
	if _, err := r.RecordDeaths(t.Context(), []pawl.DeadLetter{twin}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.desk.Retry(t.Context(), twin.ID, ops.RetryOptions{By: ann}); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("a job with that id is still there: %v", err)
	}
	if r.letter(t, twin.ID).Status != pawl.StatusDead || r.count(t) != 1 {
		t.Error("something was changed")
	}
}

func TestAuditTrail(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	r.enqueue(t)
	letter := r.dies(t)
	err := errors.Join(
		r.desk.Resolve(t.Context(), letter, ann, "by hand"),
		r.desk.Reopen(t.Context(), letter, ann, ""),
		r.desk.Discard(t.Context(), letter, ann, ""),
		r.desk.Reopen(t.Context(), letter, ann, ""),
	)
	job, redriveErr := r.desk.Redrive(t.Context(), letter, ops.RedriveOptions{By: ann, Args: []byte(`{"n":2}`)})
	_, forgetErr := r.desk.Forget(t.Context(), letter, ann)
	if err := errors.Join(err, redriveErr, forgetErr); err != nil {
		t.Fatal(err)
	}
	page, err := r.Audit(t.Context(), pawl.AuditFilter{Subject: letter.String()}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, entry := range page.Entries {
		actions = append(actions, string(entry.Action))
		if entry.Who != "ann" || entry.Door != "cli" || !strings.HasPrefix(entry.Why, "mended") {
			t.Errorf("entry %+v", entry)
		}
		if entry.Action == pawl.ActionRedrive && (entry.Outcome != job.String() || !strings.Contains(entry.Why, "args edited")) {
			t.Errorf("entry %+v", entry)
		}
	}
	if got := strings.Join(actions, " "); got != "forget redrive reopen discard reopen resolve" {
		t.Errorf("trail, newest first: %s", got)
	}
}

// Jobs of an inline connection, whose deaths lie in the store.
func TestInlineLettersRunAgainAtOnce(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	var fails error
	mux := pawl.NewMux()
	pawl.Handle(mux, work, func(context.Context, args) error { return fails })
	now, err := inline.New(mux, inline.Config{Connection: "now", DeadLetters: r.Store, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	desk := newDesk(t, r.Store, now)
	down := errors.New("down")
	fails = down
	job, err := work.Enqueue(t.Context(), now, args{1})
	if !errors.Is(err, down) {
		t.Fatal(err)
	}
	only := func(status pawl.Status) pawl.DeadLetter {
		t.Helper()
		page, err := r.Letters(t.Context(), pawl.LetterFilter{Status: []pawl.Status{status}, Connection: "now"}, pawl.Page{})
		if err != nil || len(page.Letters) != 1 {
			t.Fatalf("%d letters are %s, %v", len(page.Letters), status, err)
		}
		return page.Letters[0]
	}
	first := only(pawl.StatusDead)
	if first.Reason != pawl.ReasonSync {
		t.Errorf("reason %s", first.Reason)
	}
	retried, err := desk.Retry(t.Context(), first.ID, ops.RetryOptions{By: ann})
	if retried != job.ID || !errors.Is(err, down) {
		t.Errorf("retry: job %s, %v", retried, err)
	}
	second := only(pawl.StatusDead)
	if old := r.letter(t, first.ID); old.Outcome != pawl.RedriveDiedAgain || old.NextLetter != second.ID || second.Previous != first.ID {
		t.Errorf("old letter %+v", old)
	}
	fails = nil
	fresh, err := desk.Redrive(t.Context(), second.ID, ops.RedriveOptions{By: ann})
	if err != nil || fresh == job.ID {
		t.Errorf("redrive: job %s, %v", fresh, err)
	}
	if end := only(pawl.StatusResolved); end.ID != second.ID || end.Outcome != pawl.RedriveSucceeded || end.NewJobID != fresh {
		t.Errorf("letter %+v", end)
	}
	if r.count(t) != 0 {
		t.Error("a job went into the store")
	}
}
