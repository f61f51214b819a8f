// Outbox takes an order in one database and does its work from a store in another: the order and the message to the store
// are one transaction, and a dispatcher carries the message over. go run ./examples/outbox; end it with Ctrl-C.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/outbox"
	"github.com/pawljobs/pawl/sqlite"
)

type ReceiptArgs struct {
	OrderID int64 `json:"order_id"`
}

var Receipt = pawl.NewKind[ReceiptArgs]("receipt.send.v1", pawl.Policy{Queue: "1-critical"})

// The business database. A transaction that writes a message has to begin as immediate.
const dataSource = "file:orders.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := sqlite.Open(ctx, "jobs.db", sqlite.Config{}) // or postgres.Open, on another server
	if err != nil {
		return err
	}
	defer store.Close()
	db, err := sql.Open("sqlite", dataSource)
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := outbox.OpenSQLite(ctx, db, outbox.Config{Connection: store.Connection()})
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `create table if not exists orders (id integer primary key, item text not null)`); err != nil {
		return err
	}
	if err := order(ctx, db, box, "a kettle"); err != nil {
		return err
	}

	dispatcher, err := outbox.NewDispatcher(box, store, []pawl.Enqueuer{store}, outbox.DispatcherConfig{})
	if err != nil {
		return err
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, Receipt, func(ctx context.Context, args ReceiptArgs) error {
		var item string
		if err := db.QueryRowContext(ctx, `select item from orders where id = ?`, args.OrderID).Scan(&item); err != nil {
			return err
		}
		fmt.Println("a receipt for", item)
		return nil
	})
	h, err := host.New(store, mux, host.Config{})
	if err != nil {
		return err
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() { _ = dispatcher.Run(ctx) }) // it returns nil
	return h.Run(ctx)
}

// order keeps an order, and the message that a receipt is to be sent, or neither.
func order(ctx context.Context, db *sql.DB, box *outbox.Box, item string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	var id int64
	if err := tx.QueryRowContext(ctx, `insert into orders (item) values (?) returning id`, item).Scan(&id); err != nil {
		return err
	}
	if _, err := Receipt.Enqueue(ctx, box.Tx(tx), ReceiptArgs{OrderID: id}); err != nil {
		return err
	}
	return tx.Commit()
}
