package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/outbox"
)

// faulty is a store that refuses what it is told to.
type faulty struct {
	store
	mu     sync.Mutex
	faults func(jobs []pawl.NewJob) error
	calls  [][]pawl.ID
	record func(done bool) error // of letters; before and after
}

func (f *faulty) set(faults func(jobs []pawl.NewJob) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

func (f *faulty) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	f.mu.Lock()
	faults := f.faults
	ids := make([]pawl.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	f.calls = append(f.calls, ids)
	f.mu.Unlock()
	if faults != nil {
		if err := faults(jobs); err != nil {
			return nil, err
		}
	}
	return f.store.Enqueue(ctx, jobs)
}

func (f *faulty) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	if f.record != nil {
		if err := f.record(false); err != nil {
			return nil, err
		}
	}
	out, err := f.store.RecordDeaths(ctx, letters)
	if err == nil && f.record != nil {
		err = f.record(true)
	}
	return out, err
}

// refusing says no where one of these is among the jobs.
func refusing(err error, bad ...pawl.NewJob) func(jobs []pawl.NewJob) error {
	return func(jobs []pawl.NewJob) error {
		for _, job := range jobs {
			for _, b := range bad {
				if job.ID == b.ID {
					return fmt.Errorf("job %s: %w", job.ID, err)
				}
			}
		}
		return nil
	}
}

func lettersOf(t testing.TB, s store) map[string]pawl.DeadLetter {
	t.Helper()
	page, err := s.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]pawl.DeadLetter{}
	for _, l := range page.Letters {
		whole, err := s.Letter(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[l.SourceMessageID]; twice {
			t.Errorf("message %s has two letters", l.SourceMessageID)
		}
		out[l.SourceMessageID] = whole
	}
	return out
}

// sink has every later death write an alert.
func sink(t testing.TB, s store) {
	t.Helper()
	if _, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "host", Sinks: []string{"log"}}); err != nil {
		t.Fatal(err)
	}
}

func alerts(t testing.TB, s store) int {
	t.Helper()
	sinks, err := s.Sinks(t.Context())
	if err != nil || len(sinks) != 1 {
		t.Fatalf("sinks %v, error %v", sinks, err)
	}
	return sinks[0].Pending
}

// A message that cannot be dispatched blocks nobody, and dies at its tenth claim with its exact bytes.
func TestPoison(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := &faulty{store: fileStore(t)}
		sink(t, target)
		jobs := newJobs(t, 40)
		damaged, refused, unclear := jobs[0], jobs[17], jobs[39]
		b.write(t, jobs...)
		b.exec(t, `update {t} set envelope = $1 where seq = (select min(seq) from {t})`, []byte("PWL?"))
		target.set(func(jobs []pawl.NewJob) error {
			return errors.Join(refusing(pawl.ErrUnsupported, refused)(jobs), refusing(errors.New("some fault"), unclear)(jobs))
		})
		var log safeBuffer
		stop := start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, target))
		var good []pawl.NewJob
		for _, job := range jobs {
			if job.ID != damaged.ID && job.ID != refused.ID && job.ID != unclear.ID {
				good = append(good, job)
			}
		}
		until(t, "the good ones are through", func() bool { return b.number(t, `select count(*) from {t} where status = 2`) == len(good) })
		until(t, "all are dead", func() bool {
			again(t, b)
			return b.number(t, `select count(*) from {t} where status = 3 and attempts = 10`) == 3
		})
		stop()
		letters := lettersOf(t, target)
		for _, want := range []struct {
			job      pawl.NewJob
			reason   pawl.Reason
			kind     string
			envelope []byte
		}{
			{damaged, pawl.ReasonUndecodable, pawl.UndecodableKind, []byte("PWL?")},
			{refused, pawl.ReasonRefused, work.Name(), nil},
			{unclear, pawl.ReasonRefused, work.Name(), nil},
		} {
			l := letters[want.job.ID.String()]
			if !l.JobID.IsZero() || l.Class != pawl.DeathPoison || l.Reason != want.reason || l.Kind != want.kind || l.Attempts != 10 ||
				l.Connection != "default" || l.Message == "" || l.EnqueuedAt.IsZero() || l.Host != "test" {
				t.Errorf("letter %+v", l)
			}
			if envelope, err := pawl.DecodeEnvelope(l.Envelope); want.envelope == nil && (err != nil || envelope.ID != want.job.ID) ||
				want.envelope != nil && !bytes.Equal(l.Envelope, want.envelope) {
				t.Errorf("envelope %q, error %v", l.Envelope, err)
			}
		}
		if len(letters) != 3 || alerts(t, target) != 3 || strings.Count(log.String(), "job dead-lettered") != 3 {
			t.Errorf("%d letters, %d alerts, log:\n%s", len(letters), alerts(t, target), log.String())
		}
		redrivePoison(t, target, letters[damaged.ID.String()], letters[refused.ID.String()])
	})
}

// again has all that waits claimed again, and with it a message that shows that the store is there.
func again(t *testing.T, b *business) {
	t.Helper()
	if err := b.switchOff(t); err != nil {
		t.Fatal(err)
	}
	b.write(t, newJob(t, -1))
	b.expire(t)
	if err := b.switchOn(t); err != nil {
		t.Fatal(err)
	}
}

