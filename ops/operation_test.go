package ops_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// shop is a store with letters, as operations see it.
type shop struct {
	*testing.T
	storetest.Store
	desk    *ops.Desk
	session pawl.SessionID
}

func newShop(t *testing.T, store storetest.Store) shop {
	t.Helper()
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{workKind}, Sinks: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	return shop{t, store, newDesk(t, store), session}
}

// onBoth runs a test on both stores.
func onBoth(t *testing.T, test func(s shop)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(newShop(t, openFile(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newShop(t, openPostgres(t)))
	})
}

func openPostgres(t testing.TB) *postgres.Store {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	schema := "ops_" + strings.ToLower(rand.Text())
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Exec(context.Background(), "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
		if err := errors.Join(err, conn.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return store
}

// dead records the letters of n jobs; change may alter each.
func (s shop) dead(n int, policy pawl.Policy, options []pawl.Option, change func(i int, l *pawl.DeadLetter)) []pawl.DeadLetter {
	s.Helper()
	all := make([]pawl.DeadLetter, n)
	for i := range all {
		all[i] = deadLetter(s.T, "default", policy, options...)
		if change != nil {
			change(i, &all[i])
		}
	}
	for part := range slices.Chunk(all, 1000) {
		if _, err := s.RecordDeaths(s.Context(), part); err != nil {
			s.Fatal(err)
		}
	}
	return all
}

func redriveOf(o pawl.OperationOptions) pawl.NewOperation {
	return pawl.NewOperation{Action: pawl.ActionRedrive, By: ann, Options: o}
}

func (s shop) start(o pawl.NewOperation) pawl.Operation {
	s.Helper()
	started, err := s.desk.StartOperation(s.Context(), o)
	if err != nil {
		s.Fatal(err)
	}
	return started
}

func (s shop) run(id pawl.ID) pawl.Operation {
	s.Helper()
	operation, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return operation
}

func (s shop) operation(id pawl.ID) pawl.Operation {
	s.Helper()
	operation, err := s.Operation(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return operation
}

func (s shop) items(id pawl.ID, filter pawl.ItemFilter) []pawl.OperationItem {
	s.Helper()
	page, err := s.OperationItems(s.Context(), id, filter, pawl.Page{Limit: 1000})
	if err != nil {
		s.Fatal(err)
	}
	return page.Items
}

// jobsOf are the jobs of all letters, and fails where a letter has two.
func (s shop) jobsOf() map[pawl.ID]pawl.ID {
	s.Helper()
	of := map[pawl.ID]pawl.ID{}
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := s.Jobs(s.Context(), pawl.JobFilter{}, page)
		if err != nil {
			s.Fatal(err)
		}
		for _, job := range found.Jobs {
			if other, twice := of[job.Letter]; twice {
				s.Fatalf("letter %s went on as %s and as %s", job.Letter, other, job.ID)
			}
			of[job.Letter] = job.ID
		}
		if page.After = found.Next; found.Next == "" {
			return of
		}
	}
}

func (s shop) want(what string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Case 26: one of 1,000 redrives cannot be pushed: it is skipped with its reason, and the rest proceed.
func TestCase26OneRedriveOfManyCannotBePushed(t *testing.T) {
	onBoth(t, func(s shop) {
		letters := s.dead(999, pawl.Policy{}, nil, nil)
		key := s.dead(1, pawl.Policy{}, []pawl.Option{pawl.UniqueWhileUnfinished("k")}, nil)[0]
		held, err := work.Enqueue(s.Context(), s.Store, args{2}, pawl.UniqueWhileUnfinished("k"))
		if err != nil {
			s.Fatal(err)
		}
		o := s.run(s.start(redriveOf(pawl.OperationOptions{})).ID)
		s.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 999, 1, 999})
		refused := s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused})
		if len(refused) != 1 || refused[0].Letter != key.ID || !strings.Contains(refused[0].Reason, held.ID.String()) {
			s.Errorf("refused: %+v", refused)
		}
		s.want("jobs", len(s.jobsOf()), 1000)
		s.want("letter of the last", s.jobsOf()[letters[998].ID].IsZero(), false)
	})
}

