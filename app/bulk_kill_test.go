package app

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// A redrive of many that is killed five times on its way, and begun again each time, leaves one new job for each letter.
func TestRedriveOfManyIsKilled(t *testing.T) {
	t.Parallel()
	const letters, kills = 600, 5
	path := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	dead := make([]pawl.DeadLetter, letters)
	kind := pawl.NewKind[int]("bulk.v1", pawl.Policy{})
	for i := range dead {
		job, err := kind.New(t.Context(), s.Connection(), i)
		if err != nil {
			t.Fatal(err)
		}
		dead[i] = pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "a"}, pawl.ClaimedJob{
			Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 1, Envelope: job.Envelope,
		}, pawl.Dead{Class: pawl.DeathPermanent, Reason: pawl.ReasonPermanent}, job.EnqueuedAt, errors.New("no such user"))
	}
	if _, err := s.RecordDeaths(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	redriven := 0
	for n := range kills {
		redriven += redriveAndKill(t, path, 30+n) // in the middle of a batch of 20, or soon after
	}
	if redriven >= letters {
		t.Fatalf("%d letters were redriven before the last kill: nothing was left to take up", redriven)
	}
	redriveAndKill(t, path, 0, "--rate", "100000/s")
	checkOneJobEach(t, s, letters)
}

// redriveAndKill begins a redrive and kills it once it has said so many lines; 0 lets it end. It returns how many it has said.
func redriveAndKill(t *testing.T, path string, after int, more ...string) (said int) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"dead", "redrive", "--kind", "bulk.v1", "--rate", "100/s", "--yes", "--reason", "mended", "--store", "sqlite:" + path}
	command := exec.Command(binary, append(args, more...)...)
	command.Args[0] = "pawl" // what TestMain goes by
	command.Env = append(os.Environ(), "USER=kim", "GORACE=atexit_sleep_ms=0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said++; said == after {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := command.Wait(); (err == nil) != (after == 0) {
		t.Fatalf("redrive, to be killed after %d lines: %v", after, err)
	}
	return said
}

func checkOneJobEach(t *testing.T, s *sqlite.Store, letters int) {
	t.Helper()
	jobs := pages[pawl.JobView]{fetch: func(ctx context.Context, page pawl.Page) ([]pawl.JobView, string, error) {
		found, err := s.Jobs(ctx, pawl.JobFilter{Kind: "bulk.v1"}, page)
		return found.Jobs, found.Next, err
	}}
	of := map[pawl.ID]pawl.ID{} // job by letter
	for job, err := range jobs.all(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := of[job.Letter]; twice {
			t.Errorf("letter %s went on as %s and as %s", job.Letter, other, job.ID)
		}
		of[job.Letter] = job.ID
	}
	if len(of) != letters {
		t.Errorf("%d jobs, want %d", len(of), letters)
	}
	for letter, err := range letterPages(s, pawl.LetterFilter{}, 0, "").all(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if letter.Status != pawl.StatusRedriven || letter.NewJobID != of[letter.ID] {
			t.Errorf("letter %s is %s as job %s, and its job is %s", letter.ID, letter.Status, letter.NewJobID, of[letter.ID])
		}
	}
	audit, err := s.Audit(t.Context(), pawl.AuditFilter{Action: pawl.ActionRedrive}, pawl.Page{Limit: 1000})
	if err != nil || len(audit.Entries) != letters {
		t.Errorf("%d lines in the trail, %v", len(audit.Entries), err)
	}
}
