package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// death is the end of a job that is not run.
type death struct {
	outcome pawl.Outcome
	letter  *pawl.DeadLetter // a verdict that was written before; nil: from err
	err     error
}

// NotRunError is the evidence of a death without a run.
type NotRunError struct {
	Reason pawl.Reason
	Text   string
}

func (e *NotRunError) Error() string { return e.Text }

// admit decides, before anything of the job is run, whether it may be. nil lets it.
func (a *attempt) admit() *death {
	job := &a.job
	if v := job.Verdict; v != nil {
		return &death{outcome: pawl.Dead{Class: v.Class, Reason: v.Reason}, letter: v}
	}
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		return &death{outcome: pawl.Dead{Class: pawl.DeathPoison, Reason: pawl.ReasonUndecodable}, err: err}
	}
	a.mu.Lock() // a beat that loses the attempt meanwhile writes a line
	a.envelope = envelope
	a.mu.Unlock()
	if err := a.matches(); err != nil {
		return poison(pawl.ReasonUndecodable, err)
	}
	if !a.host.mux.Handles(job.Kind) {
		return &death{outcome: pawl.GiveBack{}} // not asked for: another host may know it
	}
	facts := a.facts("")
	if n := len(job.History); n > 0 {
		facts.Last = job.History[n-1].Ending
	}
	dead, dies := pawl.Admit(envelope.Policy, facts)
	if !dies {
		return nil
	}
	return &death{outcome: dead, err: a.evidence(dead.Reason, facts.Deadline)}
}

func poison(reason pawl.Reason, err error) *death {
	return &death{outcome: pawl.Dead{Class: pawl.DeathPoison, Reason: reason}, err: &pawl.PoisonError{Reason: reason, Err: err}}
}

// matches checks that the envelope is that of this row: stored data that was changed is not run.
func (a *attempt) matches() error {
	job, e := &a.job, &a.envelope
	switch {
	case e.ID != job.ID:
		return fmt.Errorf("the envelope is that of job %s", e.ID)
	case e.Kind != job.Kind:
		return fmt.Errorf("the envelope is of kind %q, its row says %q", e.Kind, job.Kind)
	case e.Policy.Queue != job.Queue:
		return fmt.Errorf("the envelope belongs to queue %q, its row says %q", e.Policy.Queue, job.Queue)
	}
	return nil
}

// evidence says in words why a job dies without a run.
func (a *attempt) evidence(reason pawl.Reason, deadline time.Time) error {
	job := &a.job
	text := ""
	switch reason {
	case pawl.ReasonCrashLoop:
		text = fmt.Sprintf("%d processes died while they ran this job%s", job.Crashes, on(crashHosts(job.History)))
		return &pawl.PoisonError{Reason: reason, Err: &NotRunError{reason, text}}
	case pawl.ReasonLost:
		text = "the only try was started and its host was never heard of again" + on(crashHosts(job.History)) + ": the outcome is unknown"
	case pawl.ReasonDeadline:
		text = "the job was to be started before " + deadline.UTC().Format(time.RFC3339)
	default:
		text = fmt.Sprintf("all %d tries are used up", a.envelope.Policy.MaxTries)
	}
	if n := len(job.History); n > 0 && job.History[n-1].Message != "" {
		text += "; last failure: " + job.History[n-1].Message
	}
	return &NotRunError{reason, text}
}

// crashHosts lists the hosts that died while they ran the job, each once.
func crashHosts(history []pawl.AttemptRecord) []string {
	var hosts []string
	for _, record := range history {
		if record.Ending == pawl.EndCrashed && record.Host != "" && !slices.Contains(hosts, record.Host) {
			hosts = append(hosts, record.Host)
		}
	}
	return hosts
}

func on(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return " on " + strings.Join(hosts, ", ")
}

// bury ends a job that is not run.
func (a *attempt) bury(end *death) {
	if _, first := a.conclude(over); !first {
		return
	}
	defer a.release()
	a.mu.Lock()
	lost := a.lost
	a.mu.Unlock()
	if lost {
		a.host.held.drop(a.job.Token)
		a.freeSuspect()
		return
	}
	if end.letter == nil {
		a.submit(end.outcome, "", end.err)
		return
	}
	a.add(&entry{
		session: a.session, attempt: a,
		Settlement: pawl.Settlement{Reservation: a.job.Reservation, Outcome: end.outcome, Letter: end.letter},
	})
}

// submit hands the attempt's end to the settler.
func (a *attempt) submit(outcome pawl.Outcome, ending pawl.Ending, err error) {
	e := a.entry(outcome, ending, err)
	if _, died := outcome.(pawl.Dead); died && ending != "" {
		e.ran = a.ran(ending)
	}
	a.add(e)
}

func (a *attempt) add(e *entry) {
	a.mu.Lock()
	a.settling = true
	a.mu.Unlock()
	a.host.settler.add(e)
}

// entry makes the settlement of an attempt. ending is empty when there was no run.
func (a *attempt) entry(outcome pawl.Outcome, ending pawl.Ending, err error) *entry {
	e := &entry{session: a.session, attempt: a, Settlement: pawl.Settlement{Reservation: a.job.Reservation, Outcome: outcome}}
	switch o := outcome.(type) {
	case pawl.Retry, pawl.Release:
		e.Record = a.record(ending, err)
	case pawl.GiveBack:
		if ending == pawl.EndCancelled {
			e.Record = a.record(ending, err) // the store removes the job and keeps this with it
		}
	case pawl.Dead:
		var startedAt time.Time
		job := a.job
		if ending != "" {
			e.Record = a.record(ending, err)
			startedAt = e.Record.StartedAt
			job.History = append(slices.Clone(job.History), *e.Record)
			job.History = job.History[max(0, len(job.History)-pawl.HistoryLimit):]
		}
		letter := pawl.NewDeadLetter(a.undertaker(), job, o, startedAt, err)
		e.Letter = &letter
	}
	return e
}

func (a *attempt) undertaker() pawl.Undertaker {
	u := pawl.Undertaker{Connection: a.host.connection, Host: a.host.config.Name, Version: a.host.config.Version}
	if a.server != nil {
		u.Server = a.server.name
	}
	return u
}

func (a *attempt) record(ending pawl.Ending, err error) *pawl.AttemptRecord {
	evidence := pawl.NewEvidence(err)
	return &pawl.AttemptRecord{
		Attempt: a.job.Attempt, Ending: ending, StartedAt: a.clock.time(a.started).UTC(), Duration: time.Since(a.started),
		Host: a.host.config.Name, Type: evidence.Type, Message: evidence.Message,
	}
}
