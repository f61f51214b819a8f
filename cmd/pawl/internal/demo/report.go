package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// report is what a run comes to. Each number is read where it arises: jobs and letters in the store, mails, profiles
// and alerts at those who received them.
type report struct {
	Enqueued int            `json:"enqueued"`
	Done     int            `json:"done"`
	Dead     int            `json:"dead"`
	Retries  int            `json:"retries"`
	ByClass  map[string]int `json:"by_class"`
	Alerts   map[string]int `json:"alerts"` // letters that each sink's receiver was told of
	Seconds  float64        `json:"seconds"`

	Reconciled bool     `json:"reconciled"`
	Problems   []string `json:"problems"` // why it does not reconcile

	SignUps       int    `json:"sign_ups"`
	Redriven      int    `json:"redriven"`       // jobs that operators have made from dead letters
	Removed       int    `json:"removed"`        // jobs that operators have removed
	Unfinished    int    `json:"unfinished"`     // jobs that have not ended
	MailsSent     int    `json:"mails_sent"`     // recorded as sent
	MailsReceived int    `json:"mails_received"` // at the demo's own server
	MailsTwice    int    `json:"mails_twice"`    // sent, not yet recorded when the program was killed, and sent again
	Profiles      int    `json:"profiles"`       // taken by the downstream
	Dir           string `json:"dir"`
	Store         string `json:"store"`
	Mails         string `json:"mails"`

	Next []string `json:"next"` // command lines: look at what died, put it back, run it
}

// evidence is all that a report is made from.
type evidence struct {
	signUps  int
	jobs     []pawl.JobView
	letters  []pawl.DeadLetter
	forgets  int // letters that operators have forgotten
	redrives int // jobs that operators have made from dead letters
	alerted  map[string]alerted
	sent     map[string]bool // mails that are recorded as sent
	received map[string]int  // mails at the demo's own server; nil where another one was used
	profiles map[string]bool // job ids under which profiles were taken
}

// add counts; reconcile compares.
func (e evidence) report() report {
	r := report{
		ByClass: map[string]int{}, Alerts: map[string]int{}, Problems: []string{}, Next: []string{},
		SignUps: e.signUps, Redriven: e.redrives, MailsSent: len(e.sent), MailsReceived: len(e.received), Profiles: len(e.profiles),
	}
	for _, class := range []pawl.DeathClass{pawl.DeathExhausted, pawl.DeathPermanent, pawl.DeathPoison} {
		r.ByClass[class.String()] = 0
	}
	e.countJobs(&r)
	for _, letter := range e.letters {
		if letter.NewJobID == letter.JobID && !letter.JobID.IsZero() {
			continue // retried under its own id: that job counts as what it has become
		}
		r.ByClass[letter.Class.String()]++
	}
	for sink, letters := range e.alerted {
		r.Alerts[sink] = len(letters)
	}
	for _, copies := range e.received {
		r.MailsTwice += copies - 1
	}
	r.Enqueued = 2*e.signUps + r.Redriven
	r.Problems = append(r.Problems, e.problems(r)...)
	r.Reconciled = len(r.Problems) == 0
	return r
}

func (e evidence) countJobs(r *report) {
	for _, job := range e.jobs {
		switch job.State {
		case pawl.JobDone:
			r.Done++
		case pawl.JobDead:
			r.Dead++
		case pawl.JobRemoved:
			r.Removed++
		default:
			r.Unfinished++
		}
		r.Retries += max(job.Attempt-1, 0)
	}
}

// problems says what does not add up.
func (e evidence) problems(r report) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if r.Unfinished > 0 {
		say("%d jobs have not ended", r.Unfinished)
	}
	if r.Enqueued != r.Done+r.Dead+r.Removed+r.Unfinished {
		say("%d jobs enqueued, and %d done + %d dead + %d removed + %d unfinished", r.Enqueued, r.Done, r.Dead, r.Removed, r.Unfinished)
	}
	classes := 0
	for _, n := range r.ByClass {
		classes += n
	}
	if missing := r.Dead - classes; missing < 0 || missing > e.forgets {
		say("%d jobs died, and %d letters are kept", r.Dead, classes)
	}
	for _, sink := range slices.Sorted(maps.Keys(e.alerted)) {
		problems = append(problems, e.alertProblems(sink)...)
	}
	problems = append(problems, e.mailProblems()...)
	return append(problems, e.profileProblems()...)
}

