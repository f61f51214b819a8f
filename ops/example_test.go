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
