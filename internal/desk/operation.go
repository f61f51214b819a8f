package desk

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

// Bounds of operations beside those of package pawl.
const (
	mostStopAfter = 100
	longestWait   = 10 * 365 * 24 * time.Hour
	maxReason     = 1000
)

// StepBytes bounds the envelopes that are held in memory for one step.
const StepBytes = 8 << 20

// CheckOperation refuses an operation that makes no sense whatever letters there are.
func CheckOperation(o pawl.NewOperation) error {
	if o.ID.IsZero() {
		return &pawl.FieldError{Field: "operation", Value: o.ID, Rule: "must have an id"}
	}
	if err := CheckBy(o.By); err != nil {
		return err
	}
	switch o.Action {
	case pawl.ActionRedrive, pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen:
	default:
		return &pawl.FieldError{Field: "action", Value: o.Action, Rule: "must be redrive, resolve, discard or reopen"}
	}
	if err := checkPicked(o); err != nil {
		return err
	}
	if err := checkPace(o.Options); err != nil {
		return err
	}
	if o.Action == pawl.ActionRedrive {
		return checkRedrive(o.Options)
	}
	only := o.Options
	only.Expect, only.Cap, only.Rate, only.Note = 0, 0, 0, ""
	if only != (pawl.OperationOptions{}) {
		return &pawl.FieldError{Field: "options", Value: only, Rule: "probe, stop after, a deadline and a confirmation are for a redrive"}
	}
	return nil
}

func checkPicked(o pawl.NewOperation) error {
	if len(o.Letters) == 0 {
		return CheckLetters(o.Filter)
	}
	if !Empty(o.Filter) {
		return &pawl.FieldError{Field: "letters", Value: len(o.Letters), Rule: "must not be named beside a filter"}
	}
	if len(o.Letters) > pawl.MaxNamed {
		return &pawl.FieldError{Field: "letters", Value: len(o.Letters), Rule: fmt.Sprintf("must be at most %d by name; a filter picks more", pawl.MaxNamed)}
	}
	seen := make(map[pawl.ID]bool, len(o.Letters))
	for _, id := range o.Letters {
		if id.IsZero() || seen[id] {
			return &pawl.FieldError{Field: "letters", Value: id, Rule: "must be ids, each once"}
		}
		seen[id] = true
	}
	return nil
}

// Empty reports that a filter matches every letter.
func Empty(f pawl.LetterFilter) bool {
	f.OldestFirst = false
	return reflect.ValueOf(f).IsZero()
}

func checkPace(o pawl.OperationOptions) error {
	switch {
	case o.Expect < 0:
		return &pawl.FieldError{Field: "expect", Value: o.Expect, Rule: "must not be negative"}
	case o.Cap < 0 || o.Cap > pawl.MaxOperation:
		return &pawl.FieldError{Field: "cap", Value: o.Cap, Rule: "must be from 1 to " + strconv.Itoa(pawl.MaxOperation) + ", or 0 for all"}
	case !(o.Rate >= 0) || o.Rate > 1e6 || o.Rate > 0 && o.Rate < 1e-6: // NaN too
		return &pawl.FieldError{Field: "rate", Value: o.Rate, Rule: "must be letters in a second, at most 1000000, or 0 for as many as can be"}
	}
	return storable.Check("note", o.Note, maxNote)
}

func checkRedrive(o pawl.OperationOptions) error {
	switch {
	case o.ProbeWait < 0 || o.ProbeWait > longestWait:
		return &pawl.FieldError{Field: "probe wait", Value: o.ProbeWait, Rule: "must not be negative, and at most 10 years"}
	case o.StopAfter > mostStopAfter:
		return &pawl.FieldError{Field: "stop after", Value: o.StopAfter, Rule: "must be at most " + strconv.Itoa(mostStopAfter)}
	case o.RetryFor != 0 && !o.RetryUntil.IsZero():
		return &pawl.FieldError{Field: "retry for", Value: o.RetryFor, Rule: "must not be given with a retry until"}
	case o.RetryFor < 0 || o.RetryFor > longestWait:
		return &pawl.FieldError{Field: "retry for", Value: o.RetryFor, Rule: "must be greater than 0 and at most 10 years"}
	case !o.RetryUntil.IsZero() && (o.RetryUntil.Year() < 1970 || o.RetryUntil.Year() > 9999):
		return &pawl.FieldError{Field: "retry until", Value: o.RetryUntil, Rule: "must be before the year 10000"}
	}
	return nil
}

