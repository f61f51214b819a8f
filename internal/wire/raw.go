package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Push is a job that a move stores, as a store takes it.
type Push struct {
	ID          Ref    `json:"id" doc:"of the job"`
	Kind        string `json:"kind" doc:"its kind"`
	Queue       string `json:"queue" doc:"its queue"`
	DelayMS     int64  `json:"delay_ms,omitempty" doc:"wait at least that long"`
	RunAt       Stamp  `json:"run_at,omitzero" doc:"wait until then"`
	Once        bool   `json:"once,omitempty" doc:"it must not run twice"`
	StartsOff   bool   `json:"starts_off,omitempty" doc:"it runs only while its kind is switched on"`
	UniqueKey   string `json:"unique_key,omitempty" doc:"under which at most one job may be"`
	Scope       uint8  `json:"unique_scope,omitempty" doc:"1 while it waits, 2 while it waits or runs, 3 for a period"`
	PeriodMS    int64  `json:"unique_period_ms,omitempty" doc:"with the scope 3"`
	OrderingKey string `json:"ordering_key,omitempty" doc:"jobs with the same key run one at a time"`
	LimitKey    string `json:"limit_key,omitempty" doc:"what its kind's limit per key counts by"`
	Limited     bool   `json:"limited,omitempty" doc:"its kind is held to a limit"`
	Limit       *Limit `json:"limit,omitempty" doc:"what its kind states"`
	EnqueuedAt  Stamp  `json:"enqueued_at,omitzero" doc:"when it was first enqueued; absent: now"`
	Envelope    []byte `json:"envelope_base64" doc:"the job"`
}

func pushOf(job *pawl.NewJob) *Push {
	if job == nil {
		return nil
	}
	limit := LimitOf(job.Limit)
	return &Push{
		Ref(job.ID), job.Kind, job.Queue, Millis(job.Delay), Stamp(job.RunAt), job.Once, job.StartsOff, job.Unique.Key,
		uint8(job.Unique.Scope), Millis(job.Unique.Period), job.OrderingKey, job.LimitKey, job.Limited, &limit,
		Stamp(job.EnqueuedAt), job.Envelope,
	}
}

func (p *Push) read() *pawl.NewJob {
	if p == nil {
		return nil
	}
	var limit pawl.Limit
	if p.Limit != nil {
		limit = p.Limit.Read()
	}
	return &pawl.NewJob{
		ID: pawl.ID(p.ID), Kind: p.Kind, Queue: p.Queue, Delay: Span(p.DelayMS), RunAt: time.Time(p.RunAt), Once: p.Once,
		StartsOff: p.StartsOff, Unique: pawl.Unique{Key: p.UniqueKey, Scope: pawl.UniqueScope(p.Scope), Period: Span(p.PeriodMS)},
		OrderingKey: p.OrderingKey, LimitKey: p.LimitKey, Limited: p.Limited, Limit: limit,
		EnqueuedAt: time.Time(p.EnqueuedAt), Envelope: p.Envelope,
	}
}

// Move is one change of a letter's status.
type Move struct {
	LetterID Ref         `json:"letter_id" doc:"the letter"`
	Action   pawl.Action `json:"action" doc:"redrive, retry, resolve, discard, reopen, note or outcome"`
	By       string      `json:"by,omitempty" doc:"the person who acts, where it is not the token itself"`
	Reason   string      `json:"reason,omitempty" doc:"why, for the audit trail"`
	Note     string      `json:"note,omitempty" doc:"replaces the letter's"`
	Push     *Push       `json:"push,omitempty" doc:"the job that is stored with it"`
	NewJob   Ref         `json:"new_job_id,omitzero" doc:"the job that the caller goes on to store elsewhere"`
	Outcome  string      `json:"outcome,omitempty" doc:"with the action outcome: succeeded, died again or cancelled"`
}

// MoveOf is a move's form.
func MoveOf(m pawl.Move) Move {
	return Move{Ref(m.Letter), m.Action, m.By.Who, m.By.Why, m.Note, pushOf(m.Push), Ref(m.NewJob), string(m.Outcome)}
}