// What a kind or a letter forbids is refused among many as it is alone, and each is told why.
func TestOperationObeysPolicies(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(2, pawl.Policy{}, nil, nil)
		never := s.dead(1, pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil)[0]
		alone := s.dead(1, pawl.Policy{Redrive: pawl.RedriveOneByOne}, nil, nil)[0]
		unknown := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Reason = pawl.ReasonLost })[0]
		damaged := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Envelope[9] ^= 1 })[0]
		elsewhere := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Connection = "mails" })[0]
		late := s.dead(1, pawl.Policy{}, []pawl.Option{pawl.RetryUntil(time.Now().Add(500 * time.Millisecond))}, nil)[0]
		time.Sleep(600 * time.Millisecond)

		var rehearsed []string
		n, err := s.desk.RehearseOperation(s.Context(), redriveOf(pawl.OperationOptions{}), func(r ops.Result) {
			if r.Err != nil {
				rehearsed = append(rehearsed, r.Err.Error())
			}
		})
		if err != nil || n != 8 || len(rehearsed) != 6 || len(s.jobsOf()) != 0 {
			s.Fatalf("rehearsed %d, refused %q, %v", n, rehearsed, err)
		}
		o := s.run(s.start(redriveOf(pawl.OperationOptions{Note: "n"})).ID)
		s.want("done and refused", []int{o.Done, o.Refused}, []int{2, 6})
		reasons := map[pawl.ID]string{
			never.ID: "is never run again", alone.ID: "one by one", unknown.ID: "outcome is unknown", damaged.ID: "damaged",
			elsewhere.ID: `connection "mails" is not known`, late.ID: "has passed",
		}
		for _, item := range s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}) {
			if want := reasons[item.Letter]; want == "" || !strings.Contains(item.Reason, want) {
				s.Errorf("refused with %q, want %q", item.Reason, want)
			}
		}
		confirmed := redriveOf(pawl.OperationOptions{Confirmed: true, RetryFor: time.Hour})
		o = s.run(s.start(confirmed).ID)
		s.want("done and refused, when confirmed and restated", []int{o.Done, o.Refused}, []int{2, 4})
		entries, err := s.Audit(s.Context(), pawl.AuditFilter{Action: pawl.ActionRedrive, Subject: late.ID.String()}, pawl.Page{})
		if err != nil || len(entries.Entries) != 1 || entries.Entries[0].Why != "mended; operation "+o.ID.String() || entries.Entries[0].Who != "ann" {
			s.Errorf("trail: %+v, %v", entries, err)
		}
	})
}

// Case 24: a redriven job dies again: a new record, linked; it alerts again; only the newest can be redriven, and a redrive
// of the group runs it once.
func TestCase24RedriveDiesAgain(t *testing.T) {
	onBoth(t, func(s shop) {
		first := s.dead(1, pawl.Policy{}, nil, nil)[0]
		all := redriveOf(pawl.OperationOptions{StopAfter: -1})
		all.Filter.Fingerprint = first.Fingerprint
		newest := first
		for range 3 {
			o := s.run(s.start(all).ID)
			s.want("done and refused", []int{o.Done, o.Refused}, []int{1, 0})
			claimed, err := s.Claim(s.Context(), pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 10})
			if err != nil || len(claimed.Jobs) != 1 {
				s.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
			}
			death := pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}
			again := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, claimed.Jobs[0], death, time.Now(), errors.New("down"))
			errs, err := s.Settle(s.Context(), s.session, []pawl.Settlement{{Reservation: claimed.Jobs[0].Reservation, Outcome: death, Letter: &again}})
			if err = errors.Join(err, errs[0]); err != nil {
				s.Fatal(err)
			}
			s.want("died again", s.operation(o.ID).DiedAgain, 1)
			old, err := s.Letter(s.Context(), newest.ID)
			if err != nil || old.NextLetter != again.ID || old.Outcome != pawl.RedriveDiedAgain {
				s.Fatalf("the old letter: %+v, %v", old, err)
			}
			if newest, err = s.Letter(s.Context(), again.ID); err != nil || newest.Previous != old.ID || newest.Fingerprint != first.Fingerprint {
				s.Fatalf("the new letter: %+v, %v", newest, err)
			}
		}
		every := all
		every.Filter.Status = []pawl.Status{pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved}
		o := s.run(s.start(every).ID)
		s.want("of the whole lineage: done and refused", []int{o.Done, o.Refused}, []int{1, 3})
		for _, item := range s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}) {
			if item.Letter == newest.ID || !strings.Contains(item.Reason, "already redriven") {
				s.Errorf("refused: %+v", item)
			}
		}
		waiting, err := s.Jobs(s.Context(), pawl.JobFilter{State: pawl.JobWaiting}, pawl.Page{})
		if err != nil || len(waiting.Jobs) != 1 || waiting.Jobs[0].Letter != newest.ID {
			s.Errorf("waiting: %+v, %v", waiting, err)
		}
		tasks, err := s.ClaimAlerts(s.Context(), pawl.AlertClaim{Session: s.session, Sinks: []string{"one"}, Max: 100})
		if err != nil || len(tasks) != 4 {
			s.Errorf("%d alerts, %v", len(tasks), err)
		}
	})
}

