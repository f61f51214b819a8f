package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
	"go.uber.org/goleak"
)

// childFlag makes the test binary the demo itself, to be killed.
const childFlag = "PAWL_DEMO_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childFlag) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	o := options{dir: os.Args[1], input: os.Args[2]}
	err := o.execute(context.Background(), streams{io.Discard, os.Stderr, false}, func(rows int) tempo {
		t := brisk(rows)
		t.pace = 60 * time.Millisecond
		return t
	})
	if err != nil {
		os.Exit(1)
	}
}

// brisk is a run in which nobody has to watch.
func brisk(int) tempo {
	ms := time.Millisecond
	return tempo{
		workers: 8, outage: 150 * ms, tick: 20 * ms, stall: 30 * time.Second,
		options: []pawl.Option{pawl.Backoff(50*ms, 100*ms, 200*ms, 400*ms), pawl.Timeout(2 * time.Second)},
	}
}

// execute runs the demo in this process.
func execute(t *testing.T, o options) (report, error) {
	t.Helper()
	var out, talk bytes.Buffer
	o.json = true
	err := o.execute(t.Context(), streams{&out, &talk, false}, brisk)
	var r report
	if err == nil || errors.Is(err, errUnreconciled) {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("stdout is not one object: %v: %s", err, &out)
		}
	}
	if t.Failed() || err != nil {
		t.Logf("talk: %s\nout: %s", &talk, &out)
	}
	return r, err
}

