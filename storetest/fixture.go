package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// What most cases work with.
const (
	workKind  = "storetest.work.v1"
	otherKind = "storetest.other.v1"
	critical  = "1-critical"
	normal    = "2-default"
	bulk      = "3-bulk"
)

// patience bounds a case that waits for something. Nothing waits that long unless it is broken.
const patience = 30 * time.Second

// fixture is a case's own store, with the verbs in the form that cases use most: they end the test when the store
// returns an error.
type fixture struct {
	testing.TB
	h     Harness
	store Store
	ctx   context.Context
	limit pawl.Limit // what later hosts say that workKind states
}

func newFixture(t testing.TB, h Harness, o Options) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &fixture{TB: t, h: h, store: h.Open(t, o), ctx: ctx}
}

// elsewhere is the same store through a second handle.
func (f *fixture) elsewhere() *fixture {
	f.Helper()
	if f.h.Reopen == nil {
		f.Skip("the harness has no Reopen")
	}
	other := *f
	other.store = f.h.Reopen(f, f.store)
	return &other
}

func (f *fixture) begin() Tx {
	f.Helper()
	if f.h.Begin == nil {
		f.Skip("the harness has no Begin")
	}
	return f.h.Begin(f, f.store)
}

func (f *fixture) pass(by time.Duration) {
	f.Helper()
	f.h.Backdate(f, f.store, by)
}

// Jobs on their way in.

func (f *fixture) job(options ...pawl.Option) pawl.NewJob {
	f.Helper()
	return f.jobOf(workKind, pawl.Policy{}, `{"n":1}`, options...)
}

// onceJob must not run twice.
func (f *fixture) onceJob(options ...pawl.Option) pawl.NewJob {
	f.Helper()
	return f.job(append(options, pawl.MaxTries(1))...)
}

func (f *fixture) jobOf(kind string, policy pawl.Policy, args string, options ...pawl.Option) pawl.NewJob {
	f.Helper()
	job, err := pawl.NewKind[json.RawMessage](kind, policy).New(f.ctx, f.store.Connection(), json.RawMessage(args), options...)
	f.ok("make job", err)
	return job
}

// enqueue stores jobs, all of which must be new, and returns their ids.
func (f *fixture) enqueue(jobs ...pawl.NewJob) []pawl.ID {
	f.Helper()
	results := f.try(jobs...)
	var ids []pawl.ID
	for i, result := range results {
		f.equal("result of job "+fmt.Sprint(i), result, pawl.Enqueued{ID: jobs[i].ID, Status: pawl.Accepted})
		ids = append(ids, result.ID)
	}
	return ids
}

func (f *fixture) try(jobs ...pawl.NewJob) []pawl.Enqueued {
	f.Helper()
	results, err := f.store.Enqueue(f.ctx, jobs)
	f.ok("enqueue", err)
	if len(results) != len(jobs) {
		f.Fatalf("enqueue: %d results for %d jobs", len(results), len(jobs))
	}
	return results
}

func (f *fixture) put(options ...pawl.Option) pawl.ID {
	f.Helper()
	return f.enqueue(f.job(options...))[0]
}

func (f *fixture) puts(n int, options ...pawl.Option) []pawl.ID {
	f.Helper()
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		jobs[i] = f.job(options...)
	}
	return f.enqueue(jobs...)
}

// Hosts and their claims.

func hostInfo(name string, sinks ...string) pawl.HostInfo {
	return pawl.HostInfo{
		Name: name, PID: 42, Version: "v1.2.3", Kinds: []string{workKind, otherKind}, Sinks: sinks,
		Servers: []pawl.ServerInfo{{Name: "io", Queues: []string{critical, normal}, Workers: 20}},
	}
}

func (f *fixture) host(name string, sinks ...string) pawl.SessionID {
	f.Helper()
	info := hostInfo(name, sinks...)
	if !f.limit.IsZero() {
		info.Limits = map[string]pawl.Limit{workKind: f.limit}
	}
	session, err := f.store.OpenSession(f.ctx, info)
	f.ok("open session", err)
	return session
}

func (f *fixture) beat(session pawl.SessionID, beat pawl.Beat) pawl.BeatReply {
	f.Helper()
	reply, err := f.store.Beat(f.ctx, session, beat)
	f.ok("beat", err)
	return reply
}

func (f *fixture) closeSession(session pawl.SessionID) {
	f.Helper()
	f.ok("close session", f.store.CloseSession(f.ctx, session))
}

