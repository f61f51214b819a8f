// Package outbox carries jobs from a service's own database to a store that lives elsewhere, without losing or doubling
// one. Where the store's tables lie in the same database there is no need of it: see the stores' Tx.
//
// A message, which is a job on its way, is written in the transaction of the business:
//
//	box, err := outbox.OpenPostgres(ctx, db, outbox.Config{Connection: store.Connection()})
//	…
//	_, err = Welcome.Enqueue(ctx, box.Tx(tx), WelcomeArgs{UserID: 7}) // in your transaction
//	err = tx.Commit()
//
// A Dispatcher, in the same process or another, in one or in many, carries it to the store:
//
//	d, err := outbox.NewDispatcher(box, store, []pawl.Enqueuer{store}, outbox.DispatcherConfig{})
//	err = d.Run(ctx)
//
// It claims messages for a minute, hands them in, and removes what is still its own. Wherever it is killed in between, the
// messages are claimed again, and since a message's id is its job's, the store knows which it has. It remembers that for
// as long as the job lives and 24 hours after its end.
//
// What a store is not there to take waits and counts nothing. A message that cannot be dispatched, because its bytes are
// damaged or the store refuses it, lets those behind it pass, and becomes a dead letter at its tenth claim, four minutes
// later: of class poison, with the message's exact bytes. It alerts and is redriven like any other.
//
// Messages of one connection are handed in by one dispatcher in the order in which they were written, but for those that
// were refused. Several dispatchers, and transactions that commit in another order than they wrote, do not keep it.
package outbox
