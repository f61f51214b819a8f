package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pawljobs/pawl"
)

// ErrFault is what a call returns that Faulty made fail.
var ErrFault = errors.New("storetest: injected fault")

// When says on which side of the store a call fails.
type When uint8

const (
	Before When = iota // the store never sees the call
	After              // the store has committed it, and the reply is lost
)

func (w When) String() string {
	if w == After {
		return "after"
	}
	return "before"
}

// Hook stands around a call of one method. It decides whether and when to make the call, and the error that it returns
// is the caller's; with an error the caller gets no results. It may block, for as long as ctx is not done.
type Hook func(ctx context.Context, call func() error) error

// Faulty is a store that can fail. It counts every call of a method that takes a ctx, in the order in which they
// come; Fail makes one. It passes on what operators do where the store under it can, and answers ErrUnsupported where
// it cannot. Its methods may be called from several goroutines.
type Faulty struct {
	store        pawl.Store
	operator     pawl.Operator      // nil where the store is none
	work         pawl.OperationWork // the same
	schedules    pawl.Schedules     // the same
	declarations pawl.Declarations  // the same

	mu    sync.Mutex
	log   []string
	at    map[int]When
	hooks map[string]Hook
}

// Fail wraps a store. Until it is told otherwise it only counts.
func Fail(store pawl.Store) *Faulty {
	operator, _ := store.(pawl.Operator)
	work, _ := store.(pawl.OperationWork)
	schedules, _ := store.(pawl.Schedules)
	declarations, _ := store.(pawl.Declarations)
	return &Faulty{
		store: store, operator: operator, work: work, schedules: schedules, declarations: declarations,
		at: map[int]When{}, hooks: map[string]Hook{},
	}
}

// At makes the nth call fail, counted from 1 over the wrapper's whole life.
func (f *Faulty) At(n int, when When) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[n] = when
}

// Hook puts a hook around every later call of a method, such as "Settle"; nil takes it away. Where At fails the call
// Before, the hook does not see it.
func (f *Faulty) Hook(method string, hook Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[method] = hook
}

// Calls is how many calls were made so far.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

// Log names the methods that were called, in order.
func (f *Faulty) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// do makes one call under its number's fault and its method's hook.
func (f *Faulty) do(ctx context.Context, method string, call func() error) error {
	f.mu.Lock()
	f.log = append(f.log, method)
	when, fails := f.at[len(f.log)]
	hook := f.hooks[method]
	f.mu.Unlock()

	if fails && when == Before {
		return ErrFault
	}
	if hook != nil {
		inner := call
		call = func() error { return hook(ctx, inner) }
	}
	if err := call(); err != nil {
		return err
	}
	if fails {
		return ErrFault
	}
	return nil
}

// answer is do for a method with a result.
func answer[T any](ctx context.Context, f *Faulty, method string, call func() (T, error)) (T, error) {
	var result T
	err := f.do(ctx, method, func() (err error) {
		result, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// ask is answer for a method of operators'.
func ask[T any](ctx context.Context, f *Faulty, method string, call func() (T, error)) (T, error) {
	return answer(ctx, f, method, func() (T, error) {
		if f.operator == nil {
			var none T
			return none, pawl.ErrUnsupported
		}
		return call()
	})
}

func (f *Faulty) Connection() pawl.Connection { return f.store.Connection() }

func (f *Faulty) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	return answer(ctx, f, "Enqueue", func() ([]pawl.Enqueued, error) { return f.store.Enqueue(ctx, jobs) })
}

func (f *Faulty) OpenSession(ctx context.Context, host pawl.HostInfo) (pawl.SessionID, error) {
	return answer(ctx, f, "OpenSession", func() (pawl.SessionID, error) { return f.store.OpenSession(ctx, host) })
}

func (f *Faulty) Beat(ctx context.Context, session pawl.SessionID, beat pawl.Beat) (pawl.BeatReply, error) {
	return answer(ctx, f, "Beat", func() (pawl.BeatReply, error) { return f.store.Beat(ctx, session, beat) })
}

func (f *Faulty) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	return answer(ctx, f, "Claim", func() (pawl.Claimed, error) { return f.store.Claim(ctx, request) })
}

func (f *Faulty) Start(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation) ([]error, error) {
	return answer(ctx, f, "Start", func() ([]error, error) { return f.store.Start(ctx, session, reservations) })
}

func (f *Faulty) Settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	return answer(ctx, f, "Settle", func() ([]error, error) { return f.store.Settle(ctx, session, settlements) })
}

