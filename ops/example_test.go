package ops_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
)

// A mail that could not be sent is run again once the mail server is back.
func ExampleDesk_Redrive() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "pawl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "jobs.db"), sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	serverIsUp := false
	mux := pawl.NewMux()
	pawl.Handle(mux, work, func(context.Context, args) error {
		if !serverIsUp {
			return errors.New("connection refused")
		}
		return nil
	})
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	mails, err := inline.New(mux, inline.Config{Connection: "mails", DeadLetters: store, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = work.Enqueue(ctx, mails, args{1}) // dies

	desk, err := ops.New(store, map[string]pawl.Enqueuer{"mails": mails})
	if err != nil {
		fmt.Println(err)
		return
	}
	open := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
	page, err := store.Letters(ctx, open, pawl.Page{})
	if err != nil {
		fmt.Println(err)
		return
	}
	died := page.Letters[0]
	fmt.Println(died.Kind, died.Status, died.Message)

	serverIsUp = true
	by := pawl.By{Who: "ann", Door: "library", Why: "the mail server is back"}
	if _, err := desk.Redrive(ctx, died.ID, ops.RedriveOptions{By: by}); err != nil {
		fmt.Println(err)
	}
	_, err = desk.Redrive(ctx, died.ID, ops.RedriveOptions{By: by})
	fmt.Println(errors.Is(err, pawl.ErrAlreadyRedriven))
	after, err := store.Letter(ctx, died.ID)
	fmt.Println(after.Status, after.Outcome, err)
	// Output:
	// work.v1 dead connection refused
	// true
	// resolved succeeded <nil>
}

// The mail server is back: its letters are redriven by an operation, which another process could go on with.
func ExampleDesk_StartOperation() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "pawl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "jobs.db"), sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	desk, err := ops.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 3 { // as a host does when a job has failed for good
		job, err := work.New(ctx, store.Connection(), args{n})
		if err != nil {
			fmt.Println(err)
			return
		}
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, pawl.ClaimedJob{
			Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 6, Envelope: job.Envelope,
		}, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}, job.EnqueuedAt, errors.New("connection refused"))
		if _, err := store.RecordDeaths(ctx, []pawl.DeadLetter{letter}); err != nil {
			fmt.Println(err)
			return
		}
	}

	operation, err := desk.StartOperation(ctx, pawl.NewOperation{
		Action:  pawl.ActionRedrive,
		Filter:  pawl.LetterFilter{Kind: "work.v1"},
		By:      pawl.By{Who: "ann", Why: "the mail server is back"},
		Options: pawl.OperationOptions{Expect: 3, Rate: 100},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(operation.State, operation.Letters)
	operation, err = desk.RunOperation(ctx, operation.ID, ops.RunOptions{})
	fmt.Println(operation.State, operation.Done, operation.Refused, operation.Pending, err)
	// Output:
	// running 3
	// finished 3 0 3 <nil>
}