// redrivePoison redrives what a store can take by now, and not what nobody can read.
func redrivePoison(t *testing.T, target *faulty, damaged, refused pawl.DeadLetter) {
	t.Helper()
	desk, err := ops.New(target.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	claimAll(t, target)
	by := pawl.By{Who: "ann", Why: "mended"}
	if _, err := desk.Redrive(t.Context(), damaged.ID, ops.RedriveOptions{By: by}); !errors.Is(err, pawl.ErrRedriveRefused) {
		t.Errorf("redrive of what cannot be read: %v", err)
	}
	job, err := desk.Redrive(t.Context(), refused.ID, ops.RedriveOptions{By: by})
	if err != nil {
		t.Fatal(err)
	}
	claimed := claimAll(t, target)
	if len(claimed) != 1 || claimed[0].ID != job || claimed[0].Letter != refused.ID {
		t.Errorf("claimed %v, want job %s", claimed, job)
	}
	letter, err := target.Letter(t.Context(), refused.ID)
	if err != nil || letter.Outcome != pawl.RedriveSucceeded {
		t.Errorf("the letter's outcome is %q, error %v", letter.Outcome, err)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A store that is down spends no claims, fills no log, and gets all when it is back, in order.
func TestOutage(t *testing.T) {
	for name, down := range map[string]error{
		"closed":     pawl.ErrClosed,
		"busy":       pawl.ErrBusy,
		"old tables": pawl.ErrSchema,
		"timeout":    context.DeadlineExceeded,
		"unclear":    errors.New("no idea"),
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *business) {
				target := &faulty{store: fileStore(t)}
				target.set(func([]pawl.NewJob) error { return down })
				jobs := newJobs(t, 30)
				b.write(t, jobs...)
				var log safeBuffer
				d := b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, target)
				start(t, d)
				until(t, "it was tried again and again", func() bool { return d.Counts().GivenBack >= 30+3*10 })
				if n := b.number(t, `select coalesce(max(attempts), -1) from {t}`); n != 0 {
					t.Errorf("%d claims were spent", n)
				}
				if lines := strings.Count(log.String(), "level=WARN"); lines != 1 {
					t.Errorf("%d warnings:\n%s", lines, log.String())
				}
				target.set(nil)
				b.empty(t)
				same(t, "in the store", jobsOf(t, target), jobs)
				if n := len(lettersOf(t, target)); n > 0 {
					t.Errorf("%d letters", n)
				}
			})
		})
	}
}

// A death whose record fails, before it happened or after, is recorded later and once; the message is not dispatched any
// more, even if the store would take it.
func TestDeathThatCannotBeRecorded(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after=", after), func(t *testing.T) {
			onEach(t, func(t *testing.T, b *business) {
				target := &faulty{store: fileStore(t)}
				job := newJob(t, 1)
				target.set(refusing(pawl.ErrUnsupported, job))
				failures := make(chan bool, 1)
				target.record = func(done bool) error {
					if done != after {
						return nil
					}
					select {
					case failures <- true:
						target.set(nil)
						return errors.New("cut off")
					default:
						return nil
					}
				}
				b.write(t, job)
				b.exec(t, `update {t} set attempts = 9`)
				start(t, b.dispatcher(t, target, nil, target))
				until(t, "the message is dead", func() bool {
					b.expire(t)
					return b.number(t, `select count(*) from {t} where status = 3`) == 1
				})
				if ids := jobsOf(t, target); len(ids) > 0 {
					t.Errorf("jobs %v", ids)
				}
				l, ok := lettersOf(t, target)[job.ID.String()]
				if !ok || !strings.Contains(l.Message, "not supported") || l.Attempts != 10 {
					t.Errorf("letter %+v", l)
				}
			})
		})
	}
}

// A message that nobody survives is taken alone from its third time on, and dies at its tenth claim without another try. Its
// neighbours are dispatched.
func TestMessageThatKillsItsDispatchers(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := &faulty{store: fileStore(t)}
		jobs := newJobs(t, 5)
		b.write(t, jobs...)
		b.exec(t, `update {t} set attempts = 3, lost = 3`)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		target.mu.Lock()
		for _, call := range target.calls {
			if len(call) != 1 {
				t.Errorf("%d suspects were handed in together", len(call))
			}
		}
		target.mu.Unlock()
		same(t, "in the store", jobsOf(t, target), jobs)

		if err := b.switchOff(t); err != nil {
			t.Fatal(err)
		}
		mixed := newJobs(t, 3)
		b.write(t, mixed...)
		b.exec(t, `update {t} set attempts = 3, lost = 3 where seq = (select max(seq) from {t}) - 1`)
		if err := b.switchOn(t); err != nil {
			t.Fatal(err)
		}
		b.empty(t)
		target.mu.Lock()
		for _, call := range target.calls {
			if len(call) > 1 && slices.Contains(call, mixed[1].ID) {
				t.Error("a suspect was handed in among others")
			}
		}
		target.mu.Unlock()
		jobsOf(t, target)

		killer := newJob(t, 6)
		target.set(refusing(errors.New("handed in"), killer))
		if err := b.switchOff(t); err != nil {
			t.Fatal(err)
		}
		b.write(t, killer)
		b.exec(t, `update {t} set attempts = 9, lost = 9 where ended_at is null`)
		if err := b.switchOn(t); err != nil {
			t.Fatal(err)
		}
		b.empty(t)
		l := lettersOf(t, target)[killer.ID.String()]
		if l.Reason != pawl.ReasonCrashLoop || l.Class != pawl.DeathPoison {
			t.Errorf("letter %+v", l)
		}
	})
}
