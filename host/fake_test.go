package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// fakeStore is a small store in memory whose clock is that of the bubble, for tests in virtual time. Of an operator it
// can do only what hosts ask for.
type fakeStore struct {
	pawl.Operator // nil: what is not overridden must not be called

	mu       sync.Mutex
	seq      int64
	jobs     map[pawl.ID]*fakeJob
	sessions map[pawl.SessionID]*fakeSession
	letters  map[pawl.ID]pawl.DeadLetter
	alerts   []*fakeAlert
	ended    map[pawl.ID][]string             // what ended a job, each time
	attempts map[pawl.ID]int                  // of jobs that have ended
	removed  map[pawl.ID][]pawl.AttemptRecord // of cancelled jobs
	wakers   []chan struct{}
	refuse   func(pawl.Settlement) error // asked before a settlement is recorded
	claims   []pawl.ClaimRequest
	batches  []int // sizes of Settle calls
	sweeps   []pawl.SweepRequest
}

type fakeJob struct {
	pawl.NewJob
	claim      pawl.ClaimedJob
	session    pawl.SessionID // 0: not reserved
	place      int64
	runAt      time.Time
	markedBy   pawl.Token
	cancel     bool
	progress   pawl.Progress
	enqueuedAt time.Time
}

type fakeSession struct {
	info  pawl.HostInfo
	beat  int64
	ended bool
	last  pawl.Beat
	quiet bool
	drain bool

	beatAt time.Time
}

func newFake() *fakeStore {
	return &fakeStore{
		jobs: map[pawl.ID]*fakeJob{}, sessions: map[pawl.SessionID]*fakeSession{},
		letters: map[pawl.ID]pawl.DeadLetter{}, ended: map[pawl.ID][]string{}, attempts: map[pawl.ID]int{},
		removed: map[pawl.ID][]pawl.AttemptRecord{},
	}
}

func (f *fakeStore) next() int64 {
	f.seq++
	return f.seq
}

func (f *fakeStore) Connection() pawl.Connection { return pawl.Connection{Name: "default"} }

func (f *fakeStore) Enqueue(_ context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]pawl.Enqueued, len(jobs))
	now := time.Now()
	for i, job := range jobs {
		out[i] = pawl.Enqueued{ID: job.ID}
		if f.jobs[job.ID] != nil || len(f.ended[job.ID]) > 0 {
			out[i].Status = pawl.Repeated
			continue
		}
		j := &fakeJob{NewJob: job, place: f.next(), enqueuedAt: now}
		j.claim.ReadyAt = now
		if job.Delay > 0 {
			j.runAt = now.Add(job.Delay)
		} else if job.RunAt.After(now) {
			j.runAt = job.RunAt
		}
		f.jobs[job.ID] = j
	}
	f.wake()
	return out, nil
}

func (f *fakeStore) wake() {
	for _, c := range f.wakers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (f *fakeStore) Wake(context.Context) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{}, 1)
	f.wakers = append(f.wakers, c)
	return c, nil
}

func (f *fakeStore) OpenSession(_ context.Context, info pawl.HostInfo) (pawl.SessionID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := pawl.SessionID(f.next())
	f.sessions[id] = &fakeSession{info: info, beatAt: time.Now()}
	return id, nil
}

func (f *fakeStore) alive(id pawl.SessionID) error {
	if s := f.sessions[id]; s == nil || s.ended {
		return fmt.Errorf("session %d: %w", id, pawl.ErrSessionLost)
	}
	return nil
}

