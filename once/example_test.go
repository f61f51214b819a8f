package once_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/once"
	"github.com/pawljobs/pawl/sqlite"
)

type CreditArgs struct {
	PaymentID string `json:"payment_id"`
	Account   string `json:"account"`
	Cents     int64  `json:"cents"`
}

// Money: it must not run twice by itself, and not at all before somebody has switched it on; an operator redrives it
// one by one.
var Credit = pawl.NewKind[CreditArgs]("ledger.credit.v1", pawl.Policy{MaxTries: 1, StartsOff: true, Redrive: pawl.RedriveOneByOne})

// Ledger books credits.
type Ledger struct {
	db    *sql.DB
	marks *once.Marks
}

// Credit books a payment. The mark is part of the booking, so it is booked once, however often the job runs: after a
// redrive, or when two jobs were made for one payment.
func (l *Ledger) Credit(ctx context.Context, args CreditArgs) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	first, err := l.marks.Claim(ctx, tx, "ledger.credit", args.PaymentID)
	if err != nil {
		return err
	}
	if !first {
		fmt.Println("payment", args.PaymentID, "is booked already")
		return nil
	}
	if _, err := tx.ExecContext(ctx, `update account set cents = cents + ? where name = ?`, args.Cents, args.Account); err != nil {
		return err
	}
	return tx.Commit()
}

// Money: the mark and the booking are one transaction.
func ExampleMarks_Claim_money() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer os.RemoveAll(dir)
	db := openBusiness(ctx, filepath.Join(dir, "bank.db"))
	defer db.Close()
	marks, err := once.OpenSQLite(ctx, db, once.Config{})
	check(err)
	ledger := &Ledger{db, marks}

	store, err := sqlite.Open(ctx, filepath.Join(dir, "bank.db"), sqlite.Config{})
	check(err)
	defer store.Close()
	for range 2 { // the payment provider tells of it twice
		_, err = Credit.Enqueue(ctx, store, CreditArgs{"pay-7", "ann", 500})
		check(err)
	}
	check(store.SwitchKind(ctx, pawl.KindSwitch{Kind: Credit.Name(), On: true}, pawl.By{Who: "ann", Why: "the ledger is ready"}))

	mux := pawl.NewMux()
	booked := make(chan bool, 2)
	pawl.Handle(mux, Credit, func(ctx context.Context, args CreditArgs) error {
		defer func() { booked <- true }()
		return ledger.Credit(ctx, args)
	})
	h, err := host.New(store, mux, host.Config{Servers: []host.Server{{Name: "one", Queues: []string{"2-default"}, Workers: 1}}})
	check(err)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-booked
	<-booked
	stop()
	check(<-ended)

	var cents int
	check(db.QueryRow(`select cents from account where name = 'ann'`).Scan(&cents))
	fmt.Println("ann has", cents, "cents")
	// Output:
	// payment pay-7 is booked already
	// ann has 500 cents
}

// Mail: it is sent between the peek and the claim. Who dies in between sends it again.
func ExampleMarks_Peek_mail() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer os.RemoveAll(dir)
	db := openBusiness(ctx, filepath.Join(dir, "shop.db"))
	defer db.Close()
	marks, err := once.OpenSQLite(ctx, db, once.Config{})
	check(err)

	// What a handler of a job does:
	sendReceipt := func(ctx context.Context, orderID string) error {
		sent, err := marks.Peek(ctx, "mail.receipt", orderID)
		if err != nil || sent {
			return err
		}
		fmt.Println("a receipt for order", orderID)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := marks.Claim(ctx, tx, "mail.receipt", orderID); err != nil {
			return err
		}
		return tx.Commit()
	}
	for range 3 {
		check(sendReceipt(ctx, "41"))
	}
	// Output:
	// a receipt for order 41
}

func openBusiness(ctx context.Context, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	check(err)
	_, err = db.ExecContext(ctx, `create table account (name text primary key, cents integer not null); insert into account values ('ann', 0)`)
	check(err)
	return db
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
