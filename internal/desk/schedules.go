package desk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
	"github.com/pawljobs/pawl/schedule"
)

// SchedulesAtOnce is how many due schedules one sweep works on in one transaction.
const SchedulesAtOnce = 100

// RunsAtOnce is how many jobs of schedules one sweep looks after, and RunLook is the time between two looks at one.
const (
	RunsAtOnce = 200
	RunLook    = time.Minute
)

// stuckLook is when a schedule that this program cannot read is looked at again: another program may.
const stuckLook = time.Minute

// mostSeen is how many declarations of a schedule are remembered.
const mostSeen = 50

// ScheduleRow is a schedule as it is stored.
type ScheduleRow struct {
	ID int64
	pawl.ScheduleView
	Fingerprint string   // of the declaration that it has; "" unless Declared
	Seen        []string // fingerprints of all declarations that it had, the present one included
}

// NewScheduleRow is a schedule that begins now. One without a tick to come is refused unless it is declared.
func NewScheduleRow(s pawl.Schedule, now time.Time) (*ScheduleRow, error) {
	r := &ScheduleRow{ScheduleView: pawl.ScheduleView{CreatedAt: now}}
	return r, r.Change(s, now)
}

// Change has the row say what s says from now on.
func (r *ScheduleRow) Change(s pawl.Schedule, now time.Time) error {
	next, due, err := schedule.First(s, now, r.LastTick)
	if err != nil {
		return err
	}
	r.Schedule, r.ChangedAt, r.Next, r.DueAt, r.Problem = s, now, next, due, ""
	if r.Paused {
		r.Next, r.DueAt = time.Time{}, time.Time{}
	}
	return nil
}

// Pause pauses or resumes it; false when it is so already.
func (r *ScheduleRow) Pause(paused bool, now time.Time) bool {
	if r.Paused == paused {
		return false
	}
	r.Paused, r.Next, r.DueAt = paused, time.Time{}, time.Time{}
	if paused {
		return true
	}
	r.ChangedAt = now
	if next, due, err := schedule.First(r.Schedule, now, r.LastTick); err == nil { // else it has come to its end
		r.Next, r.DueAt = next, due
	}
	return true
}

// OpenRuns says which jobs of a schedule have not ended.
type OpenRuns struct{ Waiting, Running bool }

// blocks reports that a tick gets no job.
func (o OpenRuns) blocks(rule pawl.OverlapRule) bool {
	switch rule {
	case pawl.OverlapAllow:
		return false
	case pawl.OverlapQueue:
		return o.Waiting
	}
	return o.Waiting || o.Running
}

// Due acts on a row whose tick may be due, and returns the jobs to enqueue and the ticks that they are of.
func (r *ScheduleRow) Due(connection pawl.Connection, open OpenRuns, now time.Time) (jobs []pawl.NewJob, ticks []time.Time) {
	due := r.DueAt
	if r.Problem != "" { // then DueAt says when to look again
		due = r.Next
	}
	plan, err := schedule.PlanAt(r.Schedule, r.Next, due, now)
	for _, tick := range plan.Fire {
		if open.blocks(r.Overlap) || err != nil {
			break
		}
		var job pawl.NewJob
		if job, err = schedule.JobOf(connection, r.Schedule, tick); err == nil {
			jobs, ticks = append(jobs, job), append(ticks, tick)
		}
	}
	if err != nil {
		r.Problem, r.DueAt = storable.Text(err.Error(), maxNote), now.Add(stuckLook)
		return nil, nil
	}
	if skipped := len(plan.Fire) - len(ticks); skipped > 0 {
		r.SkippedTicks, r.SkippedAt = r.SkippedTicks+skipped, now
	}
	if plan.Missed > 0 {
		r.MissedTicks, r.MissedAt = r.MissedTicks+plan.Missed, now
	}
	if n := len(ticks); n > 0 {
		r.Fired, r.LastTick, r.LastJob = r.Fired+n, ticks[n-1], jobs[n-1].ID
	}
	r.Next, r.DueAt, r.Problem = plan.Next, plan.Due, ""
	return jobs, ticks
}

// RunNow is a job of the row beside its ticks.
func (r *ScheduleRow) RunNow(connection pawl.Connection, open OpenRuns, now time.Time) (pawl.NewJob, error) {
	job, err := schedule.JobNow(connection, r.Schedule, now)
	if err != nil {
		return pawl.NewJob{}, fmt.Errorf("schedule %s: %w", r.Name, err)
	}
	e, err := pawl.DecodeEnvelope(job.Envelope)
	switch {
	case err != nil:
		return pawl.NewJob{}, err
	case e.Policy.Redrive == pawl.RedriveNever:
		return pawl.NewJob{}, fmt.Errorf("schedule %s: its jobs' policy says that they are run by nothing but its ticks: %w", r.Name, pawl.ErrRedriveRefused)
	case open.blocks(r.Overlap):
		return pawl.NewJob{}, fmt.Errorf("schedule %s: its job %s has not ended, and its overlap rule is %s: %w", r.Name, r.LastJob, r.Overlap, pawl.ErrConflict)
	}
	r.LastJob = job.ID
	return job, nil
}

// Declarer is a live host's session with what it declares.
type Declarer struct {
	Session   pawl.SessionID
	Host      string
	Schedules map[string]string // fingerprints by name
}