func request(session pawl.SessionID, limit int) pawl.ClaimRequest {
	return pawl.ClaimRequest{
		Session: session, Queues: []string{critical, normal, bulk}, Kinds: []string{workKind, otherKind}, Max: limit,
	}
}

// claim takes up to limit jobs, as a host does: it asks again for as long as the store says that there may be more.
func (f *fixture) claim(session pawl.SessionID, limit int, changes ...func(*pawl.ClaimRequest)) []pawl.ClaimedJob {
	f.Helper()
	r := request(session, limit)
	for _, change := range changes {
		change(&r)
	}
	jobs, err := claimAll(f.ctx, f.store, r)
	f.ok("claim", err)
	return jobs
}

func claimAll(ctx context.Context, store pawl.Store, r pawl.ClaimRequest) ([]pawl.ClaimedJob, error) {
	var jobs []pawl.ClaimedJob
	limit := r.Max
	for round := 0; ; round++ {
		r.Max = limit - len(jobs)
		claimed, err := store.Claim(ctx, r)
		if err != nil {
			return jobs, err
		}
		if len(claimed.Jobs) > r.Max {
			return jobs, fmt.Errorf("claimed %d jobs with Max %d", len(claimed.Jobs), r.Max)
		}
		jobs = append(jobs, claimed.Jobs...)
		if !claimed.More || len(jobs) == limit {
			return jobs, nil
		}
		if round > 10_000 {
			return jobs, errors.New("claims say More for ever")
		}
		r.Suspect = r.Suspect && !slices.ContainsFunc(claimed.Jobs, suspect)
	}
}

func suspect(job pawl.ClaimedJob) bool { return job.Crashes >= pawl.CrashSuspect }

func withSuspect(r *pawl.ClaimRequest) { r.Suspect = true }

// claimExactly takes n jobs, and fails when there are fewer.
func (f *fixture) claimExactly(session pawl.SessionID, n int, changes ...func(*pawl.ClaimRequest)) []pawl.ClaimedJob {
	f.Helper()
	jobs := f.claim(session, n, changes...)
	if len(jobs) != n {
		f.Fatalf("claimed %d jobs, want %d", len(jobs), n)
	}
	return jobs
}

func (f *fixture) claimOne(session pawl.SessionID, changes ...func(*pawl.ClaimRequest)) pawl.ClaimedJob {
	f.Helper()
	return f.claimExactly(session, 1, changes...)[0]
}

func (f *fixture) claimNone(what string, session pawl.SessionID, changes ...func(*pawl.ClaimRequest)) {
	f.Helper()
	f.equal(what, ids(f.claim(session, 10, changes...)), []pawl.ID(nil))
}

func ids(jobs []pawl.ClaimedJob) []pawl.ID {
	var out []pawl.ID
	for _, job := range jobs {
		out = append(out, job.ID)
	}
	return out
}

// Ends of reservations.

func end(job pawl.ClaimedJob, outcome pawl.Outcome) pawl.Settlement {
	return pawl.Settlement{Reservation: job.Reservation, Outcome: outcome}
}

func (f *fixture) settle(session pawl.SessionID, settlements ...pawl.Settlement) {
	f.Helper()
	errs, err := f.store.Settle(f.ctx, session, settlements)
	f.allOK("settle", errs, err)
	if len(errs) != len(settlements) {
		f.Fatalf("settle: %d results for %d settlements", len(errs), len(settlements))
	}
}

func (f *fixture) undertaker() pawl.Undertaker {
	return pawl.Undertaker{Connection: f.store.Connection().Name, Host: "host-a", Server: "io", Version: "v1.2.3"}
}

// letterOf writes the letter of a claimed job.
func (f *fixture) letterOf(job pawl.ClaimedJob) *pawl.DeadLetter {
	death := pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}
	letter := pawl.NewDeadLetter(f.undertaker(), job, death, job.ReadyAt, errors.New("dial tcp 10.0.0.7:25: no answer"))
	return &letter
}

// death settles a claimed job as dead.
func (f *fixture) death(job pawl.ClaimedJob) pawl.Settlement {
	letter := f.letterOf(job)
	return pawl.Settlement{
		Reservation: job.Reservation, Outcome: pawl.Dead{Class: letter.Class, Reason: letter.Reason}, Letter: letter,
	}
}