func (f *fakeStore) Beat(_ context.Context, id pawl.SessionID, beat pawl.Beat) (pawl.BeatReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(id); err != nil {
		return pawl.BeatReply{}, err
	}
	s := f.sessions[id]
	s.beat++
	s.last, s.beatAt = beat, time.Now()
	reply := pawl.BeatReply{Now: time.Now(), Quiet: s.quiet, Drain: s.drain}
	held := map[pawl.Reservation]bool{}
	for _, r := range beat.Held {
		held[r] = true
		j := f.jobs[r.ID]
		switch {
		case j == nil || j.session != id || j.claim.Token != r.Token:
			reply.Lost = append(reply.Lost, r)
		case j.cancel:
			reply.Cancel = append(reply.Cancel, r)
		}
	}
	for _, p := range beat.Progress {
		if j := f.jobs[p.ID]; j != nil && j.claim.Token == p.Token {
			j.progress = p
		}
	}
	for _, j := range f.jobs {
		if beat.Reconcile && j.session == id && !held[j.claim.Reservation] {
			reply.Found = append(reply.Found, j.claim.Reservation)
		}
	}
	for other, s := range f.sessions {
		if other != id && !s.ended {
			reply.Others = append(reply.Others, pawl.SeenSession{ID: other, Beat: s.beat})
		}
	}
	return reply, nil
}

func (f *fakeStore) Claim(_ context.Context, r pawl.ClaimRequest) (pawl.Claimed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims = append(f.claims, r)
	if err := f.alive(r.Session); err != nil {
		return pawl.Claimed{}, err
	}
	out := pawl.Claimed{Now: time.Now()}
	suspects := 0
	for _, j := range f.ready(r) {
		if len(out.Jobs) == r.Max {
			out.More = true
			break
		}
		if j.claim.Crashes >= pawl.CrashSuspect && r.Orphans == nil {
			if !r.Suspect || suspects == 1 {
				continue
			}
			suspects++
		}
		j.session = r.Session
		c := &j.claim
		c.Reservation = pawl.Reservation{ID: j.ID, Token: pawl.Token(f.next())}
		c.Kind, c.Queue, c.EnqueuedAt, c.Envelope, c.Letter = j.Kind, j.Queue, j.enqueuedAt, j.Envelope, j.Letter
		c.Attempt++
		copied := *c
		copied.History = slices.Clone(c.History)
		out.Jobs = append(out.Jobs, copied)
	}
	return out, nil
}

// ready lists what a request may take, in order.
func (f *fakeStore) ready(r pawl.ClaimRequest) []*fakeJob {
	var list []*fakeJob
	for _, j := range f.jobs {
		if j.session != 0 || !j.runAt.IsZero() || slices.Contains(r.Kinds, j.Kind) == (r.Orphans != nil) {
			continue
		}
		if !slices.Contains(r.Queues, j.Queue) {
			continue
		}
		if r.Orphans != nil && time.Since(j.claim.ReadyAt) < r.Orphans.Ready {
			continue
		}
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *fakeJob) int {
		return cmp.Or(cmp.Compare(slices.Index(r.Queues, a.Queue), slices.Index(r.Queues, b.Queue)), cmp.Compare(a.place, b.place))
	})
	return list
}

func (f *fakeStore) held(id pawl.SessionID, r pawl.Reservation) (*fakeJob, error) {
	j := f.jobs[r.ID]
	if j == nil || j.session != id || j.claim.Token != r.Token {
		return nil, pawl.LeaseLost(r)
	}
	return j, nil
}

func (f *fakeStore) Start(_ context.Context, id pawl.SessionID, rs []pawl.Reservation) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(id); err != nil {
		return nil, err
	}
	errs := make([]error, len(rs))
	for i, r := range rs {
		j, err := f.held(id, r)
		if errs[i] = err; err == nil {
			j.claim.Started, j.markedBy = true, r.Token
		}
	}
	return errs, nil
}

func (f *fakeStore) Settle(_ context.Context, id pawl.SessionID, ss []pawl.Settlement) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(ss))
	errs := make([]error, len(ss))
	for i, s := range ss {
		errs[i] = f.settle(id, s)
	}
	f.wake()
	return errs, nil
}