// Read reads the form, but for who acts.
func (m Move) Read() pawl.Move {
	return pawl.Move{
		Letter: pawl.ID(m.LetterID), Action: m.Action, Note: m.Note, Push: m.Push.read(), NewJob: pawl.ID(m.NewJob),
		Outcome: pawl.RedriveOutcome(m.Outcome),
	}
}

// Death is a death elsewhere, to be recorded.
type Death struct {
	LetterDetail
	Envelope []byte `json:"envelope_base64" doc:"what is kept of the job"`
}

// DeathOf is a death's form.
func DeathOf(l pawl.DeadLetter) Death { return Death{LetterDetailOf(l, false), l.Envelope} }

// Read reads the form.
func (d Death) Read() pawl.DeadLetter {
	l := d.LetterDetail.Read()
	l.Envelope = d.Envelope
	return l
}

// Recorded is what became of one death.
type Recorded struct {
	ID  pawl.ID `json:"id" doc:"of the letter"`
	New bool    `json:"new" doc:"false: it was there already"`
}

// Alert is a message to one sink, under lease.
type Alert struct {
	Row        int64    `json:"row" doc:"its number"`
	Token      int64    `json:"token" doc:"of the lease"`
	Sink       string   `json:"sink" doc:"to which it goes"`
	Key        string   `json:"key" doc:"stable over repeats of the same message"`
	Attempt    int      `json:"attempt" doc:"counted from 1"`
	Letters    []Letter `json:"letters" doc:"the one that died; in a digest the first of each group"`
	Regression bool     `json:"regression" doc:"the group of the death, or one of the digest's, had been resolved"`
	Digest     *Digest  `json:"digest" doc:"what it tells of many deaths; null: of one"`
	Test       bool     `json:"test" doc:"an operator tries the sink"`
}

// Digest is what one message tells of many deaths.
type Digest struct {
	Deaths int           `json:"deaths" doc:"how many"`
	First  Stamp         `json:"first_at" doc:"the first of them"`
	Last   Stamp         `json:"last_at" doc:"the last of them"`
	Groups []DigestGroup `json:"groups" doc:"those with the most deaths first"`
	More   int           `json:"more" doc:"groups that are not listed"`
}

// DigestGroup counts the deaths of one fingerprint in a digest.
type DigestGroup struct {
	Deaths     int   `json:"deaths" doc:"how many"`
	First      Stamp `json:"first_at" doc:"the first of them"`
	Last       Stamp `json:"last_at" doc:"the last of them"`
	Regression bool  `json:"regression" doc:"the group had been resolved when one of them died"`
}

// AlertOf is a message's form.
func AlertOf(t pawl.AlertTask) Alert {
	form := Alert{
		Row: t.Row, Token: int64(t.Token), Sink: t.Sink, Key: t.Key, Attempt: t.Attempt, Letters: Each(t.Letters, LetterOf),
		Regression: t.Regression, Test: t.Test,
	}
	if d := t.Digest; d != nil {
		form.Digest = &Digest{d.Deaths, Stamp(d.First), Stamp(d.Last), Each(d.Groups, func(g pawl.AlertGroup) DigestGroup {
			return DigestGroup{g.Deaths, Stamp(g.First), Stamp(g.Last), g.Regression}
		}), d.More}
	}
	return form
}

// Read reads the form.
func (a Alert) Read() pawl.AlertTask {
	task := pawl.AlertTask{Row: a.Row, Token: pawl.Token(a.Token), Sink: a.Sink, Alert: pawl.Alert{
		Key: a.Key, Attempt: a.Attempt, Letters: Each(a.Letters, Letter.Read), Regression: a.Regression, Test: a.Test,
	}}
	if d := a.Digest; d != nil {
		task.Digest = &pawl.Digest{Deaths: d.Deaths, First: time.Time(d.First), Last: time.Time(d.Last), Groups: Each(d.Groups, func(g DigestGroup) pawl.AlertGroup {
			return pawl.AlertGroup{Deaths: g.Deaths, First: time.Time(g.First), Last: time.Time(g.Last), Regression: g.Regression}
		}), More: d.More}
	}
	return task
}
