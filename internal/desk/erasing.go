package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// Picked is a row that an erase picks, without its envelope.
type Picked struct {
	Carried
	Queue      string
	EnqueuedAt time.Time
	Before     bool // erased already
}

// Erasing is how far an erase has come: what a store finds is counted here, each row once.
type Erasing struct {
	pawl.Erase
	Done    pawl.Erased
	removed map[pawl.ID]bool // jobs
	seen    map[pawl.ID]bool // letters that were counted
}

// RunErase checks a request and runs it: after a dry run where a number is expected.
func RunErase(ctx context.Context, erase pawl.Erase, run func(context.Context, *Erasing) error) (pawl.Erased, error) {
	if err := CheckErase(erase); err != nil {
		return pawl.Erased{}, err
	}
	if erase.Expect != 0 && !erase.DryRun {
		counting := erase
		counting.DryRun = true
		if _, err := RunErase(ctx, counting, run); err != nil {
			return pawl.Erased{}, err
		}
	}
	z := &Erasing{Erase: erase, removed: map[pawl.ID]bool{}, seen: map[pawl.ID]bool{}}
	if err := run(ctx, z); err != nil {
		return z.Done, fmt.Errorf("erase args: %w", err)
	}
	if erase.DryRun {
		return z.Done, CheckExpected(erase, z.Done)
	}
	return z.Done, nil
}

// FreshLetters are those that are to be erased; the others are counted, in a dry run all.
func (z *Erasing) FreshLetters(some []Picked) (fresh []Picked) {
	for _, c := range some {
		switch {
		case z.seen[c.ID]:
		case c.Before:
			z.Done.Before++
		case z.DryRun:
			z.CountLetter(&z.Done, c)
		default:
			fresh = append(fresh, c)
		}
		z.seen[c.ID] = true
	}
	return fresh
}

// CountLetter counts a letter that was erased.
func (z *Erasing) CountLetter(done *pawl.Erased, c Picked) {
	done.Letters++
	Sample(done, "letter", c.ID, c.Kind, c.EnqueuedAt)
}

// FreshFinished are the finished jobs that are to be erased; the others are counted, in a dry run all.
func (z *Erasing) FreshFinished(some []Picked) (fresh []Picked) {
	for _, c := range some {
		switch {
		case c.Before:
			z.Done.Before++
		case z.DryRun:
			z.CountFinished(&z.Done, c)
		default:
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// CountFinished counts a finished job that was erased, but not one that was counted when it was removed.
func (z *Erasing) CountFinished(done *pawl.Erased, c Picked) {
	if !z.removed[c.Job] {
		done.History++
		Sample(done, "finished job", c.Job, c.Kind, c.EnqueuedAt)
	}
}

// RemoveUnfinished has jobs removed that have not ended, or counts them.
func (z *Erasing) RemoveUnfinished(some []Picked, cancel func(ids []pawl.ID) ([]pawl.Cancelled, error)) error {
	if !z.Unfinished {
		z.Done.Left += len(some)
		return nil
	}
	ids := make([]pawl.ID, len(some))
	for i, c := range some {
		ids[i] = c.Job
		Sample(&z.Done, "job", c.Job, c.Kind, c.EnqueuedAt)
	}
	if z.DryRun {
		z.Done.Removed += len(some)
		return nil
	}
	results, err := cancel(ids)
	for i, result := range results {
		switch {
		case result.Err != nil: // it has ended meanwhile
		case result.State == pawl.JobReserved:
			z.Done.Stopping++
		default:
			z.removed[ids[i]] = true
			z.Done.Removed++
		}
	}
	return err
}
