package postgres

import (
	"errors"
	"sync"

	"github.com/pawljobs/pawl"
)

// holdings is what the sessions of this handle hold, so that a session can be closed without a search.
type holdings struct {
	mu       sync.Mutex
	sessions map[pawl.SessionID]*holding
}

type holding struct {
	jobs  map[pawl.Token]pawl.ID
	marks map[pawl.Token]int16 // flags of those whose end concerns others: see marksKept
	lost  bool                 // the reply of a claim never came
	epoch int64                // of the session; see claimTemplate
}

// marksKept are the flags of jobs that stand in lines or in batches.
const marksKept = flagLined | flagLinedKind | flagMember

func newHoldings() *holdings { return &holdings{sessions: map[pawl.SessionID]*holding{}} }

func (h *holdings) open(session pawl.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[session] = &holding{jobs: map[pawl.Token]pawl.ID{}, marks: map[pawl.Token]int16{}}
}

// epoch is what claims of a session carry; -1 for one that was opened elsewhere.
func (h *holdings) epoch(session pawl.SessionID) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.sessions[session]; held != nil {
		return held.epoch
	}
	return -1
}

func (h *holdings) begin(session pawl.SessionID, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.sessions[session]; held != nil {
		held.epoch = max(held.epoch, epoch)
	}
}

func (h *holdings) close(session pawl.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, session)
}

func (h *holdings) add(session pawl.SessionID, jobs []pawl.ClaimedJob, marks map[pawl.ID]int16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.sessions[session]
	if held == nil {
		return
	}
	for i := range jobs {
		held.jobs[jobs[i].Token] = jobs[i].ID
		if bits := marks[jobs[i].ID]; bits != 0 {
			held.marks[jobs[i].Token] = bits
		}
	}
}

// marks are those of the jobs that are settled, together; all, of a session that was opened elsewhere.
func (h *holdings) marks(session pawl.SessionID, settlements []pawl.Settlement) (marks int16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.sessions[session]
	if held == nil {
		return marksKept
	}
	if len(held.marks) == 0 {
		return 0
	}
	for i := range settlements {
		marks |= held.marks[settlements[i].Token]
	}
	return marks
}

// linedJobs are the jobs that are held to a limit.
func (h *holdings) linedJobs() map[pawl.ID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	lined := map[pawl.ID]bool{}
	for _, held := range h.sessions {
		for token, marks := range held.marks {
			if marks&flagLinedKind != 0 {
				lined[held.jobs[token]] = true
			}
		}
	}
	return lined
}

// settle takes out what was settled or is not the session's any more.
func (h *holdings) settle(session pawl.SessionID, settlements []pawl.Settlement, results []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.sessions[session]
	if held == nil {
		return
	}
	for i := range settlements {
		if results[i] == nil || errors.Is(results[i], pawl.ErrLeaseLost) {
			delete(held.jobs, settlements[i].Token)
			delete(held.marks, settlements[i].Token)
		}
	}
}

// lostTrack notes that the session may hold more than is known.
func (h *holdings) lostTrack(session pawl.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.sessions[session]; held != nil {
		held.lost = true
	}
}

// all returns what a session holds, and whether that is surely all.
func (h *holdings) all(session pawl.SessionID) (held []pawl.Reservation, sure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[session]
	if s == nil {
		return nil, false
	}
	for token, id := range s.jobs {
		held = append(held, pawl.Reservation{ID: id, Token: token})
	}
	return held, !s.lost
}
