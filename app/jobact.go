package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// jobAct is a command that acts on jobs.
type jobAct struct {
	action   pawl.Action
	destroys bool // asks, however few there are
	from     []pawl.JobState
	does     func(ctx context.Context, s store, ids []pawl.ID, by pawl.By) ([]jobActed, error)
}

// jobActed is what became of one job.
type jobActed struct {
	id    pawl.ID
	state pawl.JobState // that it is in now
	err   error
}

const jobIDsHelp = `

Several ids are acted on together; one that is refused does not stop the others (exit status 6). Over 100 ask first. The ids
can come from standard input: -`

var unfinished = []pawl.JobState{pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved}

func (p *program) jobCancel() *cobra.Command {
	return p.actingOnJobs(jobAct{action: pawl.ActionCancel, from: unfinished, does: func(ctx context.Context, s store, ids []pawl.ID, by pawl.By) ([]jobActed, error) {
		results, err := s.CancelJobs(ctx, ids, by)
		acted := make([]jobActed, len(results))
		for i, r := range results {
			acted[i] = jobActed{ids[i], r.State, r.Err}
		}
		return acted, err
	}}, &cobra.Command{
		Use:   "cancel ID…",
		Short: "End jobs for good; one that is running is asked to stop",
		Long: `End jobs for good. One that waits or is scheduled is removed at once. One that is running is asked to stop: its handler's
context is cancelled, and when its attempt has ended it is removed, however it ended except well. See job show.` + jobIDsHelp,
		Example: "  pawl job cancel 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'imported twice'",
	})
}

func (p *program) jobRunNow() *cobra.Command {
	return p.actingOnJobs(jobAct{action: pawl.ActionRunNow, from: []pawl.JobState{pawl.JobScheduled}, does: func(ctx context.Context, s store, ids []pawl.ID, by pawl.By) ([]jobActed, error) {
		errs, err := s.RunJobsNow(ctx, ids, by)
		return actedTo(pawl.JobWaiting, ids, errs), err
	}}, &cobra.Command{
		Use:   "run-now ID…",
		Short: "Make scheduled jobs ready at once",
		Long: `Make scheduled jobs ready at once: delayed ones, and those that wait for a retry. They go behind those of their queues
that are ready. A switch or a pause holds them back as any other.` + jobIDsHelp,
		Example: "  pawl job run-now 01890a5d-ac96-774b-bcce-b302099a8057",
	})
}

func (p *program) jobDelete() *cobra.Command {
	return p.actingOnJobs(jobAct{action: pawl.ActionDelete, destroys: true, from: unfinished, does: func(ctx context.Context, s store, ids []pawl.ID, by pawl.By) ([]jobActed, error) {
		errs, err := s.DeleteJobs(ctx, ids, by)
		return actedTo(pawl.JobRemoved, ids, errs), err
	}}, &cobra.Command{
		Use:   "delete ID…",
		Short: "Remove jobs at once, also running ones",
		Long: `Remove jobs that have not ended, at once. A handler that runs finishes, but its end counts for nothing: job cancel asks it
to stop first. The jobs cannot be brought back.` + jobIDsHelp,
		Example: "  pawl job delete 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'imported twice'",
	})
}

func actedTo(state pawl.JobState, ids []pawl.ID, errs []error) []jobActed {
	acted := make([]jobActed, len(errs))
	for i, err := range errs {
		if acted[i] = (jobActed{id: ids[i], err: err}); err == nil {
			acted[i].state = state
		}
	}
	return acted
}

// actingOnJobs gives a command its flags and its work.
func (p *program) actingOnJobs(a jobAct, command *cobra.Command) *cobra.Command {
	var act acting
	var sure confirming
	act.add(command)
	command.Flags().BoolVar(&sure.dryRun, "dry-run", false, "only say what would be done")
	command.Flags().BoolVar(&sure.yes, "yes", false, "do not ask")
	command.Args = needs("the job's ID (or - to read ids from standard input)", 1, -1)
	command.RunE = p.doing(func(ctx context.Context, args []string) (err error) {
		ids, err := p.letterIDs(args)
		if err != nil {
			return err
		}
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		s, err := p.open(ctx, existing)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return p.actOnJobs(ctx, s, a, ids, by, sure)
	})
	return command
}

func (p *program) actOnJobs(ctx context.Context, s store, a jobAct, ids []pawl.ID, by pawl.By, sure confirming) error {
	if sure.dryRun {
		return p.reportJobActs(a, a.rehearse(ctx, s, ids), true)
	}
	if a.destroys || len(ids) > manyLetters {
		deed := fmt.Sprintf("%s %s", a.action, count(len(ids), "job"))
		if a.action != pawl.ActionRunNow {
			deed += " for good"
		}
		if err := p.confirm(sure, deed, sampleJobs(ctx, s, ids)); err != nil {
			return err
		}
	}
	var all []jobActed
	for first := 0; first < len(ids); first += pawl.MaxCancel {
		acted, err := a.does(ctx, s, ids[first:min(first+pawl.MaxCancel, len(ids))], by)
		all = append(all, acted...)
		if err != nil {
			return errors.Join(p.reportJobActs(a, all, false), err)
		}
	}
	return p.reportJobActs(a, all, false)
}

// rehearse says what would be refused. It changes nothing.
func (a jobAct) rehearse(ctx context.Context, s store, ids []pawl.ID) []jobActed {
	acted := make([]jobActed, len(ids))
	for i, id := range ids {
		job, err := s.Job(ctx, id)
		acted[i] = jobActed{id: id, state: job.State, err: err}
		if err == nil && !slices.Contains(a.from, job.State) {
			acted[i].err = fmt.Errorf("job %s is %s: %w", id, job.State, pawl.ErrConflict)
		}
	}
	return acted
}

func sampleJobs(ctx context.Context, s store, ids []pawl.ID) []string {
	var sample []string
	for _, id := range ids[:min(len(ids), sampleSize)] {
		line := id.String()
		if job, err := s.Job(ctx, id); err == nil {
			line = fmt.Sprintf("%s %s %s", id, job.State, job.Kind)
		}
		sample = append(sample, line)
	}
	if rest := len(ids) - len(sample); rest > 0 {
		sample = append(sample, fmt.Sprintf("… and %d more", rest))
	}
	return sample
}

// reportJobActs prints what became of each job. The error carries the exit status for all of them.
func (p *program) reportJobActs(a jobAct, results []jobActed, dry bool) error {
	var all tally
	for _, r := range results {
		if r.err != nil {
			r.err = fmt.Errorf("%s: %w", a.action, r.err)
			p.refusal(r.err)
		}
		all.add(r.err)
		switch {
		case p.json:
			view := wire.JobActed{JobID: r.id, Action: a.action, OK: r.err == nil, State: text(r.state), DryRun: dry}
			if r.err != nil {
				view.Error = text(oneLine(r.err))
			}
			if err := p.printer.object(view); err != nil {
				return err
			}
		case r.err == nil:
			p.printJobActed(a, r, dry)
		}
	}
	return all.err()
}

func (p *program) printJobActed(a jobAct, r jobActed, dry bool) {
	switch {
	case p.printer.mode != modeTable:
		p.printer.line(r.id.String(), "\t", string(r.state))
	case dry:
		p.printer.line(r.id.String(), " is ", string(r.state), ": ", string(a.action), " would be done")
	case a.action == pawl.ActionCancel && r.state == pawl.JobReserved:
		p.printer.line(r.id.String(), " is running and asked to stop")
	default:
		p.printer.line(r.id.String(), " is ", string(r.state))
	}
}
