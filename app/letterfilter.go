package app

import (
	"context"
	"errors"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

// letterFiltering are the flags that pick letters, the same for every command that does.
type letterFiltering struct {
	filter pawl.LetterFilter
	all    bool
}

// add gives a command all of them. It lists open failures unless another status is asked for.
func (f *letterFiltering) add(command *cobra.Command) {
	flags := command.Flags()
	addFlag(flags, &f.filter.Status, "status", "STATUS", "dead, redriven, resolved or discarded; several with commas (default dead)", parseNames[pawl.Status])
	addFlag(flags, &f.filter.Reason, "reason", "REASON", "why it died: "+reasonNames(), oneOf(allReasons...))
	addFlag(flags, &f.filter.JobID, "job", "JOB_ID", "of this job", pawl.ParseID)
	flags.BoolVar(&f.all, "all", false, "whatever the status")
	exclusive(command, "all", "status")
	completes(command, "status", pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved, pawl.StatusDiscarded)
	completes(command, "reason", allReasons...)
	f.addOpen(command)
}

// addOpen gives a command those that make sense for open failures, and leaves --reason to the audit trail.
func (f *letterFiltering) addOpen(command *cobra.Command) {
	flags := command.Flags()
	addFlag(flags, &f.filter.Class, "class", "CLASS", "transient-exhausted, permanent or poison; several with commas", parseNames[pawl.DeathClass])
	flags.StringVar(&f.filter.Kind, "kind", "", "of this kind")
	flags.StringVar(&f.filter.Queue, "queue", "", "from this queue")
	flags.StringVar(&f.filter.Fingerprint, "group", "", "of this `GROUP`, or the one that begins so: failures that are alike (see dead groups)")
	flags.StringVar(&f.filter.CorrelationID, "correlation-id", "", "part of this request or process")
	flags.StringVar(&f.filter.Tag, "tag", "", "with this tag")
	addFlag(flags, &f.filter.Batch, "batch", "BATCH_ID", "of members of this batch", pawl.ParseID)
	flags.BoolVar(&f.filter.Regression, "regression", false, "whose group had been resolved before")
	flags.StringVar(&f.filter.Text, "error", "", "with this `TEXT` in the error's type or message")
	addFlag(flags, &f.filter.Since, "since", "TIME", "died at or after this time, or at most this long ago (90m, 7d)", parsePast)
	addFlag(flags, &f.filter.Until, "until", "TIME", "died before this time, or at least this long ago", parsePast)
	completes(command, "class", pawl.DeathExhausted, pawl.DeathPermanent, pawl.DeathPoison)
}

// pick is the filter that was asked for. A group that no letter has picks none.
func (f *letterFiltering) pick(ctx context.Context, s store) (pawl.LetterFilter, error) {
	filter := f.filter
	if !f.all && len(filter.Status) == 0 {
		filter.Status = openOnly().Status
	}
	if filter.Fingerprint == "" {
		return filter, nil
	}
	group, err := s.FindGroup(ctx, filter.Fingerprint)
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		return filter, nil
	case err != nil:
		return filter, err
	}
	filter.Fingerprint = group
	return filter, nil
}