// CheckMatched refuses a set of so many letters, as n or more of which were found.
func CheckMatched(o pawl.OperationOptions, n int) error {
	switch {
	case n == 0:
		return fmt.Errorf("no letter matches: %w", pawl.ErrNotFound)
	case n > pawl.MaxOperation:
		return &pawl.FieldError{Field: "cap", Value: o.Cap, Rule: fmt.Sprintf("more than %d letters match: give a cap", pawl.MaxOperation)}
	case o.Expect != 0 && o.Expect != n:
		return fmt.Errorf("%d letters match, and %d were expected: %w", n, o.Expect, pawl.ErrConflict)
	}
	return nil
}

// Most is how many letters are looked for at most.
func Most(o pawl.OperationOptions) int {
	if o.Cap > 0 {
		return o.Cap
	}
	return pawl.MaxOperation + 1
}

// CheckOperations refuses a filter that asks for what no operation can have.
func CheckOperations(f pawl.OperationFilter) error {
	for _, state := range f.State {
		if !slices.Contains(operationStates, state) {
			return &pawl.FieldError{Field: "state", Value: state, Rule: "must be probing, running, paused, stopped or finished"}
		}
	}
	return checkTexts([][2]string{{"action", string(f.Action)}, {"who", f.Who}})
}

var operationStates = []pawl.OperationState{
	pawl.OperationProbing, pawl.OperationRunning, pawl.OperationPaused, pawl.OperationStopped, pawl.OperationFinished,
}

// States and outcomes of items are stored by their place here.
var (
	itemStates   = []pawl.ItemState{pawl.ItemWaiting, pawl.ItemRefused, pawl.ItemDone, pawl.ItemHandover}
	itemOutcomes = []pawl.RedriveOutcome{"", pawl.RedrivePending, pawl.RedriveSucceeded, pawl.RedriveDiedAgain, pawl.RedriveCancelled}
)

// ItemNumber is an item's state as it is stored.
func ItemNumber(s pawl.ItemState) int { return slices.Index(itemStates, s) }

// OutcomeNumber is the outcome of an item's job as it is stored.
func OutcomeNumber(o pawl.RedriveOutcome) int { return slices.Index(itemOutcomes, o) }

// Item puts a stored state and outcome into an item.
func Item(i *pawl.OperationItem, state, outcome int) error {
	if state < 0 || state >= len(itemStates) || outcome < 0 || outcome >= len(itemOutcomes) {
		return fmt.Errorf("stored item has state %d and outcome %d", state, outcome)
	}
	i.State, i.Outcome = itemStates[state], itemOutcomes[outcome]
	return nil
}

// ScanItem reads position, letter, state, outcome, job and reason of an item.
func ScanItem(scan func(...any) error, c Columns) (i pawl.OperationItem, err error) {
	var state, outcome int
	if err := scan(&i.Position, c.ID(&i.Letter), &state, &outcome, c.ID(&i.Job), &i.Reason); err != nil {
		return i, err
	}
	return i, Item(&i, state, outcome)
}

// NotFound is the error of a row that was not found, unless there is another.
func NotFound(err error) error {
	if err == nil {
		return pawl.ErrNotFound
	}
	return err
}

// CheckItems refuses a filter that asks for what no item can have.
func CheckItems(f pawl.ItemFilter) error {
	if f.State != "" && ItemNumber(f.State) < 0 {
		return &pawl.FieldError{Field: "state", Value: f.State, Rule: "must be waiting, refused, done or handing over"}
	}
	if f.Outcome != "" && OutcomeNumber(f.Outcome) < 0 {
		return &pawl.FieldError{Field: "outcome", Value: f.Outcome, Rule: "must be pending, succeeded, died again or cancelled"}
	}
	return nil
}

// FirstState is how an operation begins.
func FirstState(o pawl.OperationOptions, probed bool) pawl.OperationState {
	if o.Probe && !probed {
		return pawl.OperationProbing
	}
	return pawl.OperationRunning
}

// CheckControl refuses what is nothing that can be done to operations.
func CheckControl(ids []pawl.ID, action pawl.Action, by pawl.By) error {
	if len(ids) > pawl.MaxCancel {
		return tooMany(ids)
	}
	switch action {
	case pawl.ActionPause, pawl.ActionResume, pawl.ActionStop:
		return CheckBy(by)
	}
	return &pawl.FieldError{Field: "action", Value: action, Rule: "must be pause, resume or stop"}
}

// Controlled is the state that an action leads to; active is the one to which a resume does.
func Controlled(id pawl.ID, state pawl.OperationState, action pawl.Action, active pawl.OperationState) (pawl.OperationState, error) {
	switch {
	case state.Ended():
		return "", fmt.Errorf("operation %s is %s: %w", id, state, pawl.ErrConflict)
	case action == pawl.ActionStop:
		return pawl.OperationStopped, nil
	case action == pawl.ActionPause && state != pawl.OperationPaused:
		return pawl.OperationPaused, nil
	case action == pawl.ActionResume && state == pawl.OperationPaused:
		return active, nil
	}
	return "", fmt.Errorf("operation %s is %s already: %w", id, state, pawl.ErrConflict)
}

