package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

type (
	photoArgs struct{ ID int }
	albumArgs struct{ ID int }
)

var (
	resize     = pawl.NewKind[photoArgs]("photo.resize.v1", pawl.Policy{})
	albumReady = pawl.NewKind[albumArgs]("album.ready.v1", pawl.Policy{})
)

// The photos of an album are resized, each by a job, and one job follows when all have ended. A photo that turns out to be two
// adds the other one to the batch; one that cannot be read dies, and is counted as dead.
func ExampleKind_EnqueueAfter() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "jobs.db"), sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	mux := pawl.NewMux()
	pawl.Handle(mux, resize, func(ctx context.Context, photo photoArgs) error {
		switch photo.ID {
		case 2:
			_, err := resize.Enqueue(ctx, store, photoArgs{20}, pawl.InBatch(pawl.FromContext(ctx).Batch))
			return err
		case 3:
			return pawl.Permanent(errors.New("not a photo"))
		}
		return nil
	})
	pawl.Handle(mux, albumReady, func(ctx context.Context, album albumArgs) error {
		after := pawl.FromContext(ctx).After
		fmt.Printf("album %d: %d photos resized, %d not\n", album.ID, after.Done, after.Dead)
		return nil
	})

	photos, err := resize.NewMany(ctx, store.Connection(), []photoArgs{{1}, {2}, {3}})
	if err != nil {
		log.Fatal(err)
	}
	opened, err := albumReady.EnqueueAfter(ctx, store, photos, albumArgs{7})
	if err != nil {
		log.Fatal(err)
	}
	h, err := host.New(store, mux, host.Config{Logger: slog.New(slog.DiscardHandler), StopWhenEmpty: true})
	if err == nil {
		err = h.Run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	batch, err := store.Batch(ctx, opened.ID)
	fmt.Println(batch.State(), batch.Members, batch.Pending(), err)
	// Output:
	// album 7: 3 photos resized, 1 not
	// ended 4 0 <nil>
}