// alertProblems compares the letters with those that a sink's receiver was told of, one by one.
func (e evidence) alertProblems(sink string) (problems []string) {
	unknown := maps.Clone(e.alerted[sink])
	silent := 0
	for _, letter := range e.letters {
		if !unknown[letter.ID.String()] {
			silent++
		}
		delete(unknown, letter.ID.String())
	}
	if silent > 0 {
		problems = append(problems, fmt.Sprintf("%d deaths raised no alert at the sink %s", silent, sink))
	}
	if len(unknown) > e.forgets {
		problems = append(problems, fmt.Sprintf("%d alerts at the sink %s are about letters that are not there", len(unknown), sink))
	}
	return problems
}

// mailProblems compares what is recorded as sent with what has arrived. A mail that arrived twice is a crash between
// sending and recording it; that one has arrived is what counts.
func (e evidence) mailProblems() (problems []string) {
	if e.received == nil {
		return nil
	}
	lost := 0
	for mail := range e.sent {
		if e.received[mail] == 0 {
			lost++
		}
	}
	if lost > 0 {
		problems = append(problems, fmt.Sprintf("%d mails are recorded as sent and have not arrived", lost))
	}
	if unrecorded := len(e.received) + lost - len(e.sent); unrecorded > 0 {
		problems = append(problems, fmt.Sprintf("%d mails have arrived and are not recorded as sent", unrecorded))
	}
	return problems
}

// profileProblems looks for jobs that count as done though their work is not.
func (e evidence) profileProblems() (problems []string) {
	mails, missing := 0, 0
	for _, job := range e.jobs {
		switch {
		case job.State != pawl.JobDone:
		case job.Kind == profilePost.Name() && !e.profiles[job.ID.String()]:
			missing++
		case job.Kind == verificationMail.Name():
			mails++
		}
	}
	if missing > 0 {
		problems = append(problems, fmt.Sprintf("%d profile jobs are done and the downstream has no profile of theirs", missing))
	}
	if mails != len(e.sent) {
		problems = append(problems, fmt.Sprintf("%d mail jobs are done and %d mails are recorded as sent", mails, len(e.sent)))
	}
	return problems
}

// json is the report as one line.
func (r report) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// table is the report for people.
func (r report) table() string {
	var b strings.Builder
	row := func(name string, n int, note string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-15s %7d  %s", name, n, note), " ") + "\n")
	}
	fmt.Fprintf(&b, "%d sign-ups, %.1f s\n\n", r.SignUps, r.Seconds)
	row("enqueued", r.Enqueued, r.enqueuedNote())
	row("done", r.Done, "")
	row("dead", r.Dead, listed(r.ByClass))
	if r.Removed+r.Unfinished > 0 {
		row("removed", r.Removed, "by operators")
		row("unfinished", r.Unfinished, "have not ended")
	}
	row("retries", r.Retries, "attempts after the first")
	row("mails sent", r.MailsSent, r.mailNote())
	row("profiles taken", r.Profiles, "")
	for _, sink := range slices.Sorted(maps.Keys(r.Alerts)) {
		row("alerts: "+sink, r.Alerts[sink], "")
	}
	b.WriteString("\n" + r.verdict() + "\n")
	return b.String()
}

func (r report) enqueuedNote() string {
	if r.Redriven == 0 {
		return ""
	}
	return fmt.Sprintf("%d of them redriven from dead letters", r.Redriven)
}

func (r report) mailNote() string {
	note := r.Mails
	if r.MailsTwice > 0 {
		note += fmt.Sprintf(" (%d twice: the kill came between sending and recording)", r.MailsTwice)
	}
	return note
}

func (r report) verdict() string {
	if r.Reconciled {
		return fmt.Sprintf("It reconciles: %d enqueued = %d done + %d dead, and every death raised one alert at each sink.",
			r.Enqueued, r.Done, r.Dead)
	}
	return "It does not reconcile:\n  - " + strings.Join(r.Problems, "\n  - ")
}

// listed is "permanent 7, poison 1", without the classes that have none.
func listed(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return strings.Join(parts, ", ")
}