// Case 25: 20,000 deaths: all can be listed, counted, grouped and redriven, in bounded memory; what is cut off in the middle
// goes on there. (Killed processes are in package app.)
func TestCase25ManyDeaths(t *testing.T) {
	onBoth(t, func(s shop) {
		const n = 20_000
		s.dead(n, pawl.Policy{}, nil, func(i int, l *pawl.DeadLetter) { l.Fingerprint = fmt.Sprint("1-", i%4) })
		listed := 0
		for page := (pawl.Page{Limit: 1000}); ; {
			found, err := s.Letters(s.Context(), pawl.LetterFilter{}, page)
			if err != nil {
				s.Fatal(err)
			}
			listed += len(found.Letters)
			if page.After = found.Next; found.Next == "" {
				break
			}
		}
		counted, err := s.CountLetters(s.Context(), pawl.LetterFilter{})
		groups, groupsErr := s.LetterGroups(s.Context(), pawl.LetterFilter{}, 0)
		s.want("listed, counted, groups, in groups", []any{listed, counted, len(groups.Groups), groups.Letters, err, groupsErr}, []any{n, n, 4, n, nil, nil})

		id := s.start(redriveOf(pawl.OperationOptions{Expect: n})).ID
		before, most := heap(), uint64(0)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		_, err = s.desk.RunOperation(ctx, id, ops.RunOptions{Each: func(o pawl.Operation) {
			if most = max(most, heap()); o.Done > 0 {
				cancel()
			}
		}})
		cut := s.operation(id)
		if !errors.Is(err, context.Canceled) || cut.Done == 0 || cut.Waiting() == 0 || cut.State != pawl.OperationRunning {
			s.Fatalf("cut off: %+v, %v", cut, err)
		}
		o := s.run(id)
		s.want("state, done, refused", []any{o.State, o.Done, o.Refused}, []any{"finished", n, 0})
		s.want("jobs", len(s.jobsOf()), n)
		if grown := most - min(before, most); grown > 32<<20 {
			s.Errorf("the heap grew by %d MB", grown>>20)
		}
	})
}

// heap is what is live.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Closing and opening again many goes the same way.
func TestOperationClosesAndReopens(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(1203, pawl.Policy{}, nil, nil)
		for _, step := range []struct {
			action pawl.Action
			to     pawl.Status
		}{{pawl.ActionResolve, pawl.StatusResolved}, {pawl.ActionReopen, pawl.StatusDead}, {pawl.ActionDiscard, pawl.StatusDiscarded}, {pawl.ActionReopen, pawl.StatusDead}} {
			o := s.run(s.start(pawl.NewOperation{Action: step.action, By: ann, Options: pawl.OperationOptions{Note: string(step.action)}}).ID)
			s.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 1203, 0, 0})
			n, err := s.CountLetters(s.Context(), pawl.LetterFilter{Status: []pawl.Status{step.to}})
			s.want("letters", []any{n, err}, []any{1203, nil})
		}
		_, err := s.desk.StartOperation(s.Context(), pawl.NewOperation{Action: pawl.ActionReopen, By: ann})
		if !errors.Is(err, pawl.ErrNotFound) {
			s.Errorf("nothing to open: %v", err)
		}
	})
}

