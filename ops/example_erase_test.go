package ops_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/sqlite"
)

// diedIn records a death, as a host does when a job has failed for good.
func diedIn(ctx context.Context, store *sqlite.Store, options ...pawl.Option) (pawl.ID, error) {
	job, err := work.New(ctx, store.Connection(), args{4711}, options...)
	if err != nil {
		return pawl.ID{}, err
	}
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 6, Envelope: job.Envelope,
	}, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}, job.EnqueuedAt, errors.New("connection refused"))
	_, err = store.RecordDeaths(ctx, []pawl.DeadLetter{letter})
	return letter.ID, err
}

// Letters that were closed long ago are removed; first it is counted how many they are.
func ExampleDesk_Prune() {
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
	by := pawl.By{Who: "ann", Door: "library", Why: "quarterly"}
	for n := range 3 {
		letter, err := diedIn(ctx, store)
		if err == nil && n > 0 {
			err = desk.Resolve(ctx, letter, by, "")
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	old := pawl.LetterFilter{
		Status:       []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded},
		StatusBefore: time.Now().Add(time.Minute), // in earnest: three months ago
	}
	report, err := desk.Prune(ctx, old, ops.PruneOptions{By: by, DryRun: true})
	fmt.Println(report.Letters, report.Removed, err)
	report, err = desk.Prune(ctx, old, ops.PruneOptions{By: by, Expect: report.Letters})
	fmt.Println(report.Letters, report.Removed, report.Kept, err)
	open, err := store.CountLetters(ctx, pawl.LetterFilter{})
	fmt.Println(open, err)
	// Output:
	// 2 0 <nil>
	// 2 2 0 <nil>
	// 1 <nil>
}

// A customer asks to be forgotten: what their jobs carried goes, and that there was such a job stays. It cannot run again.
func ExampleDesk_Redrive_erased() {
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
	letter, err := diedIn(ctx, store, pawl.Tags("customer:4711"))
	if err != nil {
		fmt.Println(err)
		return
	}

	by := pawl.By{Who: "ann", Door: "library", Why: "request 17"}
	erased, err := store.EraseArgs(ctx, pawl.Erase{Tag: "customer:4711", By: by})
	fmt.Println(erased.Letters, erased.History, erased.Left, err)
	kept, err := store.Letter(ctx, letter)
	if err != nil {
		fmt.Println(err)
		return
	}
	envelope, err := pawl.DecodeEnvelope(kept.Envelope)
	fmt.Println(kept.Kind, kept.Message, len(envelope.Args), envelope.Erased.Equal(kept.ErasedAt), err)
	_, err = desk.Redrive(ctx, letter, ops.RedriveOptions{By: by})
	fmt.Println(errors.Is(err, pawl.ErrRedriveRefused))
	// Output:
	// 1 0 0 <nil>
	// work.v1 connection refused 0 true <nil>
	// true
}