// die ends a claimed job as dead and returns its letter as it was stored.
func (f *fixture) die(session pawl.SessionID, job pawl.ClaimedJob) pawl.DeadLetter {
	f.Helper()
	settlement := f.death(job)
	f.settle(session, settlement)
	return f.letter(settlement.Letter.ID)
}

// dead enqueues a job and lets it die.
func (f *fixture) dead(session pawl.SessionID, options ...pawl.Option) pawl.DeadLetter {
	f.Helper()
	f.put(options...)
	return f.die(session, f.claimOne(session))
}

// Upkeep.

// sweep works until there is nothing more to do and adds up the reports.
func (f *fixture) sweep(session pawl.SessionID, dead ...pawl.SeenSession) pawl.SweepReport {
	f.Helper()
	return f.sweepBy(0, session, dead...)
}

func (f *fixture) sweepBy(limit int, session pawl.SessionID, dead ...pawl.SeenSession) pawl.SweepReport {
	f.Helper()
	var sum pawl.SweepReport
	for range 10_000 {
		report, err := f.store.Sweep(f.ctx, pawl.SweepRequest{Session: session, Dead: dead, Limit: limit})
		f.ok("sweep", err)
		sum.Ended = append(sum.Ended, report.Ended...)
		sum.Recovered += report.Recovered
		sum.Due += report.Due
		sum.Ticks += report.Ticks
		sum.Purged += report.Purged
		sum.NextDue = report.NextDue
		if !report.More {
			return sum
		}
		dead = nil
	}
	f.Fatal("sweeps say More for ever")
	return sum
}

// see is one look of observer's at another session.
func (f *fixture) see(observer, other pawl.SessionID) pawl.SeenSession {
	f.Helper()
	others := f.beat(observer, pawl.Beat{}).Others
	i := slices.IndexFunc(others, func(s pawl.SeenSession) bool { return s.ID == other })
	if i < 0 {
		f.Fatalf("session %d is not among the others: %v", other, others)
	}
	return others[i]
}

// kill ends a session as a host does that has seen the same beat for too long, and puts back its jobs.
func (f *fixture) kill(observer, victim pawl.SessionID) {
	f.Helper()
	report := f.sweep(observer, f.see(observer, victim))
	f.equal("sessions ended", report.Ended, []pawl.SessionID{victim})
}

// crash makes the jobs' host die n times while it runs them alone, by a session for each time.
func (f *fixture) crash(observer pawl.SessionID, id pawl.ID, times int) {
	f.Helper()
	for n := range times {
		victim := f.host(fmt.Sprintf("victim-%d", n))
		f.equal("job that crashes", f.claimOne(victim, withSuspect).ID, id)
		f.kill(observer, victim)
	}
}

// What operators see.

func (f *fixture) view(id pawl.ID) pawl.JobView {
	f.Helper()
	view, err := f.store.Job(f.ctx, id)
	f.ok("job "+id.String(), err)
	return view
}

func (f *fixture) letter(id pawl.ID) pawl.DeadLetter {
	f.Helper()
	letter, err := f.store.Letter(f.ctx, id)
	f.ok("letter "+id.String(), err)
	return letter
}

func (f *fixture) letters(filter pawl.LetterFilter) []pawl.DeadLetter {
	f.Helper()
	page, err := f.store.Letters(f.ctx, filter, pawl.Page{Limit: 1000})
	f.ok("list letters", err)
	f.equal("next page", page.Next, "")
	return page.Letters
}

func (f *fixture) audit(filter pawl.AuditFilter) []pawl.AuditEntry {
	f.Helper()
	page, err := f.store.Audit(f.ctx, filter, pawl.Page{Limit: 1000})
	f.ok("list audit", err)
	return page.Entries
}

func (f *fixture) jobs(filter pawl.JobFilter) []pawl.JobView {
	f.Helper()
	page, err := f.store.Jobs(f.ctx, filter, pawl.Page{Limit: 1000})
	f.ok("list jobs", err)
	f.equal("next page", page.Next, "")
	return page.Jobs
}

// everything is the state of a small store, for cases in which nothing may change.
type everything struct {
	Jobs    []pawl.JobView
	Letters []pawl.DeadLetter
	Audit   []pawl.AuditEntry
}

func (f *fixture) everything() everything {
	f.Helper()
	return everything{f.jobs(pawl.JobFilter{}), f.letters(pawl.LetterFilter{}), f.audit(pawl.AuditFilter{})}
}