// ControlReason is what an operation says of who has paused or stopped it.
func ControlReason(action pawl.Action, by pawl.By) string {
	switch {
	case action == pawl.ActionResume:
		return ""
	case by.Why == "":
		return "by " + by.Who
	}
	return storable.Text("by "+by.Who+": "+by.Why, maxReason)
}

// Reason is text that is kept with an operation or an item.
func Reason(text string) string { return storable.Text(text, maxReason) }

// OperationEntry is the line in the trail for a change of an operation's state.
func OperationEntry(id pawl.ID, action pawl.Action, from, to pawl.OperationState, outcome string) pawl.AuditEntry {
	return pawl.AuditEntry{Action: action, Subject: "operation " + id.String(), From: string(from), To: string(to), Outcome: outcome}
}

// Begun is the outcome of a start in the trail.
func Begun(action pawl.Action, letters int) string {
	if letters == 1 {
		return fmt.Sprintf("%s of 1 letter", action)
	}
	return fmt.Sprintf("%s of %d letters", action, letters)
}

// CheckLease refuses a request for operations by nobody or for none.
func CheckLease(r pawl.OperationLease) error {
	if r.Max < 1 {
		return &pawl.FieldError{Field: "max", Value: r.Max, Rule: "must be at least 1"}
	}
	if r.Runner == "" {
		return &pawl.FieldError{Field: "runner", Value: "", Rule: "must say who works"}
	}
	return storable.Check("runner", r.Runner, maxWho)
}

// CheckStep refuses a step that makes no sense whatever the operation's state.
func CheckStep(step pawl.OperationStep) error {
	if len(step.Items) > pawl.MaxStep || len(step.Handed) > pawl.MaxStep {
		return &pawl.FieldError{Field: "items", Value: max(len(step.Items), len(step.Handed)), Rule: "must be at most " + strconv.Itoa(pawl.MaxStep)}
	}
	switch step.State {
	case "", pawl.OperationRunning, pawl.OperationStopped, pawl.OperationFinished:
	default:
		return &pawl.FieldError{Field: "state", Value: step.State, Rule: "must be running, stopped or finished"}
	}
	for i, item := range step.Items {
		if item.Refused == "" && item.Move.Letter != item.Letter {
			return &pawl.FieldError{Field: "move", Value: item.Move.Letter, Rule: "must be of the item's letter, " + item.Letter.String()}
		}
		if item.Position != step.Items[0].Position+i {
			return &pawl.FieldError{Field: "position", Value: item.Position, Rule: "must follow the one before"}
		}
	}
	return nil
}

// Standing is what is known of an operation when a step is made.
type Standing struct {
	State                  pawl.OperationState
	Lease                  pawl.Token
	Letters, Done, Refused int
}

// Admit says whether the step may be made.
func (s Standing) Admit(step pawl.OperationStep) error {
	next := s.Done + s.Refused + 1
	switch {
	case s.Lease != step.Lease:
		return fmt.Errorf("operation %s is another runner's: %w", step.Operation, pawl.ErrLeaseLost)
	case !s.State.Active() && (len(step.Items) > 0 || step.State != ""):
		return fmt.Errorf("operation %s is %s: %w", step.Operation, s.State, pawl.ErrConflict)
	case len(step.Items) > 0 && (step.Items[0].Position != next || next+len(step.Items)-1 > s.Letters):
		return fmt.Errorf("operation %s goes on with letter %d of %d, not with %d: %w", step.Operation, next, s.Letters, step.Items[0].Position, pawl.ErrConflict)
	case step.State == pawl.OperationFinished && next+len(step.Items)-1 != s.Letters:
		return fmt.Errorf("operation %s has letters that wait: %w", step.Operation, pawl.ErrConflict)
	}
	return nil
}

// Refused is an error with the text that a runner gave for leaving a letter as it is.
func Refused(text string) error { return refusedError(text) }

type refusedError string

func (e refusedError) Error() string { return string(e) }

// Moved is what an item becomes by a move that was made, and the job that its letter went on as.
func Moved(m pawl.Move) (state pawl.ItemState, job pawl.ID, outcome pawl.RedriveOutcome) {
	switch {
	case m.Push != nil:
		return pawl.ItemDone, m.Push.ID, pawl.RedrivePending
	case !m.NewJob.IsZero():
		return pawl.ItemHandover, m.NewJob, pawl.RedrivePending
	}
	return pawl.ItemDone, pawl.ID{}, ""
}
