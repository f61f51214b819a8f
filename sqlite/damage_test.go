package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

const damagedKind = "damaged.v1"

// damageable is a store, its file and its log.
func damageable(t *testing.T) (*sqlite.Store, *sql.DB, *journal) {
	t.Helper()
	log := new(journal)
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Config{Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, openBeside(t, onFile{store, path, storetest.Options{}}), log
}

func damage(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	result, err := db.ExecContext(t.Context(), statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: damaged %d rows, %v", statement, n, err)
	}
}

func claimDamaged(t *testing.T, store pawl.Store, session pawl.SessionID, most int) []pawl.ClaimedJob {
	t.Helper()
	return claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{damagedKind}, Max: most})
}

// settleOne settles a job and fails the test where it is refused.
func settleOne(t *testing.T, store pawl.Store, session pawl.SessionID, s pawl.Settlement) {
	t.Helper()
	errs, err := store.Settle(t.Context(), session, []pawl.Settlement{s})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// A record of an attempt that cannot be read is missing from the history, and nothing else is.
func TestDamagedAttempt(t *testing.T) {
	t.Parallel()
	store, db, log := damageable(t)
	enqueue(t, store, damagedKind)
	session := host(t, store, damagedKind)
	for attempt := 1; attempt <= 3; attempt++ {
		job := claimDamaged(t, store, session, 1)[0]
		settleOne(t, store, session, pawl.Settlement{
			Reservation: job.Reservation, Outcome: pawl.Retry{}, Record: &pawl.AttemptRecord{Attempt: attempt, Ending: pawl.EndTimedOut},
		})
	}
	damage(t, db, `update pawl_attempt set record = '{"attempt": 1, cut' where n = 1`)
	damage(t, db, `update pawl_attempt set record = '[]' where n = 3`)
	enqueue(t, store, damagedKind)
	jobs := claimDamaged(t, store, session, 10)
	if len(jobs) != 2 || len(jobs[0].History) != 1 || jobs[0].History[0].Attempt != 2 {
		t.Errorf("claimed %+v, want two jobs, the first with its second attempt", jobs)
	}
	if n := log.count("cannot be read"); n != 1 {
		t.Errorf("%d warnings for one job", n)
	}
	if view, err := store.Job(t.Context(), jobs[0].ID); err != nil || len(view.History) != 1 {
		t.Errorf("job %+v, %v", view, err)
	}
}

// A job whose death was decided is buried also when its letter cannot be read, with what is left of it.
func TestDamagedVerdict(t *testing.T) {
	t.Parallel()
	for _, remains := range []string{`{"id": "cut o`, `{}`, `null`, `7`} {
		store, db, log := damageable(t)
		id := enqueue(t, store, damagedKind)
		session := host(t, store, damagedKind)
		job := claimDamaged(t, store, session, 1)[0]
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, job, pawl.Dead{}, time.Now(), errors.New("failed"))
		errs, err := store.Condemn(t.Context(), session, []pawl.Settlement{{Reservation: job.Reservation, Outcome: pawl.Dead{}, Letter: &letter}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		damage(t, db, `update pawl_verdict set letter = ?`, remains)
		if err := store.CloseSession(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		enqueue(t, store, damagedKind)
		session = host(t, store, damagedKind)
		jobs := claimDamaged(t, store, session, 10)
		if len(jobs) != 2 || jobs[0].Verdict == nil || jobs[1].Verdict != nil {
			t.Fatalf("claimed %+v, want two jobs, the first with a verdict", jobs)
		}
		v := jobs[0].Verdict
		settleOne(t, store, session, pawl.Settlement{Reservation: jobs[0].Reservation, Outcome: pawl.Dead{Class: v.Class, Reason: v.Reason}, Letter: v})
		kept, err := store.Letter(t.Context(), v.ID)
		if err != nil || kept.JobID != id || kept.Reason != pawl.ReasonUndecodable || kept.Class != pawl.DeathPoison ||
			!strings.Contains(kept.Detail, remains) || len(kept.Envelope) == 0 {
			t.Errorf("letter %+v, %v", kept, err)
		}
		if n := log.count("cannot be read"); n != 1 {
			t.Errorf("%d warnings", n)
		}
	}
}

// A row whose id is damaged is put aside, and its neighbours run.
func TestDamagedID(t *testing.T) {
	t.Parallel()
	for _, stored := range [][]byte{bytes.Repeat([]byte{7}, 15), bytes.Repeat([]byte{7}, 17), {}} {
		store, db, log := damageable(t)
		first, second, third := enqueue(t, store, damagedKind), enqueue(t, store, damagedKind), enqueue(t, store, damagedKind)
		damage(t, db, `update pawl_job set id = ? where id = ?`, stored, second[:])
		session := host(t, store, damagedKind)
		claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{damagedKind}, Max: 2})
		if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != first || !claimed.More {
			t.Fatalf("claimed %+v, %v, want the first and more to come", claimed, err)
		}
		if jobs := claimDamaged(t, store, session, 2); len(jobs) != 1 || jobs[0].ID != third {
			t.Errorf("claimed %+v, want the third", jobs)
		}
		if n := log.count("put aside"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		page, err := store.Jobs(t.Context(), pawl.JobFilter{State: pawl.JobScheduled}, pawl.Page{})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("scheduled are %+v, %v, want the damaged one", page.Jobs, err)
		}
	}
}

// A job whose reference to a letter is damaged runs and ends as one without.
func TestDamagedReferenceToALetter(t *testing.T) {
	t.Parallel()
	for _, stored := range [][]byte{{1, 2, 3}, bytes.Repeat([]byte{7}, 40)} {
		store, db, _ := damageable(t)
		ids := []pawl.ID{enqueue(t, store, damagedKind), enqueue(t, store, damagedKind), enqueue(t, store, damagedKind)}
		for _, id := range ids {
			damage(t, db, `update pawl_job set letter = ? where id = ?`, stored, id[:])
		}
		session := host(t, store, damagedKind)
		jobs := claimDamaged(t, store, session, 2)
		if len(jobs) != 2 || !jobs[0].Letter.IsZero() {
			t.Fatalf("claimed %+v, want two jobs without a letter", jobs)
		}
		settleOne(t, store, session, pawl.Settlement{Reservation: jobs[0].Reservation, Outcome: pawl.Done{}})
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, jobs[1], pawl.Dead{}, time.Now(), errors.New("failed"))
		settleOne(t, store, session, pawl.Settlement{Reservation: jobs[1].Reservation, Outcome: pawl.Dead{}, Letter: &letter})
		if n, err := store.ClearQueue(t.Context(), "2-default", pawl.By{Who: "ann", Door: "cli"}); err != nil || n != 1 {
			t.Errorf("cleared %d jobs, %v", n, err)
		}
	}
}