func openStore(t *testing.T, f folder) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), f.store(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// total is what a run has to come to, however often it was cut off.
type total struct{ signUps, unknown, gone int }

var (
	wholeSample = total{200, 5, 1}
	smallSample = total{80, 2, 0}
)

// writeSmallSample writes the first rows of the sample.
func writeSmallSample(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "small.csv")
	lines := bytes.SplitAfter(sample, []byte("\n"))[:smallSample.signUps+1]
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// check expects, beside the unknown roles and the missing mailboxes, one profile that is refused, two whose keeper is
// down, and one damaged envelope.
func (w total) check(t *testing.T, r report) {
	t.Helper()
	dead := w.unknown + w.gone + 4
	if !r.Reconciled || r.Enqueued != 2*w.signUps || r.Done != r.Enqueued-dead || r.Dead != dead {
		t.Errorf("reconciled %t %q: %d enqueued, %d done, %d dead", r.Reconciled, r.Problems, r.Enqueued, r.Done, r.Dead)
	}
	if r.ByClass["permanent"] != w.unknown+w.gone+1 || r.ByClass["transient-exhausted"] != 2 || r.ByClass["poison"] != 1 {
		t.Errorf("classes %v", r.ByClass)
	}
	if len(r.Alerts) != 3 || r.Alerts["log"] != dead || r.Alerts["email"] != dead || r.Alerts["webhook"] != dead {
		t.Errorf("alerts %v", r.Alerts)
	}
	if mails := w.signUps - w.gone; r.MailsSent != mails || r.MailsReceived != mails || r.Profiles != w.signUps-w.unknown-4 {
		t.Errorf("%d mails sent, %d received, %d profiles", r.MailsSent, r.MailsReceived, r.Profiles)
	}
	if r.Retries < w.signUps/10 {
		t.Errorf("%d retries: where are the failures?", r.Retries)
	}
}

func TestRunReconciles(t *testing.T) {
	t.Parallel()
	f := folder(filepath.Join(t.TempDir(), "run"))
	r, err := execute(t, options{dir: string(f)})
	if err != nil {
		t.Fatal(err)
	}
	wholeSample.check(t, r)
	if r.MailsTwice != 0 || r.Dir != string(f) || r.Store != "sqlite:"+f.store() || r.Mails != f.mails() {
		t.Errorf("got %+v", r)
	}
	checkPoison(t, f)
	checkHang(t, f)

	if _, err := execute(t, options{dir: string(f)}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second fresh run in the same folder: %v", err)
	}
	again, err := execute(t, options{dir: string(f), resume: true})
	if err != nil {
		t.Fatal(err)
	}
	wholeSample.check(t, again)

	decide(t, f)
	last, err := execute(t, options{dir: string(f), resume: true})
	if err != nil {
		t.Fatal(err)
	}
	checkDecided(t, last)
}

// decide does what the hints at the end of a run say, and one thing that they do not: one unknown role is put back as
// it is. The mail to the mailbox that was missing goes back under its own id.
func decide(t *testing.T, f folder) {
	t.Helper()
	s := openStore(t, f)
	desk, err := ops.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	letters, err := allLetters(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	by := pawl.By{Who: "test"}
	stubborn := false
	for _, listed := range letters {
		letter, err := s.Letter(t.Context(), listed.ID)
		if err != nil {
			t.Fatal(err)
		}
		redrive := ops.RedriveOptions{By: by}
		args, _, unknown := mended(letter)
		switch {
		case letter.Class == pawl.DeathPoison:
			if _, err := desk.Redrive(t.Context(), letter.ID, redrive); err == nil {
				t.Error("a damaged envelope was redriven")
			}
			err = desk.Discard(t.Context(), letter.ID, by, "")
		case letter.Kind == verificationMail.Name():
			_, err = desk.Retry(t.Context(), letter.ID, ops.RetryOptions{By: by})
		case unknown && stubborn:
			redrive.Args = json.RawMessage(args)
			fallthrough
		default:
			stubborn = stubborn || unknown
			_, err = desk.Redrive(t.Context(), letter.ID, redrive)
		}
		if err != nil {
			t.Errorf("%s: %v", letter.Message, err)
		}
	}
}

func checkDecided(t *testing.T, r report) {
	t.Helper()
	want := report{Enqueued: 408, Done: 398, Dead: 10, Redriven: 8, MailsSent: 200, MailsReceived: 200, Profiles: 198}
	got := report{
		Enqueued: r.Enqueued, Done: r.Done, Dead: r.Dead, Redriven: r.Redriven,
		MailsSent: r.MailsSent, MailsReceived: r.MailsReceived, Profiles: r.Profiles,
	}
	if !r.Reconciled || !reflect.DeepEqual(got, want) {
		t.Errorf("after the decisions: reconciled %t %q, got %+v, want %+v", r.Reconciled, r.Problems, got, want)
	}
	if r.Alerts["log"] != 11 || r.Alerts["email"] != 11 || r.Alerts["webhook"] != 11 {
		t.Errorf("one redriven job dies again; alerts %v", r.Alerts)
	}
}

// checkPoison finds the damaged envelope, with the bytes that were found.
func checkPoison(t *testing.T, f folder) {
	t.Helper()
	s := openStore(t, f)
	page, err := s.Letters(t.Context(), pawl.LetterFilter{Class: []pawl.DeathClass{pawl.DeathPoison}}, pawl.Page{})
	if err != nil || len(page.Letters) != 1 {
		t.Fatalf("%d letters of class poison, want 1 (%v)", len(page.Letters), err)
	}
	letter, err := s.Letter(t.Context(), page.Letters[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.DecodeEnvelope(letter.Envelope); err == nil || letter.Reason != pawl.ReasonUndecodable || len(letter.Envelope) < 50 {
		t.Errorf("reason %s, %d bytes kept, %v", letter.Reason, len(letter.Envelope), err)
	}
}

// checkHang finds the one attempt that got no answer, and that its job has ended well all the same.
func checkHang(t *testing.T, f folder) {
	t.Helper()
	rows, err := parseSignUps(sample)
	if err != nil {
		t.Fatal(err)
	}
	for id, fault := range newFaultPlan(rows, corruptible(rows), 0).faults {
		if fault != faultHang {
			continue
		}
		job, err := openStore(t, f).Job(t.Context(), jobID(profilePost.Name(), id))
		if err != nil || job.State != pawl.JobDone || job.Attempt < 2 {
			t.Errorf("the post that hung: %s, attempt %d (%v)", job.State, job.Attempt, err)
		}
	}
}

func TestOtherInputAndOddNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.csv")
	text := "email,name,role,id\n" +
		"a@x.example,\"Ann \"\"the, Łucky\"\" 李\",admin,1/../2\n" +
		"b@x.example,B,astronaut,=1+1\n" +
		"c@x.example,C,viewer,ü\n"
	if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := execute(t, options{dir: filepath.Join(dir, "run"), input: input})
	if err != nil {
		t.Fatal(err)
	}
	// Of two posts that could do well one is damaged, and what keeps the other is down.
	if r.Enqueued != 6 || r.Dead != 3 || r.ByClass["poison"] != 1 || r.ByClass["permanent"] != 1 || r.MailsReceived != 3 {
		t.Errorf("got %+v", r)
	}
}

func TestMalformedInputLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.csv")
	if err := os.WriteFile(input, []byte("id,email,name,role\n1,a@b.example,A,admin\n2,nobody,B,admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, options{dir: filepath.Join(dir, "run"), input: input})
	if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), `line 3: email "nobody" must be`) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}

func TestFolderTakesOneRunAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, taken, err := newFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	second := options{dir: dir, input: writeSmallSample(t)}
	if _, err := execute(t, second); !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), "another demo") {
		t.Errorf("before the first has begun: %v", err)
	}
	if err := first.fill(sample); err != nil {
		t.Fatal(err)
	}
	second.input, second.resume = "", true
	if _, err := execute(t, second); !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), "another demo") {
		t.Errorf("beside the first: %v", err)
	}
	if err := taken.release(); err != nil {
		t.Fatal(err)
	}
	if again, err := first.lock(); err != nil {
		t.Errorf("after the first: %v", err)
	} else if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestFolderOfSomethingElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, options{dir: dir}); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries (%v)", len(entries), err)
	}
}

func TestResumeWithoutRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := execute(t, options{dir: dir, resume: true}); !errors.Is(err, pawl.ErrNotFound) || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("got %v", err)
	}
	if _, err := latestFolder(dir); err == nil {
		t.Error("a latest run where there is none")
	}
	for _, name := range []string{folderPrefix + "a", folderPrefix + "b", folderPrefix + "open"} {
		f := folder(filepath.Join(dir, name))
		if err := errors.Join(os.Mkdir(string(f), 0o700), f.fill(sample)); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	err := errors.Join(os.Chtimes(folder(filepath.Join(dir, folderPrefix+"a")).input(), later, later),
		os.Chtimes(folder(filepath.Join(dir, folderPrefix+"open")).input(), later.Add(1), later.Add(1)),
		os.Chmod(filepath.Join(dir, folderPrefix+"open"), 0o777))
	if err != nil {
		t.Fatal(err)
	}
	if f, err := latestFolder(dir); err != nil || filepath.Base(string(f)) != folderPrefix+"a" {
		t.Errorf("latest is %s (%v)", f, err)
	}
}
