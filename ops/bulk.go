package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// Select freezes a set: the ids of the letters that a filter matches now, the oldest death first, at most most of them (0:
// all). It holds ids alone, 16 bytes each. What dies later, or is dealt with in between, does not change the set.
func (d *Desk) Select(ctx context.Context, filter pawl.LetterFilter, most int) ([]pawl.ID, error) {
	if most < 0 {
		return nil, &pawl.FieldError{Field: "most", Value: most, Rule: "must not be negative"}
	}
	filter.OldestFirst = true
	var ids []pawl.ID
	page := pawl.Page{Limit: 1000}
	for {
		found, err := d.letters.Letters(ctx, filter, page)
		if err != nil {
			return nil, fmt.Errorf("select letters: %w", err)
		}
		for _, letter := range found.Letters {
			if ids = append(ids, letter.ID); len(ids) == most {
				return ids, nil
			}
		}
		if page.After = found.Next; found.Next == "" {
			return ids, nil
		}
	}
}

// BulkOptions say how carefully many letters are redriven.
type BulkOptions struct {
	RedriveOptions // Args are refused

	// Expect, unless 0, is how many letters there have to be: with any other number nothing is done (pawl.ErrConflict).
	Expect int
	// Rate is how many letters are redriven in a second. Default: as many as the store takes.
	Rate float64
	// Probe redrives one letter first, the first that is not refused, and the others only when its job has succeeded.
	Probe bool
	// ProbeWait is how long the probe's end is waited for. Default: 10 minutes.
	ProbeWait time.Duration
	// StopAfter stops the rest once so many letters, the first that were redriven, have all died again as they had before:
	// with the same fingerprint. That is looked at once a second, so it helps where Rate leaves jobs the time to run.
	// Default: 10; negative: never.
	StopAfter int
	// Each, unless nil, is told what became of each letter, in order, from the goroutine of the caller.
	Each func(Result)
}

// BulkReport is what became of many letters. Letters that are not counted in it were left as they were.
type BulkReport struct {
	Letters  int // of the set
	Redriven int
	Refused  int
	// Stopped says why the rest was left alone; empty when there is no rest.
	Stopped string
}

const (
	defaultProbeWait = 10 * time.Minute
	defaultStopAfter = 10
	lookEvery        = time.Second
)

// RedriveBulk redrives the letters of a set, in order. One that is refused does not stop the others: it is told to Each.
// The error is not nil when the rest was left alone because ctx was done or the store failed; what was done by then stays
// done, and the report says how much. Doing the same again goes on where it ended: what was redriven is refused then
// (pawl.ErrAlreadyRedriven), and is no part of a set that is selected anew.
//
// Jobs of a kind that is pawl.RedriveOneByOne are refused.
func (d *Desk) RedriveBulk(ctx context.Context, letters []pawl.ID, o BulkOptions) (BulkReport, error) {
	by, err := acting(o.By)
	if err == nil {
		err = o.check(len(letters))
	}
	if err != nil {
		return BulkReport{Letters: len(letters)}, err
	}
	o.By = by
	b := bulk{desk: d, o: o, rest: letters, report: BulkReport{Letters: len(letters)}}
	err = b.run(ctx)
	return b.report, err
}

// CheckRedriveMany says what RedriveMany and RedriveBulk would refuse of a letter, as CheckRedrive does for Redrive.
func (d *Desk) CheckRedriveMany(ctx context.Context, letter pawl.ID, o RedriveOptions) error {
	_, err := d.planRedrive(ctx, letter, o, true)
	return err
}

func (o *BulkOptions) check(letters int) error {
	switch {
	case o.Args != nil:
		return &pawl.FieldError{Field: "args", Value: string(o.Args), Rule: "must be given for one letter only"}
	case !(o.Rate >= 0): // NaN too
		return &pawl.FieldError{Field: "rate", Value: o.Rate, Rule: "must not be negative"}
	case o.ProbeWait < 0:
		return &pawl.FieldError{Field: "probe wait", Value: o.ProbeWait, Rule: "must not be negative"}
	case o.Expect != 0 && o.Expect != letters:
		return fmt.Errorf("there are %s, and %d were expected: %w", some(letters, "letter"), o.Expect, pawl.ErrConflict)
	}
	if o.ProbeWait == 0 {
		o.ProbeWait = defaultProbeWait
	}
	if o.StopAfter == 0 {
		o.StopAfter = defaultStopAfter
	}
	return nil
}

// bulk is one call of RedriveBulk under way.
type bulk struct {
	desk   *Desk
	o      BulkOptions
	rest   []pawl.ID
	report BulkReport
	first  []pawl.ID // that were redriven, at most StopAfter
	looked time.Time // at them
}

