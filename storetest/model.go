package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// model is the reference: what a store must do, without time, disks or concurrency. Its clock stands still but for the
// hours that the test lets pass.
type model struct {
	jobs     []*modelJob
	letters  map[pawl.ID]*modelLetter
	sessions []*modelSession
	off      map[string]bool // kinds
	paused   map[string]bool // queues
	seq      int             // places given out
	now      time.Duration
	stale    []staleReservation
	limit    pawl.Limit // of the limited kind
}

type modelJob struct {
	new      pawl.NewJob
	state    pawl.JobState
	attempt  int
	crashes  int
	requeues int
	front    bool // in the band of what was put back
	place    int  // in its band
	due      time.Duration
	holder   *modelSession
	claimed  pawl.ClaimedJob // the reservation, while reserved
	started  bool            // it has a start mark
	marked   bool            // by the present reservation
	cancel   bool            // it is to be removed when the present reservation ends
	letter   *modelLetter    // whose redrive it is
	line     *modelLine      // nil: it stands in none
}

type modelSession struct {
	id   pawl.SessionID
	name string
}

type modelLetter struct {
	status  pawl.Status
	outcome pawl.RedriveOutcome
}

type staleReservation struct {
	session pawl.SessionID
	job     pawl.ClaimedJob
}

func newModel() *model {
	return &model{letters: map[pawl.ID]*modelLetter{}, off: map[string]bool{}, paused: map[string]bool{}}
}

func (m *model) job(id pawl.ID) *modelJob {
	i := slices.IndexFunc(m.jobs, func(j *modelJob) bool { return j.new.ID == id })
	if i < 0 {
		return nil
	}
	return m.jobs[i]
}

func (m *model) in(state pawl.JobState) []*modelJob {
	var out []*modelJob
	for _, j := range m.jobs {
		if j.state == state {
			out = append(out, j)
		}
	}
	return out
}

func (m *model) held(s *modelSession) []*modelJob {
	return slices.DeleteFunc(m.in(pawl.JobReserved), func(j *modelJob) bool { return j.holder != s })
}

func (j *modelJob) unfinished() bool {
	return j.state == pawl.JobWaiting || j.state == pawl.JobScheduled || j.state == pawl.JobReserved
}

// holderOf is the job that keeps others with this key out. The model has the one scope "while unfinished".
func (m *model) holderOf(key string) *modelJob {
	i := slices.IndexFunc(m.jobs, func(j *modelJob) bool { return key != "" && j.new.Unique.Key == key && j.unfinished() })
	if i < 0 {
		return nil
	}
	return m.jobs[i]
}

// enqueue says what becomes of a job on its way in.
func (m *model) enqueue(job pawl.NewJob) pawl.Enqueued {
	if known := m.job(job.ID); known != nil {
		return pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
	}
	if holder := m.holderOf(job.Unique.Key); holder != nil {
		return pawl.Enqueued{ID: holder.new.ID, Status: pawl.Duplicate}
	}
	m.seq++
	j := &modelJob{new: job, line: newModelLine(job, m.seq)}
	m.jobs = append(m.jobs, j)
	m.wait(j, job.Delay)
	return pawl.Enqueued{ID: job.ID, Status: pawl.Accepted}
}

// wait schedules a job, or puts it at the end of its queue, and of the lines of its limits.
func (m *model) wait(j *modelJob, delay time.Duration) {
	if j.line != nil {
		j.line.leaveLimits(j.new)
	}
	if delay > 0 {
		j.state, j.due = pawl.JobScheduled, m.now+delay
		return
	}
	m.seq++
	j.state, j.front, j.place = pawl.JobWaiting, false, m.seq
	if j.line != nil && j.line.gate > beforeOrder {
		j.line.place = m.seq
	}
}

func (j *modelJob) putBack() { j.state, j.front = pawl.JobWaiting, true }

// uncount puts a job back as if it had not been claimed.
func (j *modelJob) uncount() {
	j.attempt--
	j.putBack()
}

