package ops_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type args struct {
	N int `json:"n"`
}

var ann = pawl.By{Who: "ann", Door: "cli", Why: "mended"}

// store is a small memory of letters and jobs: the parts of a real one that a desk uses.
type store struct {
	pawl.DeadLetters // what it lacks
	name             string

	mu         sync.Mutex
	letters    map[pawl.ID]*pawl.DeadLetter
	jobs       map[pawl.ID]pawl.NewJob
	audit      []pawl.Move
	failMoves  func(after bool) error // asked before and after MoveLetters has done its work
	failPushes error
}

func newStore(name string) *store {
	return &store{name: name, letters: map[pawl.ID]*pawl.DeadLetter{}, jobs: map[pawl.ID]pawl.NewJob{}}
}

func (s *store) Connection() pawl.Connection { return pawl.Connection{Name: s.name} }

func (s *store) Letter(_ context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letter, ok := s.letters[id]
	if !ok {
		return pawl.DeadLetter{}, fmt.Errorf("letter %s: %w", id, pawl.ErrNotFound)
	}
	return *letter, nil
}

func (s *store) Letters(_ context.Context, filter pawl.LetterFilter, _ pawl.Page) (page pawl.LetterPage, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, letter := range s.letters {
		if letter.JobID == filter.JobID {
			page.Letters = append(page.Letters, *letter)
		}
	}
	return page, nil
}

func (s *store) RecordDeaths(_ context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]pawl.Recorded, len(letters))
	for i, letter := range letters {
		s.letters[letter.ID] = &letter
		out[i] = pawl.Recorded{ID: letter.ID, New: true}
	}
	return out, nil
}

func (s *store) MoveLetters(_ context.Context, moves []pawl.Move) ([]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failMoves != nil {
		if err := s.failMoves(false); err != nil {
			return nil, err
		}
	}
	out := make([]error, len(moves))
	for i, m := range moves {
		out[i] = s.moveOne(m)
	}
	if s.failMoves != nil {
		if err := s.failMoves(true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *store) moveOne(m pawl.Move) error {
	letter, ok := s.letters[m.Letter]
	if !ok {
		return fmt.Errorf("letter %s: %w", m.Letter, pawl.ErrNotFound)
	}
	if err := m.Allowed(letter.Status, letter.Outcome, letter.NewJobID); err != nil {
		return err
	}
	if m.Push != nil {
		job := *m.Push
		job.Letter = m.Letter
		if got := s.insert(job); got.Status != pawl.Accepted {
			return fmt.Errorf("letter %s: held by job %s: %w", m.Letter, got.ID, pawl.ErrConflict)
		}
		letter.NewJobID = job.ID
	}
	if !m.NewJob.IsZero() {
		letter.NewJobID = m.NewJob
	}
	letter.Status = m.To()
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		letter.Outcome, letter.RedrivenBy = pawl.RedrivePending, m.By.Who
	case pawl.ActionOutcome:
		letter.Outcome = m.Outcome
	case pawl.ActionReopen:
		letter.Outcome, letter.NewJobID, letter.RedrivenBy = "", pawl.ID{}, ""
	}
	if m.Note != "" {
		letter.Note = m.Note
	}
	s.audit = append(s.audit, m)
	return nil
}

func (s *store) PruneLetters(context.Context, pawl.LetterFilter, pawl.By) (pawl.Pruned, error) {
	return pawl.Pruned{}, errors.ErrUnsupported
}

func (s *store) ForgetLetter(_ context.Context, id pawl.ID, by pawl.By) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.letters[id]
	delete(s.letters, id)
	if found {
		s.audit = append(s.audit, pawl.Move{Letter: id, Action: pawl.ActionForget, By: by})
	}
	return found, nil
}

func (s *store) Enqueue(_ context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failPushes != nil {
		return nil, s.failPushes
	}
	out := make([]pawl.Enqueued, len(jobs))
	for i, job := range jobs {
		out[i] = s.insert(job)
	}
	return out, nil
}

func (s *store) insert(job pawl.NewJob) pawl.Enqueued {
	if _, ok := s.jobs[job.ID]; ok {
		return pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
	}
	for _, other := range s.jobs {
		if job.Unique.Key != "" && other.Unique.Key == job.Unique.Key {
			return pawl.Enqueued{ID: other.ID, Status: pawl.Duplicate}
		}
	}
	s.jobs[job.ID] = job
	return pawl.Enqueued{ID: job.ID}
}

// only returns the one job that is there.
func (s *store) only(t *testing.T) (pawl.NewJob, pawl.Envelope) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(s.jobs))
	}
	for _, job := range s.jobs {
		return job, decode(t, job.Envelope)
	}
	panic("unreachable")
}

func decode(t *testing.T, stored []byte) pawl.Envelope {
	t.Helper()
	envelope, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// die makes a job of the kind and the letter of its death on the connection; change may alter the letter.
func (s *store) die(t *testing.T, connection string, policy pawl.Policy, options []pawl.Option, change func(*pawl.DeadLetter)) pawl.DeadLetter {
	t.Helper()
	letter := deadLetter(t, connection, policy, options...)
	if change != nil {
		change(&letter)
	}
	if _, err := s.RecordDeaths(t.Context(), []pawl.DeadLetter{letter}); err != nil {
		t.Fatal(err)
	}
	return letter
}

func deadLetter(t *testing.T, connection string, policy pawl.Policy, options ...pawl.Option) pawl.DeadLetter {
	t.Helper()
	job, err := pawl.NewKind[args]("work.v1", policy).New(t.Context(), pawl.Connection{}, args{1}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return pawl.NewDeadLetter(pawl.Undertaker{Connection: connection, Host: "h"}, pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 6,
		EnqueuedAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond), Envelope: job.Envelope,
	}, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}, time.Now().UTC(), errors.New("down"))
}

func newDesk(t *testing.T, letters pawl.DeadLetters, connections ...pawl.Enqueuer) *ops.Desk {
	t.Helper()
	named := map[string]pawl.Enqueuer{}
	for _, connection := range connections {
		named[connection.Connection().Name] = connection
	}
	desk, err := ops.New(letters, named)
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

func (s *store) status(t *testing.T, id pawl.ID) pawl.DeadLetter {
	t.Helper()
	letter, err := s.Letter(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return letter
}
