// Transaction keeps an order and the job that works on it in one SQLite transaction: both are there, or neither.
// go run ./examples/transaction; end it with Ctrl-C.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

type ReceiptArgs struct {
	OrderID int64 `json:"order_id"`
}

var Receipt = pawl.NewKind[ReceiptArgs]("receipt.send.v1", pawl.Policy{Queue: "1-critical"})

// The service's own connections to the file. A transaction that enqueues has to begin as immediate, and to wait for
// its turn to write.
const dataSource = "file:shop.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := sql.Open("sqlite", dataSource)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlite.Open(ctx, "shop.db", sqlite.Config{}) // Pawl's tables, in the service's file
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := db.ExecContext(ctx, `create table if not exists orders (id integer primary key, item text not null)`); err != nil {
		return err
	}
	if err := order(ctx, db, store, "a kettle"); err != nil {
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
	return h.Run(ctx)
}

func order(ctx context.Context, db *sql.DB, store *sqlite.Store, item string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	var id int64
	if err := tx.QueryRowContext(ctx, `insert into orders (item) values (?) returning id`, item).Scan(&id); err != nil {
		return err
	}
	if _, err := Receipt.Enqueue(ctx, store.Tx(tx), ReceiptArgs{OrderID: id}); err != nil {
		return err
	}
	return tx.Commit()
}
