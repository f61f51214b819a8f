package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// handOver stores the jobs that go to other connections. The letters were moved, and are recorded as on their way: what is
// cut off here is done again under the same id, by handOverRest.
func (r *run) handOver(ctx context.Context, items []pawl.ItemStep, plans []*plan) error {
	var handed []pawl.ItemStep
	for i, p := range plans {
		if p == nil || p.shared {
			continue
		}
		item, err := r.handOne(ctx, items[i], *p)
		if err != nil {
			return errors.Join(err, r.record(ctx, handed))
		}
		if handed = append(handed, item); time.Since(r.renewed) >= lookEvery { // a slow one must not cost the lease
			if err := r.record(ctx, handed); err != nil {
				return err
			}
			handed = nil
		}
	}
	return r.record(ctx, handed)
}

// handOne stores one job. It fails when it is not known whether the job was stored.
func (r *run) handOne(ctx context.Context, item pawl.ItemStep, p plan) (pawl.ItemStep, error) {
	done := pawl.ItemStep{Position: item.Position, Letter: item.Letter}
	job, err := r.desk.handOver(ctx, p)
	switch {
	case err == nil || !job.IsZero() && runsAtOnce(p.to): // it has run; the letter says how that ended
		return done, nil
	case job.IsZero():
		done.Refused = err.Error()
		return done, nil
	}
	return done, err
}

func (r *run) record(ctx context.Context, handed []pawl.ItemStep) error {
	if len(handed) == 0 {
		return nil
	}
	_, err := r.advance(ctx, pawl.OperationStep{Handed: handed})
	for _, item := range handed {
		if err == nil && item.Refused != "" {
			r.now.Done, r.now.Refused = r.now.Done-1, r.now.Refused+1
		}
	}
	return err
}

// handOverRest completes what a runner that was cut off has left on its way.
func (r *run) handOverRest(ctx context.Context) error {
	for {
		page, err := r.operations.OperationItems(ctx, r.now.ID, pawl.ItemFilter{State: pawl.ItemHandover}, pawl.Page{Limit: 100})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		for _, item := range page.Items {
			step, err := r.handAgain(ctx, item)
			if err == nil {
				err = r.record(ctx, []pawl.ItemStep{step})
			}
			if err != nil {
				return err
			}
		}
	}
}

// handAgain stores a job that may be stored already, under the id that it was given.
func (r *run) handAgain(ctx context.Context, item pawl.OperationItem) (pawl.ItemStep, error) {
	step := pawl.ItemStep{Position: item.Position, Letter: item.Letter}
	letter, err := r.desk.letters.Letter(ctx, item.Letter)
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		step.Refused = fmt.Sprintf("letter %s was forgotten while its job was on its way", item.Letter)
		return step, nil
	case err != nil:
		return step, err
	case letter.NewJobID != item.Job || letter.Status == pawl.StatusDead: // taken back, or dealt with by others since
		step.Refused = fmt.Sprintf("letter %s was opened again", item.Letter)
		return step, nil
	case letter.Outcome != pawl.RedrivePending:
		return step, nil
	}
	p, err := r.again(letter, item.Job)
	if err != nil {
		step.Refused = r.desk.takeBack(ctx, p, err).Error()
		return step, nil
	}
	return r.handOne(ctx, step, p)
}

// again is the plan that was being carried out.
func (r *run) again(letter pawl.DeadLetter, job pawl.ID) (plan, error) {
	p := plan{letter: letter, move: pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive}}
	var err error
	if p.to, p.shared, err = r.desk.target(letter); err != nil {
		return p, err
	}
	if runsAtOnce(p.to) {
		return p, fmt.Errorf("its run was cut off, and whether its effect has happened is unknown: %w", pawl.ErrConfirm)
	}
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	if err == nil {
		err = restate(&envelope, redriveOptions(r.now.Options, r.by), time.Now())
	}
	if err == nil {
		p.job, err = redriven(envelope, letter.ID, job)
	}
	return p, err
}

// runsAtOnce says that a connection runs a job within its Enqueue.
func runsAtOnce(to pawl.Enqueuer) bool {
	at, ok := to.(interface{ RunsAtOnce() bool })
	return ok && at.RunsAtOnce()
}
