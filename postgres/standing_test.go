package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// standing is a store whose due jobs are claimed where they stand.
type standing struct {
	inSchema
	claims postgres.Standing
}

func stand(s inSchema) standing { return standing{s, postgres.Stand(s.Store)} }

func (s standing) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	return s.claims.Claim(ctx, request)
}

// Job shows what a sweep has set aside as what it would have become.
func (s standing) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	view, err := s.inSchema.Job(ctx, id)
	return postgres.Aside(view), err
}

// Jobs shows the same.
func (s standing) Jobs(ctx context.Context, filter pawl.JobFilter, page pawl.Page) (pawl.JobPage, error) {
	found, err := s.inSchema.Jobs(ctx, filter, page)
	for i := range found.Jobs {
		found.Jobs[i] = postgres.Aside(found.Jobs[i])
	}
	return found, err
}

func standingHarness(t testing.TB) storetest.Harness {
	h := harness(t)
	return storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) storetest.Store { return stand(h.Open(t, o).(inSchema)) },
		Reopen: func(t testing.TB, s storetest.Store) storetest.Store {
			return stand(reopen(t, s.(standing).inSchema).(inSchema))
		},
		Backdate: func(t testing.TB, s storetest.Store, by time.Duration) {
			backdate(t, s.(standing).inSchema, by)
		},
		Begin: func(t testing.TB, s storetest.Store) storetest.Tx { return begin(t, s.(standing).inSchema) },
		Only:  []string{"Unique", "Lines", "Limits", "Order", "Schedule", "Wake", "Settle", "Session", "Crash", "Verdict", "Jobs", "Cancel", "JobActs"},
	}
}

// A backlog of due jobs is claimed where it stands, each job once and in order; what a host that dies or is cut off holds of
// it is found.
func TestBacklogIsClaimedWhereItStands(t *testing.T) {
	t.Parallel()
	const jobs = 6000
	store := openFresh(t, storetest.Options{}).(inSchema)
	second := reopen(t, store).(inSchema)
	session, other := openSession(t, store), openSession(t, second)
	at := make(map[pawl.ID]int, jobs)
	batch := make([]pawl.NewJob, jobs)
	for i := range batch {
		batch[i] = newJob(t, store)
		batch[i].RunAt = time.Now().Add(time.Hour + time.Duration(i)*time.Millisecond)
		at[batch[i].ID] = i
	}
	put(t, store, batch...)
	backdate(t, store, 2*time.Hour)
	sweep := func(store inSchema, session pawl.SessionID, dead ...pawl.SeenSession) pawl.SweepReport {
		t.Helper()
		report, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session, Dead: dead})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	moved := sweep(store, session)
	if moved.More || moved.Due == 0 || moved.Due == jobs || moved.NextDue <= 0 {
		t.Fatalf("the sweep of a backlog: %+v", moved)
	}
	var held []pawl.Reservation
	next := 0
	for {
		claimed := claimNext(t, store, session, 500)
		for _, job := range claimed.Jobs {
			if at[job.ID] != next || job.Attempt != 1 {
				t.Fatalf("job %d came in place of %d, attempt %d", at[job.ID], next, job.Attempt)
			}
			next++
			held = append(held, job.Reservation)
		}
		if len(claimed.Jobs) == 0 {
			break
		}
	}
	if next != jobs {
		t.Fatalf("%d jobs of %d were claimed, %d of them moved before", next, jobs, moved.Due)
	}
	if again := sweep(second, other); again.Due != 0 || again.NextDue == 0 {
		t.Errorf("a sweep while all are held: %+v", again)
	}
	queues, err := store.Queues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Reserved != jobs || queues[0].Waiting+queues[0].Scheduled != 0 {
		t.Errorf("queues %+v, error %v", queues, err)
	}
	reply, err := store.Beat(t.Context(), session, pawl.Beat{Held: held[:10], Reconcile: true})
	if err != nil || len(reply.Found) != jobs-10 {
		t.Errorf("%d reservations found that the host does not know, want %d; error %v", len(reply.Found), jobs-10, err)
	}
	seen, err := second.Beat(t.Context(), other, pawl.Beat{})
	if err != nil {
		t.Fatal(err)
	}
	recovered := 0
	report := sweep(second, other, seen.Others...)
	for ; report.Recovered > 0 || report.More; report = sweep(second, other) {
		recovered += report.Recovered
	}
	if recovered != jobs {
		t.Errorf("%d jobs recovered of %d", recovered, jobs)
	}
	again := 0
	for claimed := claimNext(t, second, other, 500); len(claimed.Jobs) > 0; claimed = claimNext(t, second, other, 500) {
		for _, job := range claimed.Jobs {
			if job.Attempt != 2 || job.Crashes != 1 {
				t.Fatalf("a recovered job: attempt %d, crashes %d", job.Attempt, job.Crashes)
			}
		}
		again += len(claimed.Jobs)
	}
	if again != jobs {
		t.Errorf("%d jobs came back of %d", again, jobs)
	}
}

// What a dead host holds of a backlog is found, too, when the server's clock was set back since it was claimed.
func TestStandingJobsAreRecoveredAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	const jobs = 10
	store := openFresh(t, storetest.Options{}).(inSchema)
	session, other := openSession(t, store), openSession(t, store)
	batch := make([]pawl.NewJob, jobs)
	for i := range batch {
		batch[i] = newJob(t, store)
		batch[i].Delay = time.Minute
	}
	put(t, store, batch...)
	backdate(t, store, 2*time.Minute)
	postgres.Backlog(store.Store)
	if claimed := claimNext(t, store, session, jobs); len(claimed.Jobs) != jobs {
		t.Fatalf("%d jobs were claimed of %d", len(claimed.Jobs), jobs)
	}
	backdate(t, store, -30*time.Minute)
	seen, err := store.Beat(t.Context(), other, pawl.Beat{})
	if err != nil {
		t.Fatal(err)
	}
	report := pawl.SweepReport{More: true}
	recovered := 0
	for dead := seen.Others; report.More || report.Recovered > 0; dead = nil {
		if report, err = store.Sweep(t.Context(), pawl.SweepRequest{Session: other, Dead: dead}); err != nil {
			t.Fatal(err)
		}
		recovered += report.Recovered
	}
	if recovered != jobs {
		t.Errorf("%d jobs were recovered of %d", recovered, jobs)
	}
}

// A sweep leaves a backlog to claims while they take it about as fast, and takes it up again when they do not.
func TestSweepLeavesABacklogToFastClaims(t *testing.T) {
	t.Parallel()
	var leaves []bool
	for _, claims := range []struct {
		jobs int
		took time.Duration
	}{{1000, 50 * time.Millisecond}, {500, 50 * time.Millisecond}, {0, time.Second}, {20_000, time.Second}} {
		leaves = append(leaves, postgres.LeavesDue(claims.jobs, claims.took))
	}
	if want := []bool{true, false, false, true}; !slices.Equal(leaves, want) {
		t.Errorf("left to claims: %v, want %v", leaves, want)
	}
}

func TestConformanceStanding(t *testing.T) {
	server(t)
	storetest.Run(t, standingHarness(t))
}
