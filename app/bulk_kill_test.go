package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/wire"
)

// A redrive of many whose process is killed five times on its way, each time by another way to run it, leaves one new job
// for each letter.
func TestRedriveOfManyIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		redriveManyAndKill(t, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		redriveManyAndKill(t, database(t))
	})
}

func redriveManyAndKill(t *testing.T, at string) {
	t.Helper()
	const letters, kills = 3000, 5
	p := &program{mux: pawl.NewMux(), flags: []config.Flag{{Name: "--store", Key: config.StoreKey, Value: at}}}
	s, err := p.open(t.Context(), making)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	recordMany(t, s, letters)
	filter := []string{"--kind", "bulk.v1", "--rate", "300/s", "--yes", "--reason", "mended"}
	run := begin(t, at, append([]string{"dead", "redrive"}, filter...)...)
	id := onlyOperation(t, s)
	done := 0
	for n := range kills {
		done = killWhenOn(t, s, run, id, done)
		run = begin(t, at, "op", "resume", id.String()) // takes it up when the lease of the killed one has run out
		if n == 2 {                                     // and a server does
			run.kill(t)
			run = begin(t, at, "serve", "--listen", "127.0.0.1:0")
		}
	}
	if before := operationNow(t, s, id); before.Waiting() == 0 {
		t.Fatalf("all letters were redriven before the last kill: nothing was left to take up: %+v", before)
	}
	if err := run.command.Wait(); err != nil {
		t.Fatalf("the last run: %v\n%s", err, run.talk.String())
	}
	if o := operationNow(t, s, id); o.State != pawl.OperationFinished || o.Done != letters || o.Refused != 0 {
		t.Errorf("operation %+v", o)
	}
	checkOneJobEach(t, s, id, letters)
}

func recordMany(t *testing.T, s store, letters int) {
	t.Helper()
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
	for part := range slices.Chunk(dead, 1000) {
		if _, err := s.RecordDeaths(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
}

// process is a command under way.
type process struct {
	command *exec.Cmd
	out     bytes.Buffer
	talk    bytes.Buffer
}

func begin(t *testing.T, at string, args ...string) *process {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(binary, append(args, "--store", at)...)}
	p.command.Args[0] = "pawl" // what TestMain goes by
	p.command.Env = append(os.Environ(), "USER=kim", "GORACE=atexit_sleep_ms=0")
	p.command.Stdout, p.command.Stderr = &p.out, &p.talk
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Wait(); err == nil {
		t.Fatalf("it has ended before it was killed:\n%s%s", p.out.String(), p.talk.String())
	}
}

// killWhenOn kills a run once it has come on by some steps, and returns how far it had come.
func killWhenOn(t *testing.T, s store, run *process, id pawl.ID, before int) int {
	t.Helper()
	for deadline := time.Now().Add(5 * patience); ; {
		if o := operationNow(t, s, id); o.Done >= before+120 {
			run.kill(t)
			return operationNow(t, s, id).Done
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody goes on with %+v\n%s", operationNow(t, s, id), run.talk.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func operationNow(t *testing.T, s store, id pawl.ID) pawl.Operation {
	t.Helper()
	o, err := s.Operation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// onlyOperation waits for the one that has begun.
func onlyOperation(t *testing.T, s store) pawl.ID {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		page, err := s.Operations(t.Context(), pawl.OperationFilter{}, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Operations) > 0 {
			return page.Operations[0].ID
		}
	}
	t.Fatal("no operation has begun")
	return pawl.ID{}
}

func checkOneJobEach(t *testing.T, s store, id pawl.ID, letters int) {
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
	entries := 0
	for page := (pawl.Page{Limit: 1000}); ; {
		audit, err := s.Audit(t.Context(), pawl.AuditFilter{Action: pawl.ActionRedrive}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range audit.Entries {
			if entries++; !strings.HasSuffix(entry.Why, "operation "+id.String()) {
				t.Errorf("entry %+v", entry)
			}
		}
		if page.After = audit.Next; audit.Next == "" {
			break
		}
	}
	if entries != letters {
		t.Errorf("%d lines in the trail, want %d", entries, letters)
	}
}

// An interrupt pauses an operation, and says how it goes on.
func TestInterruptPausesOperation(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	p := &program{mux: pawl.NewMux(), flags: []config.Flag{{Name: "--store", Key: config.StoreKey, Value: at}}}
	s, err := p.open(t.Context(), making)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	recordMany(t, s, 500)
	run := begin(t, at, "dead", "redrive", "--kind", "bulk.v1", "--rate", "50/s", "--yes", "--reason", "mended", "--json")
	id := onlyOperation(t, s)
	for operationNow(t, s, id).Done == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	if err := run.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = run.command.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitPartly {
		t.Errorf("%v\n%s", err, run.talk.String())
	}
	if want := "Go on with: pawl --store " + at + " op resume " + id.String(); !strings.Contains(run.talk.String(), want) {
		t.Errorf("it says %s, want %s", run.talk.String(), want)
	}
	var form wire.Operation
	if err := json.NewDecoder(bufio.NewReader(&run.out)).Decode(&form); err != nil || form.State != "paused" || form.Reason != "by kim: interrupted" {
		t.Errorf("printed %+v, %v", form, err)
	}
	if o := operationNow(t, s, id); o.State != pawl.OperationPaused || o.Runner != "" || o.Waiting() == 0 {
		t.Errorf("operation %+v", o)
	}
}