// What a session has told about itself is needed neither to end it nor to look for orphans.
func TestDamagedSession(t *testing.T) {
	t.Parallel()
	store, db, _ := damageable(t)
	id := enqueue(t, store, damagedKind)
	observer, victim := host(t, store, "other.v1"), host(t, store, damagedKind)
	claimDamaged(t, store, victim, 1)
	damage(t, db, `update pawl_session set info = '{"Kinds": [' where id = ?`, int64(victim))
	orphans := pawl.ClaimRequest{Session: observer, Queues: []string{"2-default"}, Max: 1, Orphans: &pawl.Orphans{Unseen: time.Hour}}
	if jobs := claim(t, store, orphans); len(jobs) != 0 {
		t.Errorf("claimed %+v", jobs)
	}
	report, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: observer, Dead: []pawl.SeenSession{{ID: victim}}})
	if err != nil || report.Recovered != 1 {
		t.Errorf("sweep: %+v, %v", report, err)
	}
	if jobs := claimDamaged(t, store, observer, 1); len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("claimed %+v, want the job", jobs)
	}
}

// What a live host has said of itself and cannot be read takes nothing from schedules: it declares none.
func TestDamagedHost(t *testing.T) {
	t.Parallel()
	store, db, _ := damageable(t)
	if _, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "a", Kinds: []string{damagedKind}}); err != nil {
		t.Fatal(err)
	}
	s := pawl.Schedule{Name: "nightly", Spec: "0 3 * * *", Kind: damagedKind}
	by := pawl.By{Who: "anna", Door: "test"}
	if err := store.AddSchedule(t.Context(), s, by); err != nil {
		t.Fatal(err)
	}
	damage(t, db, `update pawl_session set info = '{"Kinds'`)
	page, err := store.Schedules(t.Context(), pawl.ScheduleFilter{}, pawl.Page{})
	if err != nil || len(page.Schedules) != 1 || len(page.Schedules[0].Declarers) != 0 {
		t.Errorf("listed: %+v, error %v", page.Schedules, err)
	}
	s.Spec = "0 4 * * *"
	if err := store.SetSchedule(t.Context(), s, by); err != nil {
		t.Errorf("changed: %v", err)
	}
}
