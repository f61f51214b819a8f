// Package once remembers what a handler has done, in the service's own database, so that a job that runs again has its
// effect once. A mark is a row, named by the handler and a key of the message: an order's number, a payment's id. Take the
// key from the args and not from the job, whose id changes when it is redriven.
//
// Where the effect is in the same database there is one order, and it is exact: claim, act, commit.
//
//	first, err := marks.Claim(ctx, tx, "ledger.credit", args.PaymentID)
//	if err != nil || !first {
//		return err // a repeat: the booking is there already
//	}
//	… the booking, in the same transaction
//	return tx.Commit()
//
// Where it is outside (a mail, a call of somebody's API) no order is exact, and the choice is yours:
//
//   - Peek, act, then claim: a crash between the last two does it again. A duplicate rather than a loss: mail.
//   - Claim and commit, then act: a crash in between loses it. A loss rather than a duplicate.
//
// Either is best when the receiver knows an idempotency key of its own, and gets this one.
//
// Marks stay until they are pruned: Prune those older than any message can come again. A dead letter can be redriven weeks
// later.
package once