// A pause and a stop are obeyed within a second, whoever runs it, and a resume goes on there.
func TestOperationIsPausedAndStopped(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(600, pawl.Policy{}, nil, nil)
		id := s.start(redriveOf(pawl.OperationOptions{Rate: 100})).ID
		other := newDesk(s.T, s.Store)
		control := func(action pawl.Action) pawl.Operation {
			var at time.Time
			o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Each: func(o pawl.Operation) {
				if at.IsZero() && o.Runner != "" && o.Done > 0 {
					if err := other.ControlOperation(s.Context(), id, action, pawl.By{Who: "grace", Why: "too fast"}); err != nil {
						s.Error(err)
					}
					at = time.Now()
				}
			}})
			if took := time.Since(at); err != nil || at.IsZero() || took > 2*time.Second {
				s.Fatalf("%s: %+v, %v, after %s", action, o, err, took)
			}
			return o
		}
		o := control(pawl.ActionPause)
		if o.State != pawl.OperationPaused || o.Reason != "by grace: too fast" || o.Done >= 500 || len(s.jobsOf()) != o.Done {
			s.Errorf("paused: %+v", o)
		}
		if err := other.ControlOperation(s.Context(), id, pawl.ActionResume, ann); err != nil {
			s.Fatal(err)
		}
		stopped := control(pawl.ActionStop)
		if stopped.State != pawl.OperationStopped || stopped.Done < o.Done || stopped.Waiting() == 0 || len(s.jobsOf()) != stopped.Done {
			s.Errorf("stopped: %+v", stopped)
		}
		if err := other.ControlOperation(s.Context(), id, pawl.ActionResume, ann); !errors.Is(err, pawl.ErrConflict) {
			s.Errorf("resume of a stopped one: %v", err)
		}
	})
}

// inVirtualTime is a test on SQLite, whose clock is the process's.
func inVirtualTime(t *testing.T, test func(s shop)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newShop(t, openFile(t))) })
}

func TestOperationKeepsItsRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate    float64
		letters int
		took    time.Duration
	}{{0, 1200, 0}, {2, 7, 3500 * time.Millisecond}, {50, 100, 2 * time.Second}, {0.1, 3, 30 * time.Second}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(c.letters, pawl.Policy{}, nil, nil)
				id, start := s.start(redriveOf(pawl.OperationOptions{Rate: c.rate})).ID, time.Now()
				o := s.run(id)
				if took := time.Since(start); o.Done != c.letters || took > c.took+time.Second || took < c.took-time.Duration(float64(time.Second)/max(c.rate, 1)) {
					s.Errorf("it took %v, want %v: %+v", took, c.took, o)
				}
			})
		})
	}
}

// ending ends the jobs of letters as they are redriven, each after a time.
func (s shop) ending(ctx context.Context, after time.Duration, outcome func(n int) pawl.Outcome, fingerprint func(n int) string) {
	for n := 0; ctx.Err() == nil; {
		claimed, err := s.Claim(ctx, pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 1})
		if err != nil || len(claimed.Jobs) == 0 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		time.Sleep(after)
		n++
		settlement := pawl.Settlement{Reservation: claimed.Jobs[0].Reservation, Outcome: outcome(n)}
		if death, dead := settlement.Outcome.(pawl.Dead); dead {
			letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, claimed.Jobs[0], death, time.Now(), errors.New("down"))
			if f := fingerprint(n); f != "" {
				letter.Fingerprint = f
			}
			settlement.Letter = &letter
		}
		if _, err := s.Settle(ctx, s.session, []pawl.Settlement{settlement}); err != nil && ctx.Err() == nil {
			s.Error(err)
		}
	}
}

// alongside runs f beside an operation's run.
func (s shop) alongside(f func(ctx context.Context), run func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	run()
	cancel()
	<-ended
}

var (
	done     = func(int) pawl.Outcome { return pawl.Done{} }
	dies     = func(int) pawl.Outcome { return pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget} }
	asBefore = func(int) string { return "" }
)

func TestOperationProbes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome func(int) pawl.Outcome
		after   time.Duration
		wait    time.Duration
		done    int
		reason  string
	}{
		"well":      {done, 90 * time.Second, 0, 5, ""},
		"died":      {dies, time.Second, 0, 1, "ended so: died again"},
		"never":     {done, time.Hour, 0, 1, "has not ended within 10m0s"},
		"impatient": {done, time.Minute, time.Second, 1, "has not ended within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(1, pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil) // is no probe
				time.Sleep(time.Second)
				s.dead(5, pawl.Policy{}, nil, nil)
				id := s.start(redriveOf(pawl.OperationOptions{Probe: true, ProbeWait: c.wait})).ID
				s.alongside(func(ctx context.Context) { s.ending(ctx, c.after, c.outcome, asBefore) }, func() {
					most := 0
					o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Each: func(o pawl.Operation) {
						if o.State == pawl.OperationProbing {
							most = max(most, o.Done)
						}
					}})
					if err != nil || most != 1 || o.Done != c.done || o.Refused != 1 || !strings.Contains(o.Reason, c.reason) || (o.State == pawl.OperationStopped) != (c.reason != "") {
						s.Errorf("%+v, %d done while probing, %v", o, most, err)
					}
				})
			})
		})
	}
}