// Declarers are the hosts that declare a schedule of this name, each once.
func Declarers(all []Declarer, name string) []string {
	var hosts []string
	for _, d := range all {
		if fingerprint, ok := d.Schedules[name]; ok && fingerprint != removedPrint {
			hosts = append(hosts, d.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

var removedPrint = func() string {
	print, _ := schedule.Fingerprint(pawl.Schedule{Removed: true})
	return print
}()

// DeclareAll has schedules declared, each in its own right. Its error is that of ctx.
func DeclareAll(ctx context.Context, schedules []pawl.Schedule, declare func(context.Context, pawl.Schedule) (pawl.DeclareStatus, error)) ([]pawl.Declared, error) {
	results := make([]pawl.Declared, len(schedules))
	for i, declared := range schedules {
		declared, err := CheckSchedule(declared, System())
		if schedules[i].Removed {
			declared, err = schedules[i], CheckName("schedule name", schedules[i].Name)
		}
		if err == nil {
			results[i].Status, err = declare(ctx, declared)
		}
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("declare schedules: %w", err)
		}
		results[i].Err = err
	}
	return results, nil
}

// Declare decides what a declaration of a session does: with DeclaredNew it returns the row as it is to be stored, a fresh one
// where there was none, and the line in the trail; else neither. Row is nil where there is none.
func Declare(row *ScheduleRow, s pawl.Schedule, session pawl.SessionID, all []Declarer, now time.Time) (*ScheduleRow, *pawl.AuditEntry, pawl.DeclareStatus, error) {
	from := ""
	if row != nil {
		from = Says(row.Schedule)
	}
	row, status, err := decide(row, s, session, all, now)
	if err != nil || status != pawl.DeclaredNew {
		return nil, nil, status, err
	}
	entry := ScheduleEntry(pawl.ActionDeclare, s.Name, from, Says(s))
	return row, &entry, status, nil
}

func decide(row *ScheduleRow, s pawl.Schedule, session pawl.SessionID, all []Declarer, now time.Time) (*ScheduleRow, pawl.DeclareStatus, error) {
	print, err := schedule.Fingerprint(s)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case row == nil:
		row = &ScheduleRow{ScheduleView: pawl.ScheduleView{CreatedAt: now}}
	case !row.ScheduleView.Declared:
		if s.Removed {
			return row, pawl.DeclaredUnchanged, nil
		}
		return row, pawl.DeclaredForeign, nil
	case row.Fingerprint == print:
		return row, pawl.DeclaredUnchanged, nil
	case slices.Contains(row.Seen, print) && slices.ContainsFunc(all, func(d Declarer) bool {
		return d.Session != session && d.Schedules[s.Name] == row.Fingerprint
	}):
		return row, pawl.DeclaredOutdated, nil
	}
	row.ScheduleView.Declared, row.Fingerprint = true, print
	row.Seen = append(slices.DeleteFunc(row.Seen, func(seen string) bool { return seen == print }), print)
	row.Seen = row.Seen[max(0, len(row.Seen)-mostSeen):]
	if s.Removed {
		row.Removed, row.Name, row.ChangedAt = true, s.Name, now
		row.Next, row.DueAt = time.Time{}, time.Time{}
		return row, pawl.DeclaredNew, nil
	}
	if err := row.Change(s, now); err != nil {
		// Its end lies behind: that is no fault of the code that still names it.
		row.Schedule, row.ChangedAt, row.Next, row.DueAt, row.Problem = s, now, time.Time{}, time.Time{}, ""
	}
	return row, pawl.DeclaredNew, nil
}

// MayChange refuses what operators may not do to a schedule that code declares.
func (r *ScheduleRow) MayChange(all []Declarer) error {
	if hosts := Declarers(all, r.Name); len(hosts) > 0 && r.ScheduleView.Declared {
		return fmt.Errorf("schedule %s is declared by the code of %s: change it there, or pause it: %w", r.Name, strings.Join(hosts, ", "), pawl.ErrConflict)
	}
	return nil
}

// NoSchedule is the error where there is none of the name.
func NoSchedule(name string) error { return fmt.Errorf("schedule %s: %w", name, pawl.ErrNotFound) }

// CheckKnown refuses a kind that no host has ever registered.
func CheckKnown(s pawl.Schedule, known bool) error {
	if known || s.Removed {
		return nil
	}
	return fmt.Errorf("schedule %s: %w", s.Name, &pawl.FieldError{Field: "kind", Value: s.Kind, Rule: "must be one that a host has registered; none ever has: start the program that runs it once, if the name is right"})
}

// CheckSchedule completes and checks what an operator hands in.
func CheckSchedule(s pawl.Schedule, by pawl.By) (pawl.Schedule, error) {
	if err := CheckBy(by); err != nil {
		return s, err
	}
	if s.Removed {
		return s, &pawl.FieldError{Field: "removed", Value: true, Rule: "is for declarations: delete the schedule"}
	}
	s = schedule.Complete(s)
	return s, schedule.Check(s)
}

// CheckScheduleFilter refuses a filter that asks for what no schedule can have.
func CheckScheduleFilter(f pawl.ScheduleFilter) error {
	return checkTexts([][2]string{{"kind", f.Kind}, {"prefix", f.Prefix}})
}

// ScheduleEntry is a line in the trail about a schedule.
func ScheduleEntry(action pawl.Action, name, from, to string) pawl.AuditEntry {
	return pawl.AuditEntry{Action: action, Subject: "schedule " + name, From: from, To: to}
}

// Says is what a schedule says, in short, as the trail shows it.
func Says(s pawl.Schedule) string {
	if s.Removed {
		return "removed"
	}
	text, err := schedule.Encode(s)
	if err != nil {
		text = err.Error()
	}
	return storable.Text(fmt.Sprintf("%s %s %s", s.Kind, text, s.Args), maxNote)
}

// Pausing is the state before and after a pause or a resume.
func Pausing(paused bool) string {
	if paused {
		return "paused"
	}
	return "running"
}