func (f *Faulty) Condemn(ctx context.Context, session pawl.SessionID, deaths []pawl.Settlement) ([]error, error) {
	return answer(ctx, f, "Condemn", func() ([]error, error) { return f.store.Condemn(ctx, session, deaths) })
}

func (f *Faulty) Sweep(ctx context.Context, request pawl.SweepRequest) (pawl.SweepReport, error) {
	return answer(ctx, f, "Sweep", func() (pawl.SweepReport, error) { return f.store.Sweep(ctx, request) })
}

func (f *Faulty) Wake(ctx context.Context) (<-chan struct{}, error) {
	return answer(ctx, f, "Wake", func() (<-chan struct{}, error) { return f.store.Wake(ctx) })
}

func (f *Faulty) CloseSession(ctx context.Context, session pawl.SessionID) error {
	return f.do(ctx, "CloseSession", func() error { return f.store.CloseSession(ctx, session) })
}

func (f *Faulty) Jobs(ctx context.Context, filter pawl.JobFilter, page pawl.Page) (pawl.JobPage, error) {
	return ask(ctx, f, "Jobs", func() (pawl.JobPage, error) { return f.operator.Jobs(ctx, filter, page) })
}

func (f *Faulty) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	return ask(ctx, f, "Job", func() (pawl.JobView, error) { return f.operator.Job(ctx, id) })
}

func (f *Faulty) Queues(ctx context.Context) ([]pawl.QueueView, error) {
	return ask(ctx, f, "Queues", func() ([]pawl.QueueView, error) { return f.operator.Queues(ctx) })
}

func (f *Faulty) BusyQueues(ctx context.Context) ([]string, error) {
	return ask(ctx, f, "BusyQueues", func() ([]string, error) { return f.operator.BusyQueues(ctx) })
}

func (f *Faulty) ClearQueue(ctx context.Context, queue string, by pawl.By) (int, error) {
	return ask(ctx, f, "ClearQueue", func() (int, error) { return f.operator.ClearQueue(ctx, queue, by) })
}

func (f *Faulty) QueueHeads(ctx context.Context) ([]pawl.QueueHead, error) {
	return ask(ctx, f, "QueueHeads", func() ([]pawl.QueueHead, error) { return f.operator.QueueHeads(ctx) })
}

func (f *Faulty) CancelJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]pawl.Cancelled, error) {
	return ask(ctx, f, "CancelJobs", func() ([]pawl.Cancelled, error) { return f.operator.CancelJobs(ctx, ids, by) })
}

func (f *Faulty) RunJobsNow(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	return ask(ctx, f, "RunJobsNow", func() ([]error, error) { return f.operator.RunJobsNow(ctx, ids, by) })
}

func (f *Faulty) DeleteJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	return ask(ctx, f, "DeleteJobs", func() ([]error, error) { return f.operator.DeleteJobs(ctx, ids, by) })
}

func (f *Faulty) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	return ask(ctx, f, "RecordDeaths", func() ([]pawl.Recorded, error) { return f.operator.RecordDeaths(ctx, letters) })
}

func (f *Faulty) LetterGroups(ctx context.Context, filter pawl.LetterFilter, limit int) (pawl.LetterGroups, error) {
	return ask(ctx, f, "LetterGroups", func() (pawl.LetterGroups, error) { return f.operator.LetterGroups(ctx, filter, limit) })
}

func (f *Faulty) FindGroup(ctx context.Context, prefix string) (string, error) {
	return ask(ctx, f, "FindGroup", func() (string, error) { return f.operator.FindGroup(ctx, prefix) })
}

func (f *Faulty) Letters(ctx context.Context, filter pawl.LetterFilter, page pawl.Page) (pawl.LetterPage, error) {
	return ask(ctx, f, "Letters", func() (pawl.LetterPage, error) { return f.operator.Letters(ctx, filter, page) })
}

func (f *Faulty) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	return ask(ctx, f, "Letter", func() (pawl.DeadLetter, error) { return f.operator.Letter(ctx, id) })
}

func (f *Faulty) CountLetters(ctx context.Context, filter pawl.LetterFilter) (int, error) {
	return ask(ctx, f, "CountLetters", func() (int, error) { return f.operator.CountLetters(ctx, filter) })
}