func TestOperationStopsWhenTheFirstDieAlike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopAfter int
		outcome   func(int) pawl.Outcome
		print     func(int) string
		stops     bool
	}{
		"all alike":  {3, dies, asBefore, true},
		"by default": {0, dies, asBefore, true},
		"one is not": {3, dies, func(n int) string { return map[bool]string{true: "1-other"}[n == 2] }, false},
		"one is well": {3, func(n int) pawl.Outcome {
			if n == 1 {
				return pawl.Done{}
			}
			return dies(n)
		}, asBefore, false},
		"not asked": {-1, dies, asBefore, false},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(20, pawl.Policy{}, nil, nil)
				id := s.start(redriveOf(pawl.OperationOptions{Rate: 1, StopAfter: c.stopAfter})).ID
				s.alongside(func(ctx context.Context) { s.ending(ctx, 0, c.outcome, c.print) }, func() {
					o := s.run(id)
					if (o.State == pawl.OperationStopped) != c.stops || (o.Done < 20) != c.stops || strings.Contains(o.Reason, "died again as they had before") != c.stops {
						s.Errorf("%+v", o)
					}
				})
			})
		})
	}
}

// A runner that is killed leaves a lease that runs out; another one then goes on, and until then only watches.
func TestOperationIsTakenUp(t *testing.T) {
	inVirtualTime(t, func(s shop) {
		s.dead(3, pawl.Policy{}, nil, nil)
		id := s.start(redriveOf(pawl.OperationOptions{})).ID
		killed, err := s.LeaseOperations(s.Context(), pawl.OperationLease{Runner: "killed", Max: 1})
		if err != nil || len(killed) != 1 {
			s.Fatal(len(killed), err)
		}
		start, runners := time.Now(), []string{}
		o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Runner: "next", Each: func(o pawl.Operation) { runners = append(runners, o.Runner) }})
		if took := time.Since(start); err != nil || o.Done != 3 || took < 4*time.Second || took > 7*time.Second {
			s.Errorf("after %s: %+v, %v", took, o, err)
		}
		if runners[0] != "killed" {
			s.Errorf("runners %q", runners)
		}
		if _, err := s.AdvanceOperation(s.Context(), pawl.OperationStep{Operation: id, Lease: killed[0].Lease}); !errors.Is(err, pawl.ErrLeaseLost) {
			s.Errorf("the killed one comes back: %v", err)
		}
	})
}

// Several runners share what there is; each operation is run once, and a runner that stops lets go at once.
func TestRunners(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(2000, pawl.Policy{}, nil, nil)
		var all []pawl.ID
		for range 3 {
			all = append(all, s.start(redriveOf(pawl.OperationOptions{})).ID)
		}
		runners := func(ctx context.Context) {
			ended := make(chan struct{})
			for n := range 2 {
				runner, err := ops.NewRunner(newDesk(s.T, s.Store), ops.RunnerConfig{Name: fmt.Sprint("runner-", n), Poll: 50 * time.Millisecond})
				if err != nil {
					s.Error(err)
				}
				go func() { defer func() { ended <- struct{}{} }(); runner.Run(ctx) }()
			}
			<-ended
			<-ended
		}
		s.alongside(runners, func() {
			sum := 0
			for _, id := range all {
				o := s.run(id)
				if o.State != pawl.OperationFinished || o.Done+o.Refused != 2000 {
					s.Errorf("%+v", o)
				}
				sum += o.Done
			}
			s.want("redriven", sum, 2000)
			s.want("jobs", len(s.jobsOf()), 2000)
		})
		slow := s.start(pawl.NewOperation{Action: pawl.ActionResolve, Filter: pawl.LetterFilter{Status: []pawl.Status{pawl.StatusRedriven}}, By: ann, Options: pawl.OperationOptions{Rate: 1}}).ID
		s.alongside(runners, func() {
			for s.operation(slow).Runner == "" {
				time.Sleep(20 * time.Millisecond)
			}
		})
		s.want("runner after it has stopped", s.operation(slow).Runner, "")
	})
}

