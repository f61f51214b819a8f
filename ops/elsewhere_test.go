package ops_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// Jobs of another connection than the letters'.

func TestRedriveIntoAnotherConnection(t *testing.T) {
	t.Parallel()
	letters, other := newStore("default"), newStore("reports")
	letter := letters.die(t, "reports", pawl.Policy{}, nil, nil)
	job, err := newDesk(t, letters, letters, other).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann})
	if err != nil {
		t.Fatal(err)
	}
	if stored, _ := other.only(t); stored.ID != job || stored.Letter != letter.ID || len(letters.jobs) != 0 {
		t.Errorf("stored %+v, %d here", stored, len(letters.jobs))
	}
	if after := letters.status(t, letter.ID); after.NewJobID != job || after.Outcome != pawl.RedrivePending {
		t.Errorf("letter %+v", after)
	}
}

func TestRedriveThatTheOtherConnectionRefuses(t *testing.T) {
	t.Parallel()
	for _, retry := range []bool{false, true} {
		letters, other := newStore("default"), newStore("reports")
		letter := letters.die(t, "reports", pawl.Policy{}, []pawl.Option{pawl.UniqueWhileUnfinished("k")}, nil)
		holder, err := pawl.NewKind[args]("work.v1", pawl.Policy{}).New(t.Context(), pawl.Connection{}, args{2}, pawl.UniqueWhileUnfinished("k"))
		if err != nil {
			t.Fatal(err)
		}
		other.insert(holder)
		desk := newDesk(t, letters, other)
		run := func() error { _, err := desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann}); return err }
		if retry {
			run = func() error { _, err := desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann}); return err }
		}
		if err := run(); !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), holder.ID.String()) {
			t.Errorf("a key that is held: %v", err)
		}
		other.failPushes = errors.Join(errors.New(strings.Repeat("é", 5000)), pawl.ErrUnsupported)
		if err := run(); !errors.Is(err, pawl.ErrUnsupported) {
			t.Errorf("a refusal: %v", err)
		}
		if after := letters.status(t, letter.ID); after.Status != pawl.StatusDead || len(other.jobs) != 1 {
			t.Errorf("letter %+v, %d jobs", after, len(other.jobs))
		}
		if last := letters.audit[len(letters.audit)-1]; last.Action != pawl.ActionReopen || last.By.Who != "pawl" || len([]rune(last.By.Why)) > 600 {
			t.Errorf("audit %+v", last)
		}
	}
}

func TestRetryOfAJobThatIsStillThere(t *testing.T) {
	t.Parallel()
	letters, other := newStore("default"), newStore("reports")
	letter := letters.die(t, "reports", pawl.Policy{}, nil, nil)
	other.insert(pawl.NewJobFrom(decode(t, letter.Envelope)))
	if _, err := newDesk(t, letters, other).Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann}); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if after := letters.status(t, letter.ID); after.Status != pawl.StatusDead {
		t.Errorf("letter %+v", after)
	}
}

func TestPushOfUnknownOutcomeIsReported(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection cut")
	letters, other := newStore("default"), newStore("reports")
	letter := letters.die(t, "reports", pawl.Policy{}, nil, nil)
	other.failPushes = cut
	job, err := newDesk(t, letters, other).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann})
	if !errors.Is(err, cut) || !strings.Contains(err.Error(), job.String()) || job.IsZero() {
		t.Errorf("job %s, %v", job, err)
	}
	if after := letters.status(t, letter.ID); after.Status != pawl.StatusRedriven || after.NewJobID != job {
		t.Errorf("letter %+v", after)
	}
}

// The reply of a move can be lost before it happened and after.
func TestMoveOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection cut")
	for _, after := range []bool{false, true} {
		letters, other := newStore("default"), newStore("reports")
		letter := letters.die(t, "reports", pawl.Policy{}, nil, nil)
		letters.failMoves = func(done bool) error {
			if done == after {
				return cut
			}
			return nil
		}
		job, err := newDesk(t, letters, other).Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann})
		if after {
			if stored, _ := other.only(t); err != nil || stored.ID != job {
				t.Errorf("after: job %s, %v", job, err)
			}
			continue
		}
		if !errors.Is(err, cut) || len(other.jobs) != 0 || letters.status(t, letter.ID).Status != pawl.StatusDead {
			t.Errorf("before: %v, %d jobs", err, len(other.jobs))
		}
	}
}