func (f *fakeStore) settle(id pawl.SessionID, s pawl.Settlement) error {
	j, err := f.held(id, s.Reservation)
	if err != nil {
		return err
	}
	if f.refuse != nil {
		if err := f.refuse(s); err != nil {
			return err
		}
	}
	if s.Record != nil {
		j.record(*s.Record)
	}
	switch s.Outcome.(type) {
	case pawl.Retry, pawl.Release, pawl.GiveBack:
		if j.cancel {
			f.removed[j.ID] = j.claim.History
			f.end(j, "removed")
			return nil
		}
	}
	switch o := s.Outcome.(type) {
	case pawl.Done:
		f.end(j, "done")
	case pawl.Retry:
		j.session, j.runAt = 0, time.Now().Add(o.After)
	case pawl.Release:
		j.session, j.runAt = 0, time.Now().Add(o.After)
	case pawl.GiveBack:
		f.front(j, o.Interrupted)
	case pawl.Dead:
		if s.Letter == nil {
			return errors.New("a death without a letter")
		}
		f.bury(*s.Letter)
		f.end(j, "dead")
	}
	return nil
}

func (j *fakeJob) record(r pawl.AttemptRecord) {
	j.claim.History = append(j.claim.History, r)
	j.claim.History = j.claim.History[max(0, len(j.claim.History)-pawl.HistoryLimit):]
}

func (f *fakeStore) front(j *fakeJob, interrupted bool) {
	j.session, j.place = 0, f.next()-1<<62
	j.claim.Attempt--
	if j.markedBy == j.claim.Token {
		j.claim.Started = false
	}
	if interrupted {
		j.claim.Requeues++
	}
}

func (f *fakeStore) end(j *fakeJob, how string) {
	f.ended[j.ID] = append(f.ended[j.ID], how)
	f.attempts[j.ID] = j.claim.Attempt
	delete(f.jobs, j.ID)
}

func (f *fakeStore) Condemn(_ context.Context, id pawl.SessionID, ss []pawl.Settlement) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(ss))
	for i, s := range ss {
		j, err := f.held(id, s.Reservation)
		if errs[i] = err; err == nil {
			j.claim.Verdict = s.Letter
		}
	}
	return errs, nil
}

func (f *fakeStore) Sweep(_ context.Context, r pawl.SweepRequest) (pawl.SweepReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweeps = append(f.sweeps, r)
	report := pawl.SweepReport{NextDue: -1}
	for _, seen := range r.Dead {
		if s := f.sessions[seen.ID]; s != nil && !s.ended && s.beat == seen.Beat {
			report.Recovered += f.crash(seen.ID)
			report.Ended = append(report.Ended, seen.ID)
		}
	}
	now := time.Now()
	for _, j := range f.jobs {
		if j.runAt.IsZero() {
			continue
		}
		if wait := j.runAt.Sub(now); wait > 0 {
			if report.NextDue < 0 || wait < report.NextDue {
				report.NextDue = wait
			}
			continue
		}
		j.claim.ReadyAt, j.runAt, j.place = j.runAt, time.Time{}, f.next()
		report.Due++
	}
	if report.Due+report.Recovered > 0 {
		f.wake()
	}
	return report, nil
}

// crash ends a session as that of a dead host.
func (f *fakeStore) crash(id pawl.SessionID) (recovered int) {
	s := f.sessions[id]
	s.ended = true
	for _, j := range f.jobs {
		if j.session != id {
			continue
		}
		recovered++
		if j.Once && !j.claim.Started {
			f.front(j, false)
			continue
		}
		j.session, j.place = 0, f.next()-1<<62
		j.claim.Crashes++
		j.record(pawl.AttemptRecord{Attempt: j.claim.Attempt, Ending: pawl.EndCrashed, Host: s.info.Name})
	}
	return recovered
}

func (f *fakeStore) CloseSession(_ context.Context, id pawl.SessionID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(id); err != nil {
		return err
	}
	f.sessions[id].ended = true
	for _, j := range f.jobs {
		if j.session == id {
			j.markedBy = 0 // a session that closes keeps its marks
			f.front(j, false)
		}
	}
	return nil
}
