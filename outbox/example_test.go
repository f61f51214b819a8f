package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
	"github.com/pawljobs/pawl/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "outbox")
	must(err)
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Config{})
	must(err)
	defer store.Close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(err)
	defer db.Close()
	box, err := outbox.OpenSQLite(ctx, db, outbox.Config{Connection: store.Connection()})
	must(err)

	tx, err := db.BeginTx(ctx, nil)
	must(err)
	message, err := work.Enqueue(ctx, box.Tx(tx), args{N: 7})
	must(err)
	must(tx.Commit())
	stats, err := box.Stats(ctx)
	must(err)
	fmt.Println("pending:", stats.Pending)

	d, err := outbox.NewDispatcher(box, store, []pawl.Enqueuer{store}, outbox.DispatcherConfig{})
	must(err)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for d.Counts().Dispatched == 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	must(<-ended)
	job, err := store.Job(context.Background(), message.ID)
	must(err)
	fmt.Println("job:", job.Kind, job.State)
	// Output:
	// pending: 1
	// job: outbox.work.v1 waiting
}

// Those who migrate their database themselves print what makes the tables.
func ExamplePostgresSchema() {
	text, err := outbox.PostgresSchema(outbox.Config{Schema: "shop"})
	must(err)
	fmt.Println(text[:86])
	// Output: create table "shop"."pawl_outbox_control" (name text primary key, value text not null)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