// ready lists a queue's waiting jobs in their order.
func (m *model) ready(queue string) []*modelJob {
	jobs := slices.DeleteFunc(m.in(pawl.JobWaiting), func(j *modelJob) bool { return j.new.Queue != queue || !j.isReady() })
	slices.SortFunc(jobs, func(a, b *modelJob) int {
		if a.front != b.front {
			if a.front {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.place, b.place)
	})
	return jobs
}

// claimable lists what a claim must return.
func (m *model) claimable(r pawl.ClaimRequest) []*modelJob {
	var out []*modelJob
	for _, queue := range r.Queues {
		for _, j := range m.ready(queue) {
			risky := j.crashes >= pawl.CrashSuspect
			switch {
			case len(out) == r.Max || m.paused[queue] || m.off[j.new.Kind] || !slices.Contains(r.Kinds, j.new.Kind):
			case risky && !r.Suspect:
			default:
				r.Suspect = r.Suspect && !risky
				out = append(out, j)
			}
		}
	}
	return out
}

// sweep makes ready what is due and says how many that were.
func (m *model) sweep() int {
	due := slices.DeleteFunc(m.in(pawl.JobScheduled), func(j *modelJob) bool { return j.due > m.now })
	slices.SortFunc(due, func(a, b *modelJob) int { return cmp.Compare(a.due, b.due) })
	for _, j := range due {
		m.wait(j, 0)
	}
	m.give()
	return len(due)
}

// settle ends a reservation; letter is the one that a Dead writes.
func (m *model) settle(j *modelJob, outcome pawl.Outcome, letter pawl.ID) {
	m.stale = append(m.stale, staleReservation{j.holder.id, j.claimed})
	_, done := outcome.(pawl.Done)
	if _, dead := outcome.(pawl.Dead); j.cancel && !done && !dead {
		m.end(j, pawl.JobRemoved, pawl.RedriveCancelled)
		return
	}
	switch o := outcome.(type) {
	case pawl.Done:
		m.end(j, pawl.JobDone, pawl.RedriveSucceeded)
	case pawl.Retry:
		j.started = false
		m.wait(j, o.After)
	case pawl.Release:
		j.started = false
		m.wait(j, o.After)
	case pawl.GiveBack:
		if o.Interrupted {
			j.requeues++
		} else if j.marked {
			j.started = false
		}
		j.uncount()
	case pawl.Dead:
		m.end(j, pawl.JobDead, pawl.RedriveDiedAgain)
		m.letters[letter] = &modelLetter{}
	}
}

// end finishes a job and writes the outcome to the letter that it was redriven from.
func (m *model) end(j *modelJob, state pawl.JobState, outcome pawl.RedriveOutcome) {
	j.state, j.line = state, nil
	if j.letter == nil {
		return
	}
	j.letter.outcome = outcome
	if outcome == pawl.RedriveSucceeded {
		j.letter.status = pawl.StatusResolved
	}
}

// die ends a session whose host is dead: it takes an attempt of all that it ran, and charges the crash to the suspect,
// or, where there was none, to all.
func (m *model) die(s *modelSession) {
	held := m.held(s)
	suspected := slices.ContainsFunc(held, func(j *modelJob) bool { return j.crashes >= pawl.CrashSuspect })
	for _, j := range held {
		m.stale = append(m.stale, staleReservation{s.id, j.claimed})
		if j.cancel {
			m.end(j, pawl.JobRemoved, pawl.RedriveCancelled)
			continue
		}
		if j.new.Once && !j.started {
			j.uncount()
			continue
		}
		if !suspected || j.crashes >= pawl.CrashSuspect {
			j.crashes++
		}
		j.putBack()
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(other *modelSession) bool { return other == s })
	m.give()
}

// leave closes a session.
func (m *model) leave(s *modelSession) {
	for _, j := range m.held(s) {
		m.stale = append(m.stale, staleReservation{s.id, j.claimed})
		if j.cancel {
			m.end(j, pawl.JobRemoved, pawl.RedriveCancelled)
			continue
		}
		j.uncount()
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(other *modelSession) bool { return other == s })
	m.give()
}

// clear removes what is unfinished in a queue.
func (m *model) clear(queue string) int {
	removed := 0
	for _, j := range m.jobs {
		if j.new.Queue != queue || !j.unfinished() {
			continue
		}
		if j.state == pawl.JobReserved {
			m.stale = append(m.stale, staleReservation{j.holder.id, j.claimed})
		}
		m.end(j, pawl.JobRemoved, pawl.RedriveCancelled)
		removed++
	}
	m.give()
	return removed
}

// cancel removes a job, or says that it is to be removed when its reservation ends.
func (m *model) cancel(j *modelJob) pawl.JobState {
	if j.state == pawl.JobReserved {
		j.cancel = true
	} else {
		m.end(j, pawl.JobRemoved, pawl.RedriveCancelled)
		m.give()
	}
	return j.state
}

// retry puts a dead job back under its own id.
func (m *model) retry(j *modelJob, letter *modelLetter) {
	letter.status, letter.outcome = pawl.StatusRedriven, pawl.RedrivePending
	m.seq++
	fresh := modelJob{new: j.new, letter: letter, line: newModelLine(j.new, m.seq)}
	*j = fresh
	m.wait(j, 0)
	m.give()
}