// Every call of a run fails in turn, before and after the store has done it: each letter has one new job in the end.
func TestOperationSurvivesFaults(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, fault int, when storetest.When) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			real := newShop(t, openFile(t))
			real.dead(7, pawl.Policy{}, nil, nil)
			faulty := storetest.Fail(real.Store)
			if fault > 0 {
				faulty.At(fault, when)
			}
			s := real
			s.Store, s.desk = faulty, newDesk(t, faulty)
			o := redriveOf(pawl.OperationOptions{Rate: 2})
			o.ID = pawl.NewID()
			for try := 0; ; try++ {
				_, err := s.desk.StartOperation(t.Context(), o)
				if err == nil {
					_, err = s.desk.RunOperation(t.Context(), o.ID, ops.RunOptions{})
				}
				if err == nil {
					break
				}
				if !errors.Is(err, storetest.ErrFault) || try > 2 {
					t.Fatalf("call %d fails %s: %v", fault, when, err)
				}
			}
			got := real.operation(o.ID)
			if got.State != pawl.OperationFinished || got.Done != 7 || got.Refused != 0 || len(real.jobsOf()) != 7 {
				t.Errorf("call %d fails %s: %+v", fault, when, got)
			}
			calls = faulty.Calls()
		})
		return calls
	}
	calls := run(t, 0, storetest.Before)
	if calls < 10 {
		t.Fatalf("%d calls", calls)
	}
	for n := 1; n <= calls; n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			run(t, n, when)
		}
	}
}

// A letter with which every step fails is refused, and the others go on.
func TestOperationRefusesTheCulprit(t *testing.T) {
	inVirtualTime(t, func(s shop) {
		letters := s.dead(700, pawl.Policy{}, nil, nil)
		faulty := storetest.Fail(s.Store)
		id := s.start(redriveOf(pawl.OperationOptions{})).ID
		culprit := s.items(id, pawl.ItemFilter{})[300].Letter
		broken := brokenBy{faulty, culprit}
		o, err := newDesk(s.T, broken).RunOperation(s.Context(), id, ops.RunOptions{})
		if err != nil || o.Done != len(letters)-1 || o.Refused != 1 {
			s.Errorf("%+v, %v", o, err)
		}
		if refused := s.items(id, pawl.ItemFilter{State: pawl.ItemRefused}); len(refused) != 1 || refused[0].Letter != culprit || !strings.Contains(refused[0].Reason, "the page is damaged") {
			s.Errorf("refused: %+v", refused)
		}
	})
}

// brokenBy is a store in which one letter cannot be moved.
type brokenBy struct {
	*storetest.Faulty
	letter pawl.ID
}

func (b brokenBy) AdvanceOperation(ctx context.Context, step pawl.OperationStep) ([]error, error) {
	for _, item := range step.Items {
		if item.Letter == b.letter && item.Refused == "" {
			return nil, errors.New("the page is damaged")
		}
	}
	return b.Faulty.AdvanceOperation(ctx, step)
}

func TestOperationsNeedAStoreThatKeepsThem(t *testing.T) {
	t.Parallel()
	desk := newDesk(t, newStore("default"))
	if _, err := desk.StartOperation(t.Context(), redriveOf(pawl.OperationOptions{})); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("start: %v", err)
	}
	if _, err := desk.RunOperation(t.Context(), pawl.NewID(), ops.RunOptions{}); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("run: %v", err)
	}
	if err := desk.ControlOperation(t.Context(), pawl.NewID(), pawl.ActionStop, ann); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("stop: %v", err)
	}
	if _, err := ops.NewRunner(desk, ops.RunnerConfig{}); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("runner: %v", err)
	}
	s := newShop(t, openFile(t))
	if _, err := ops.NewRunner(s.desk, ops.RunnerConfig{Poll: -1}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("poll: %v", err)
	}
	if _, err := s.desk.StartOperation(t.Context(), pawl.NewOperation{Action: pawl.ActionRedrive}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := s.desk.RunOperation(t.Context(), pawl.NewID(), ops.RunOptions{}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if err := s.desk.ControlOperation(t.Context(), pawl.NewID(), pawl.ActionStop, ann); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("stop of none: %v", err)
	}
}
