//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// recorder is the store of a host. It writes every call into the history, before it is made and after it has returned,
// and spoils a settle where it was told to.
type recorder struct {
	engine
	w *worker

	mu     sync.Mutex
	calls  int                 // claims so far
	tokens map[attemptOf]int64 // of claims
	fail   string              // the next settle: before or after its commit
	die    *float64            // in the next settle of a death, after that part of its usual time
	usual  time.Duration       // that a settle of a death takes
	hold   bool                // the next settle of a death, until goOn
	goOn   chan bool
}

type attemptOf struct {
	id pawl.ID
	n  int
}

var errSpoiled = errors.New("the network is down, says chaos")

func (r *recorder) note(e proof.Event) { r.w.history.Write(e) }

func (r *recorder) OpenSession(ctx context.Context, info pawl.HostInfo) (pawl.SessionID, error) {
	id, err := r.engine.OpenSession(ctx, info)
	if err == nil {
		r.note(proof.Event{What: proof.SessionOpened, Session: int64(id)})
	}
	return id, err
}

func (r *recorder) Beat(ctx context.Context, session pawl.SessionID, beat pawl.Beat) (pawl.BeatReply, error) {
	answer, err := r.engine.Beat(ctx, session, beat)
	e := proof.Event{What: proof.Beat, Session: int64(session)}
	switch {
	case errors.Is(err, pawl.ErrSessionLost):
		e.What = proof.SessionLost
	case err != nil:
		e.What, e.Text = proof.BeatFailed, err.Error()
	}
	r.note(e)
	return answer, err
}

func (r *recorder) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	r.mu.Lock()
	r.calls++
	call := r.calls
	r.mu.Unlock()
	r.note(proof.Event{What: proof.Claiming, N: call})
	claimed, err := r.engine.Claim(ctx, request)
	end := proof.Event{What: proof.ClaimEnd, N: call}
	if err != nil {
		end.Text = err.Error()
	} else {
		r.keep(call, request.Session, claimed.Jobs)
	}
	r.note(end)
	return claimed, err
}

func (r *recorder) keep(call int, session pawl.SessionID, jobs []pawl.ClaimedJob) {
	for _, job := range jobs {
		r.note(proof.Event{
			What: proof.Claimed, N: call, Session: int64(session), Job: job.ID.String(), Kind: job.Kind, Token: int64(job.Token),
			Attempt: job.Attempt, Crashes: job.Crashes,
		})
		r.mu.Lock()
		r.tokens[attemptOf{job.ID, job.Attempt}] = int64(job.Token)
		r.mu.Unlock()
	}
}

// tokenOf is the token under which an attempt of this process runs.
func (r *recorder) tokenOf(job *pawl.Job) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens[attemptOf{job.ID, job.Attempt}]
}

func (r *recorder) Start(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation) ([]error, error) {
	for _, reservation := range reservations {
		r.note(proof.Event{What: proof.Marking, Job: reservation.ID.String(), Token: int64(reservation.Token)})
	}
	results, err := r.engine.Start(ctx, session, reservations)
	for i, reservation := range reservations {
		if err == nil && i < len(results) {
			what := proof.Marked
			if results[i] != nil {
				what = proof.MarkRefused
			}
			r.note(proof.Event{What: what, Job: reservation.ID.String(), Token: int64(reservation.Token)})
		}
	}
	return results, err
}

func (r *recorder) Settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	death := slices.ContainsFunc(settlements, func(s pawl.Settlement) bool { return s.Letter != nil })
	fail, hold := r.spoil(death)
	for i := range settlements {
		r.settlement(proof.Settling, &settlements[i], "")
	}
	if fail != "" {
		r.note(proof.Event{What: proof.Fault, Fault: proof.FailedSettle, Target: r.w.Name, Text: fail})
	}
	if hold {
		r.wait(ctx)
	}
	var results []error
	var err error
	if fail != "before" {
		began := time.Now()
		results, err = r.engine.Settle(ctx, session, settlements)
		if death {
			r.measure(time.Since(began))
		}
	}
	if fail != "" {
		results, err = nil, fmt.Errorf("%s the commit: %w", fail, errSpoiled)
	}
	r.noteResults(settlements, results, err)
	return results, err
}

func (r *recorder) noteResults(settlements []pawl.Settlement, results []error, err error) {
	for i := range settlements {
		switch {
		case errors.Is(err, pawl.ErrSessionLost), err == nil && errors.Is(results[i], pawl.ErrLeaseLost):
			r.settlement(proof.Refused, &settlements[i], "")
		case err != nil:
			r.settlement(proof.SettleUnknown, &settlements[i], err.Error())
		case results[i] != nil:
			r.settlement(proof.SettleUnknown, &settlements[i], results[i].Error())
		default:
			r.settlement(proof.Settled, &settlements[i], "")
		}
	}
}

func (r *recorder) settlement(what string, s *pawl.Settlement, text string) {
	e := proof.Event{What: what, Job: s.ID.String(), Token: int64(s.Token), Outcome: outcomeOf(s.Outcome), Text: text}
	if s.Letter != nil {
		e.Letter = s.Letter.ID.String()
	}
	r.note(e)
}

func outcomeOf(outcome pawl.Outcome) string {
	switch outcome.(type) {
	case pawl.Done:
		return proof.Done
	case pawl.Retry:
		return proof.Retry
	case pawl.Release:
		return proof.Release
	case pawl.GiveBack:
		return proof.GiveBack
	}
	return proof.Dead
}

// spoil does what is to be done to this settle.
func (r *recorder) spoil(death bool) (fail string, hold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fail, r.fail = r.fail, ""
	if !death {
		return fail, false
	}
	if r.die != nil {
		time.AfterFunc(time.Duration(*r.die*float64(r.usual)), func() { r.w.kill(proof.KillInSettle) })
		r.die = nil
	}
	hold, r.hold = r.hold, false
	return fail, hold
}

// wait tells the director that a death is about to be recorded, and waits until it is ready for that.
func (r *recorder) wait(ctx context.Context) {
	r.w.say(reply{Settling: true})
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-r.goOn:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// measure keeps what a settle usually takes.
func (r *recorder) measure(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usual += (min(took, 100*time.Millisecond) - r.usual) / 4
}

func (r *recorder) arm(order command) {
	if order.Go {
		select {
		case r.goOn <- true:
		default:
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if order.Die != nil {
		r.die = order.Die
	}
	if order.Settle != "" {
		r.fail = order.Settle
	}
	if order.Hold {
		r.hold = true
		select {
		case <-r.goOn: // that came too late for an earlier one
		default:
		}
	}
}
