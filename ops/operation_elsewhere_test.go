package ops_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

// Operations on letters whose jobs go to another connection than the letters'.

// elsewhere is a shop whose letters are of jobs in another store.
type elsewhere struct {
	shop
	other *storetest.Faulty
}

func openElsewhere(t *testing.T) elsewhere {
	t.Helper()
	reports, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "reports.db"), sqlite.Config{Connection: "reports"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reports.Close(); err != nil {
			t.Error(err)
		}
	})
	e := elsewhere{newShop(t, openFile(t)), storetest.Fail(reports)}
	e.desk = newDesk(t, e.Store, e.other)
	return e
}

func (e elsewhere) deadReports(n int, options ...pawl.Option) []pawl.DeadLetter {
	e.Helper()
	return e.dead(n, pawl.Policy{}, options, func(_ int, l *pawl.DeadLetter) { l.Connection = "reports" })
}

// jobs counts those of the other store.
func (e elsewhere) jobs() int {
	e.Helper()
	page, err := e.other.Jobs(e.Context(), pawl.JobFilter{}, pawl.Page{Limit: 1000})
	if err != nil {
		e.Fatal(err)
	}
	return len(page.Jobs)
}

func TestOperationHandsJobsOver(t *testing.T) {
	t.Parallel()
	e := openElsewhere(t)
	e.deadReports(5)
	key := pawl.UniqueWhileUnfinished("k")
	kept := e.deadReports(1, key)[0]
	if _, err := work.Enqueue(t.Context(), e.other, args{2}, key); err != nil {
		t.Fatal(err)
	}
	o := e.run(e.start(redriveOf(pawl.OperationOptions{})).ID)
	e.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 5, 1, 5})
	e.want("jobs", []int{e.jobs(), len(e.jobsOf())}, []int{6, 0})
	refused := e.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused})
	if len(refused) != 1 || refused[0].Letter != kept.ID || !strings.Contains(refused[0].Reason, "unique key") {
		t.Errorf("refused: %+v", refused)
	}
	letter, err := e.Letter(t.Context(), kept.ID)
	if err != nil || letter.Status != pawl.StatusDead {
		t.Errorf("letter %+v, %v", letter, err)
	}
}

// A push that is cut off, before or after the other store has taken the job, is made again under the same id.
func TestOperationHandsOverAgain(t *testing.T) {
	t.Parallel()
	for when, pushed := range map[storetest.When]int{storetest.Before: 2, storetest.After: 3} {
		t.Run(when.String(), func(t *testing.T) {
			t.Parallel()
			e := openElsewhere(t)
			e.deadReports(4)
			e.other.At(3, when)
			id := e.start(redriveOf(pawl.OperationOptions{})).ID
			_, err := e.desk.RunOperation(t.Context(), id, ops.RunOptions{})
			if !errors.Is(err, storetest.ErrFault) || e.jobs() != pushed {
				t.Fatalf("%d jobs, %v", e.jobs(), err)
			}
			e.want("on their way", len(e.items(id, pawl.ItemFilter{State: pawl.ItemHandover})), 2)
			o := e.run(id)
			e.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 4, 0, 4})
			e.want("jobs", e.jobs(), 4)
			for _, item := range e.items(id, pawl.ItemFilter{}) {
				if job, err := e.other.Job(t.Context(), item.Job); err != nil || job.Letter != item.Letter || item.State != pawl.ItemDone {
					t.Errorf("item %+v: job %+v, %v", item, job, err)
				}
			}
		})
	}
}

// What others have done meanwhile to letters that are on their way is left alone.
func TestOperationFindsHandoversChanged(t *testing.T) {
	t.Parallel()
	e := openElsewhere(t)
	e.deadReports(3)
	e.other.Hook("Enqueue", func(context.Context, func() error) error { return storetest.ErrFault })
	id := e.start(redriveOf(pawl.OperationOptions{})).ID
	if _, err := e.desk.RunOperation(t.Context(), id, ops.RunOptions{}); !errors.Is(err, storetest.ErrFault) {
		t.Fatal(err)
	}
	e.other.Hook("Enqueue", nil)
	items := e.items(id, pawl.ItemFilter{State: pawl.ItemHandover})
	forgotten, opened, ended := items[0].Letter, items[1].Letter, items[2].Letter
	if _, err := e.ForgetLetter(t.Context(), forgotten, ann); err != nil {
		t.Fatal(err)
	}
	for _, move := range []pawl.Move{
		{Letter: opened, Action: pawl.ActionOutcome, Outcome: pawl.RedriveCancelled, By: ann},
		{Letter: opened, Action: pawl.ActionReopen, By: ann},
		{Letter: ended, Action: pawl.ActionOutcome, Outcome: pawl.RedriveSucceeded, By: ann},
	} {
		if errs, err := e.MoveLetters(t.Context(), []pawl.Move{move}); errors.Join(err, errs[0]) != nil {
			t.Fatal(err, errs)
		}
	}
	o := e.run(id)
	e.want("done, refused, succeeded, pending, jobs", []int{o.Done, o.Refused, o.Succeeded, o.Pending, e.jobs()}, []int{1, 2, 1, 0, 0})
}

// On an inline connection a job has run when it is handed over. One whose run was cut off is not run again by itself.
func TestOperationRunsJobsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, openFile(t))
	mux, runs := pawl.NewMux(), 0
	pawl.Handle(mux, work, func(context.Context, args) error {
		if runs++; runs%2 == 0 {
			return pawl.Permanent(errors.New("still down"))
		}
		return nil
	})
	at, err := inline.New(mux, inline.Config{Connection: "mails", DeadLetters: s.Store, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.desk = newDesk(t, s.Store, at)
	letters := s.dead(3, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Connection = "mails" })
	begin := redriveOf(pawl.OperationOptions{})
	begin.Letters = []pawl.ID{letters[0].ID, letters[1].ID, letters[2].ID}
	id := s.start(begin).ID
	leased, err := s.LeaseOperations(t.Context(), pawl.OperationLease{Runner: "killed", Max: 1})
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	if _, err := s.AdvanceOperation(t.Context(), pawl.OperationStep{Operation: id, Lease: leased[0].Lease, Release: true, Items: []pawl.ItemStep{{
		Position: 1, Letter: letters[0].ID, Move: pawl.Move{Letter: letters[0].ID, Action: pawl.ActionRedrive, By: ann, NewJob: pawl.NewID()},
	}}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	o := s.run(id)
	s.want("runs, done, refused, succeeded, died again", []int{runs, o.Done, o.Refused, o.Succeeded, o.DiedAgain}, []int{2, 2, 1, 1, 1})
	if refused := s.items(id, pawl.ItemFilter{State: pawl.ItemRefused}); len(refused) != 1 || !strings.Contains(refused[0].Reason, "its run was cut off") {
		t.Errorf("refused: %+v", refused)
	}
	letter, err := s.Letter(t.Context(), letters[0].ID)
	if err != nil || letter.Status != pawl.StatusDead || time.Since(start) > time.Minute {
		t.Errorf("letter %+v, %v", letter, err)
	}
}
