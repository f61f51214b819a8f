package demo

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
)

// gather reads the evidence of a folder.
func (r *run) gather(ctx context.Context) (e evidence, err error) {
	e.signUps, err = r.ledger.signUps(ctx)
	if err == nil {
		e.jobs, err = allJobs(ctx, r.store)
	}
	if err == nil {
		e.letters, err = allLetters(ctx, r.store)
	}
	if err == nil {
		e.forgets, err = countActs(ctx, r.store, pawl.ActionForget)
	}
	if err == nil {
		e.redrives, err = countActs(ctx, r.store, pawl.ActionRedrive)
	}
	if err == nil {
		e.sent, err = r.ledger.sentMails(ctx)
	}
	if err == nil {
		e.alerted, err = receivedAlerts(r.alerts, r.folder.log())
	}
	if err == nil && r.ownMail() {
		e.received, err = receivedMails(r.mails)
	}
	if err == nil {
		e.profiles, err = takenProfiles(r.folder)
	}
	if err != nil {
		return e, fmt.Errorf("gather what became of the run: %w", err)
	}
	return e, nil
}

const pageSize = 1000

func allJobs(ctx context.Context, jobs pawl.Jobs) (all []pawl.JobView, err error) {
	for page := (pawl.Page{Limit: pageSize}); ; {
		found, err := jobs.Jobs(ctx, pawl.JobFilter{}, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Jobs...)
		if page.After = found.Next; found.Next == "" {
			return all, nil
		}
	}
}

func allLetters(ctx context.Context, letters pawl.DeadLetters) (all []pawl.DeadLetter, err error) {
	for page := (pawl.Page{Limit: pageSize}); ; {
		found, err := letters.Letters(ctx, pawl.LetterFilter{OldestFirst: true}, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Letters...)
		if page.After = found.Next; found.Next == "" {
			return all, nil
		}
	}
}

// countActs counts what operators did by the trail, which also knows of letters that are no more.
func countActs(ctx context.Context, letters pawl.DeadLetters, action pawl.Action) (n int, err error) {
	for page := (pawl.Page{Limit: pageSize}); ; {
		found, err := letters.Audit(ctx, pawl.AuditFilter{Action: action}, page)
		if err != nil {
			return 0, err
		}
		n += len(found.Entries)
		if page.After = found.Next; found.Next == "" {
			return n, nil
		}
	}
}
