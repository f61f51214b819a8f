package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// control does one thing to an operation, which must be allowed.
func (f *fixture) control(id pawl.ID, action pawl.Action) {
	f.Helper()
	f.ok(string(action), f.tryControl(id, action))
}

func (f *fixture) tryControl(id pawl.ID, action pawl.Action) error {
	f.Helper()
	errs, err := f.store.ControlOperations(f.ctx, []pawl.ID{id}, action, operator("wait"))
	f.ok("control operations", err)
	f.equal("results", len(errs), 1)
	return errs[0]
}

func operationControlled(f *fixture) {
	f.lettersFor(1)
	for _, probe := range []bool{false, true} {
		active := map[bool]pawl.OperationState{true: pawl.OperationProbing, false: pawl.OperationRunning}[probe]
		o := redriveAll()
		o.Options.Probe = probe
		f.begun(o)
		for _, step := range []struct {
			action pawl.Action
			want   error
			state  pawl.OperationState
		}{
			{pawl.ActionResume, pawl.ErrConflict, active},
			{pawl.ActionPause, nil, pawl.OperationPaused},
			{pawl.ActionPause, pawl.ErrConflict, pawl.OperationPaused},
			{pawl.ActionResume, nil, active},
			{pawl.ActionPause, nil, pawl.OperationPaused},
			{pawl.ActionStop, nil, pawl.OperationStopped},
			{pawl.ActionStop, pawl.ErrConflict, pawl.OperationStopped},
			{pawl.ActionResume, pawl.ErrConflict, pawl.OperationStopped},
			{pawl.ActionPause, pawl.ErrConflict, pawl.OperationStopped},
		} {
			f.fails(string(step.action), f.tryControl(o.ID, step.action), step.want)
			got := f.operation(o.ID)
			f.equal("state", got.State, step.state)
			f.equal("reason", got.Reason, map[bool]string{true: "", false: "by ada: wait"}[step.state.Active()])
			f.equal("has ended", !got.EndedAt.IsZero(), step.state.Ended())
		}
	}
}

func controlsAudited(f *fixture) {
	f.lettersFor(1)
	o := f.begun(redriveAll())
	subject := pawl.AuditFilter{Subject: "operation " + o.ID.String()}
	for i, step := range []struct {
		action   pawl.Action
		from, to string
	}{{pawl.ActionPause, "running", "paused"}, {pawl.ActionResume, "paused", "running"}, {pawl.ActionStop, "running", "stopped"}} {
		f.control(o.ID, step.action)
		entries := f.audit(subject)
		f.equal("entries", len(entries), i+2)
		entry := entries[0]
		entry.ID, entry.At = 0, time.Time{}
		f.equal("entry", entry, pawl.AuditEntry{
			Who: "ada", Door: "cli", Why: "wait", Action: step.action, Subject: subject.Subject, From: step.from, To: step.to,
		})
	}
	f.fails("pause", f.tryControl(o.ID, pawl.ActionPause), pawl.ErrConflict)
	f.equal("entries", len(f.audit(subject)), 4)
}

func controlsApart(f *fixture) {
	f.lettersFor(1)
	first, second := f.begun(redriveAll()), f.begun(redriveAll())
	errs, err := f.store.ControlOperations(f.ctx, []pawl.ID{first.ID, pawl.NewID(), first.ID, second.ID}, pawl.ActionPause, operator("wait"))
	f.ok("control operations", err)
	for i, want := range []error{nil, pawl.ErrNotFound, pawl.ErrConflict, nil} {
		f.fails(fmt.Sprint("operation ", i), errs[i], want)
	}
	f.equal("state of the last", f.operation(second.ID).State, pawl.OperationPaused)
	_, err = f.store.ControlOperations(f.ctx, []pawl.ID{first.ID}, pawl.ActionStart, operator("x"))
	f.fails("an action of none", err, pawl.ErrInvalid)
	_, err = f.store.ControlOperations(f.ctx, slices.Repeat([]pawl.ID{first.ID}, pawl.MaxCancel+1), pawl.ActionStop, operator("x"))
	f.fails("too many", err, pawl.ErrInvalid)
	_, err = f.store.ControlOperations(f.ctx, []pawl.ID{first.ID}, pawl.ActionStop, pawl.By{})
	f.fails("nobody", err, pawl.ErrInvalid)
	_, err = f.store.Operation(f.ctx, pawl.NewID())
	f.fails("an operation of none", err, pawl.ErrNotFound)
}
