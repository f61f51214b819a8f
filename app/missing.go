package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
)

// missing says what was not found, and what else goes by the id: jobs and letters are easily taken for each other. Other
// errors of a store say themselves what failed.
func (p *program) missing(ctx context.Context, s store, verb string, id pawl.ID, err error) error {
	if !errors.Is(err, pawl.ErrNotFound) {
		return err
	}
	err = fmt.Errorf("%s %s: %w", verb, id, pawl.ErrNotFound)
	if other := p.namesake(ctx, s, id); other != "" {
		err = fmt.Errorf("%w, but %s", err, other)
	}
	return err
}

// namesake is what an id stands for, if it does for anything.
func (p *program) namesake(ctx context.Context, s store, id pawl.ID) string {
	if job, err := s.Job(ctx, id); err == nil {
		if job.State == pawl.JobDead {
			return fmt.Sprintf("a job of this id died as letter %s: %s dead show %s", job.Letter, p.invocation(), job.Letter)
		}
		return fmt.Sprintf("there is a job of this id: %s job show %s", p.invocation(), id)
	}
	if batch, err := s.Batch(ctx, id); err == nil && batch.State() == pawl.BatchIsOpen {
		return fmt.Sprintf("a job of this id follows a batch that is open: %s batch show %s", p.invocation(), id)
	}
	if _, err := s.Letter(ctx, id); err == nil {
		return fmt.Sprintf("there is a dead letter of this id: %s dead show %s", p.invocation(), id)
	}
	return ""
}