// atOnce runs jobs like an inline connection: fails says with what, records whether a letter of it is left.
type atOnce struct {
	letters *store
	fails   error
	records bool
	writes  bool // it writes the outcome itself
	runs    []pawl.NewJob
}

func (a *atOnce) RunsAtOnce() bool            { return true }
func (a *atOnce) Connection() pawl.Connection { return pawl.Connection{Name: "now"} }
func (a *atOnce) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	a.runs = append(a.runs, jobs...)
	if a.fails != nil && a.records {
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "now"}, pawl.ClaimedJob{
			Reservation: pawl.Reservation{ID: jobs[0].ID, Token: pawl.Token(100 + len(a.runs))}, Letter: jobs[0].Letter, Envelope: jobs[0].Envelope,
		}, pawl.Dead{Reason: pawl.ReasonSync}, jobs[0].EnqueuedAt, a.fails)
		if _, err := a.letters.RecordDeaths(ctx, []pawl.DeadLetter{letter}); err != nil {
			return nil, err
		}
	}
	if a.writes {
		move := pawl.Move{Letter: jobs[0].Letter, Action: pawl.ActionOutcome, Outcome: pawl.RedriveSucceeded, By: ann}
		if _, err := a.letters.MoveLetters(ctx, []pawl.Move{move}); err != nil {
			return nil, err
		}
	}
	return []pawl.Enqueued{{ID: jobs[0].ID}}, a.fails
}

func TestOutcomeThatIsWrittenAlready(t *testing.T) {
	t.Parallel()
	letters := newStore("default")
	letter := letters.die(t, "now", pawl.Policy{}, nil, nil)
	desk := newDesk(t, letters, &atOnce{letters: letters, writes: true})
	if _, err := desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann}); err != nil {
		t.Errorf("got %v", err)
	}
	if after := letters.status(t, letter.ID); after.Outcome != pawl.RedriveSucceeded {
		t.Errorf("letter %+v", after)
	}
}

func TestConnectionThatRunsAtOnce(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for _, retry := range []bool{false, true} {
		for _, test := range []struct {
			fails   error
			records bool
			status  pawl.Status
			outcome pawl.RedriveOutcome
		}{
			{nil, true, pawl.StatusResolved, pawl.RedriveSucceeded},
			{down, true, pawl.StatusRedriven, pawl.RedriveDiedAgain},
			{pawl.ErrUnsupported, true, pawl.StatusRedriven, pawl.RedriveDiedAgain}, // the handler's own
			{down, false, pawl.StatusDead, ""},
		} {
			letters := newStore("default")
			now := &atOnce{letters: letters, fails: test.fails, records: test.records}
			letter := letters.die(t, "now", pawl.Policy{}, nil, nil)
			desk := newDesk(t, letters, now)
			var job pawl.ID
			var err error
			if retry {
				job, err = desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: ann})
			} else {
				job, err = desk.Redrive(t.Context(), letter.ID, ops.RedriveOptions{By: ann})
			}
			if !errors.Is(err, test.fails) || len(now.runs) != 1 || now.runs[0].Letter != letter.ID {
				t.Errorf("%v, runs %v", err, now.runs)
			}
			after := letters.status(t, letter.ID)
			if after.Status != test.status || after.Outcome != test.outcome {
				t.Errorf("fails with %v, recorded %v: letter is %s, %q", test.fails, test.records, after.Status, after.Outcome)
			}
			if wantJob := test.status != pawl.StatusDead; job.IsZero() == wantJob || wantJob && job != now.runs[0].ID {
				t.Errorf("job %s", job)
			}
		}
	}
}
