package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

func TestInterruptAndResume(t *testing.T) {
	t.Parallel()
	f := folder(filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		waitForMails(ctx, f, 20)
		cancel()
	}()
	err := options{dir: string(f), input: writeSmallSample(t)}.execute(ctx, streams{io.Discard, io.Discard, false}, brisk)
	cancel()
	<-watching
	if !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "demo --resume --dir "+string(f)) {
		t.Fatalf("got %v", err)
	}
	r, err := execute(t, options{dir: string(f), resume: true})
	if err != nil {
		t.Fatal(err)
	}
	smallSample.check(t, r)
	if r.MailsTwice != 0 {
		t.Errorf("%d mails went out twice", r.MailsTwice)
	}
}

// waitForMails returns when so many have arrived.
func waitForMails(ctx context.Context, f folder, n int) {
	for ctx.Err() == nil {
		entries, _ := os.ReadDir(f.mails())
		if len(entries) >= n {
			return
		}
		pause(ctx, 5*time.Millisecond)
	}
}

func TestKillAndResume(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := folder(filepath.Join(t.TempDir(), "run"))
	child := exec.CommandContext(t.Context(), program, string(f), writeSmallSample(t))
	child.Env = append(os.Environ(), childFlag+"=1")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waitForMails(patience, f, 20)
	if _, err := execute(t, options{dir: string(f), resume: true}); !errors.Is(err, pawl.ErrConflict) ||
		!strings.Contains(err.Error(), fmt.Sprintf("(process %d)", child.Process.Pid)) {
		t.Errorf("a second run beside the first: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if code := child.ProcessState.ExitCode(); code != -1 {
		t.Fatalf("the run ended before it was killed: %d", code)
	}

	recorded, before := sentAndReceived(t, f)
	if len(recorded) == 0 || len(recorded) == smallSample.signUps {
		t.Fatalf("%d mails are recorded as sent: not in the middle", len(recorded))
	}
	r, err := execute(t, options{dir: string(f), resume: true})
	if err != nil {
		t.Fatal(err)
	}
	smallSample.check(t, r)
	_, after := sentAndReceived(t, f)
	for mail := range recorded {
		if after[mail] != before[mail] {
			t.Errorf("mail %s was recorded as sent and went out again: %d copies, then %d", mail, before[mail], after[mail])
		}
	}
	if r.MailsTwice > brisk(0).workers {
		t.Errorf("%d mails went out twice: more than were being sent when the run was killed", r.MailsTwice)
	}
}

func sentAndReceived(t *testing.T, f folder) (map[string]bool, map[string]int) {
	t.Helper()
	l, err := openLedger(t.Context(), f.store())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	sent, err := l.sentMails(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	received, err := receivedMails(&box{path: f.mails()})
	if err != nil {
		t.Fatal(err)
	}
	return sent, received
}

func TestEnqueueingAgainAddsWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := folder(t.TempDir())
	rows, err := parseSignUps(sample)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, f)
	l, err := openLedger(t.Context(), f.store())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, n := range []int{60, 60, 100, 200} {
		in := &intake{ledger: l, store: s, corrupted: corruptible(rows)}
		if err := in.enqueue(t.Context(), rows[:n]); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := allJobs(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, job := range jobs {
		view, err := s.Job(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pawl.DecodeEnvelope(view.Envelope); err != nil {
			damaged++
		}
	}
	if n, err := l.signUps(t.Context()); err != nil || n != 200 || len(jobs) != 400 || damaged != 1 {
		t.Errorf("%d sign-ups, %d jobs, %d damaged (%v)", n, len(jobs), damaged, err)
	}
}