func (f *Faulty) MoveLetters(ctx context.Context, moves []pawl.Move) ([]error, error) {
	return ask(ctx, f, "MoveLetters", func() ([]error, error) { return f.operator.MoveLetters(ctx, moves) })
}

func (f *Faulty) ForgetLetter(ctx context.Context, id pawl.ID, by pawl.By) (bool, error) {
	return ask(ctx, f, "ForgetLetter", func() (bool, error) { return f.operator.ForgetLetter(ctx, id, by) })
}

func (f *Faulty) PruneLetters(ctx context.Context, filter pawl.LetterFilter, by pawl.By) (pawl.Pruned, error) {
	return ask(ctx, f, "PruneLetters", func() (pawl.Pruned, error) { return f.operator.PruneLetters(ctx, filter, by) })
}

func (f *Faulty) Limits(ctx context.Context) ([]pawl.KindLimit, error) {
	return ask(ctx, f, "Limits", func() ([]pawl.KindLimit, error) { return f.operator.Limits(ctx) })
}

func (f *Faulty) SetLimit(ctx context.Context, kind string, limit *pawl.Limit, by pawl.By) error {
	return f.tell(ctx, "SetLimit", func() error { return f.operator.SetLimit(ctx, kind, limit, by) })
}

func (f *Faulty) EraseArgs(ctx context.Context, erase pawl.Erase) (pawl.Erased, error) {
	return ask(ctx, f, "EraseArgs", func() (pawl.Erased, error) { return f.operator.EraseArgs(ctx, erase) })
}

func (f *Faulty) Audit(ctx context.Context, filter pawl.AuditFilter, page pawl.Page) (pawl.AuditPage, error) {
	return ask(ctx, f, "Audit", func() (pawl.AuditPage, error) { return f.operator.Audit(ctx, filter, page) })
}

func (f *Faulty) SwitchKind(ctx context.Context, s pawl.KindSwitch, by pawl.By) error {
	return f.tell(ctx, "SwitchKind", func() error { return f.operator.SwitchKind(ctx, s, by) })
}

func (f *Faulty) ResetKind(ctx context.Context, kind string, by pawl.By) error {
	return f.tell(ctx, "ResetKind", func() error { return f.operator.ResetKind(ctx, kind, by) })
}

func (f *Faulty) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	return f.tell(ctx, "PauseQueue", func() error { return f.operator.PauseQueue(ctx, p, by) })
}

func (f *Faulty) tell(ctx context.Context, method string, call func() error) error {
	_, err := ask(ctx, f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (f *Faulty) Switches(ctx context.Context) (pawl.Switches, error) {
	return ask(ctx, f, "Switches", func() (pawl.Switches, error) { return f.operator.Switches(ctx) })
}

func (f *Faulty) Hosts(ctx context.Context) ([]pawl.HostView, error) {
	return ask(ctx, f, "Hosts", func() ([]pawl.HostView, error) { return f.operator.Hosts(ctx) })
}

func (f *Faulty) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	return f.tell(ctx, "QuietHost", func() error { return f.operator.QuietHost(ctx, session, by) })
}

func (f *Faulty) DrainHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	return f.tell(ctx, "DrainHost", func() error { return f.operator.DrainHost(ctx, session, by) })
}

func (f *Faulty) ForgetSink(ctx context.Context, sink string, by pawl.By) (int, error) {
	return ask(ctx, f, "ForgetSink", func() (int, error) { return f.operator.ForgetSink(ctx, sink, by) })
}

func (f *Faulty) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	return ask(ctx, f, "ClaimAlerts", func() ([]pawl.AlertTask, error) { return f.operator.ClaimAlerts(ctx, claim) })
}

func (f *Faulty) SettleAlerts(ctx context.Context, results []pawl.AlertResult) ([]error, error) {
	return ask(ctx, f, "SettleAlerts", func() ([]error, error) { return f.operator.SettleAlerts(ctx, results) })
}

func (f *Faulty) AlertsOf(ctx context.Context, letter pawl.ID) ([]pawl.AlertView, error) {
	return ask(ctx, f, "AlertsOf", func() ([]pawl.AlertView, error) { return f.operator.AlertsOf(ctx, letter) })
}

func (f *Faulty) Sinks(ctx context.Context) ([]pawl.SinkView, error) {
	return ask(ctx, f, "Sinks", func() ([]pawl.SinkView, error) { return f.operator.Sinks(ctx) })
}