func (b *bulk) run(ctx context.Context) error {
	if b.o.Probe {
		if err := b.probe(ctx); err != nil || b.report.Stopped != "" {
			return err
		}
	}
	size, gap := b.pace()
	next := time.Now()
	for len(b.rest) > 0 {
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
		next = time.Now().Add(gap)
		if err := b.redrive(ctx, min(size, len(b.rest))); err != nil {
			return err
		}
		if stop, err := b.dieAlike(ctx); err != nil || stop {
			return err
		}
	}
	return nil
}

// pace is how many letters are redriven at once, and how long after each other.
func (b *bulk) pace() (size int, gap time.Duration) {
	if b.o.Rate == 0 {
		return batch, 0
	}
	size = max(1, min(batch, int(b.o.Rate/5)))
	return size, time.Duration(min(float64(size)/b.o.Rate, 1e9) * float64(time.Second))
}

// redrive takes the first n of the rest. It fails when the store did for all of them.
func (b *bulk) redrive(ctx context.Context, n int) error {
	part := b.rest[:n]
	b.rest = b.rest[n:]
	var failure error
	failed := 0
	for _, r := range b.desk.RedriveMany(ctx, part, b.o.RedriveOptions) {
		switch {
		case r.Err == nil:
			b.report.Redriven++
			if len(b.first) < b.o.StopAfter {
				b.first = append(b.first, r.Letter)
			}
		default:
			b.report.Refused++
			if !refused(r.Err) {
				failure, failed = r.Err, failed+1
			}
		}
		if b.o.Each != nil {
			b.o.Each(r)
		}
	}
	if failed == n {
		return fmt.Errorf("stopped with %s to go: %w", some(len(b.rest), "letter"), failure)
	}
	return nil
}

// refused tells what is wrong with one letter from what is wrong with the store.
func refused(err error) bool {
	for _, of := range []error{
		pawl.ErrNotFound, pawl.ErrConflict, pawl.ErrAlreadyRedriven, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrInvalid,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// probe redrives one letter and waits for its job's end.
func (b *bulk) probe(ctx context.Context) error {
	for len(b.rest) > 0 && b.report.Redriven == 0 {
		probe := b.rest[0]
		if err := b.redrive(ctx, 1); err != nil {
			return err
		}
		if b.report.Redriven == 0 {
			continue
		}
		outcome, err := b.await(ctx, probe)
		switch {
		case err != nil:
			return err
		case outcome == pawl.RedrivePending:
			b.report.Stopped = fmt.Sprintf("the probe, letter %s, has not ended within %s", probe, b.o.ProbeWait)
		case outcome != pawl.RedriveSucceeded:
			b.report.Stopped = fmt.Sprintf("the probe, letter %s, ended so: %s", probe, outcome)
		}
	}
	return nil
}

// await looks once a second how a redrive has ended, for as long as ProbeWait.
func (b *bulk) await(ctx context.Context, letter pawl.ID) (pawl.RedriveOutcome, error) {
	for until := time.Now().Add(b.o.ProbeWait); ; {
		found, err := b.desk.letters.Letter(ctx, letter)
		if err != nil {
			return "", fmt.Errorf("look at the probe: %w", err)
		}
		if found.Outcome != pawl.RedrivePending || !time.Now().Before(until) {
			return found.Outcome, nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return "", err
		}
	}
}

// dieAlike reports that the first letters have all died again as they had before.
func (b *bulk) dieAlike(ctx context.Context) (bool, error) {
	if b.o.StopAfter < 0 || len(b.first) < b.o.StopAfter || len(b.rest) == 0 || time.Since(b.looked) < lookEvery {
		return false, nil
	}
	b.looked = time.Now()
	for _, id := range b.first {
		alike, err := b.desk.diedAlike(ctx, id)
		if err != nil {
			return false, fmt.Errorf("look at the first that were redriven: %w", err)
		}
		if !alike {
			return false, nil
		}
	}
	b.report.Stopped = fmt.Sprintf("the first %d died again as they had before", len(b.first))
	return true, nil
}

func (d *Desk) diedAlike(ctx context.Context, id pawl.ID) (bool, error) {
	letter, err := d.letters.Letter(ctx, id)
	switch {
	case errors.Is(err, pawl.ErrNotFound): // forgotten meanwhile
		return false, nil
	case err != nil || letter.Outcome != pawl.RedriveDiedAgain || letter.NextLetter.IsZero():
		return false, err
	}
	next, err := d.letters.Letter(ctx, letter.NextLetter)
	if errors.Is(err, pawl.ErrNotFound) {
		return false, nil
	}
	return err == nil && next.Fingerprint == letter.Fingerprint, err
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
