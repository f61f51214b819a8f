// Package ops is what a person, or a program, does about dead letters: run them again, close them, open them again,
// remove them. It works over the interfaces of package pawl alone, so every door to it (library, command line, API,
// dashboard) obeys the same rules.
//
//	desk, err := ops.New(store, nil)
//	by := pawl.By{Who: "ann", Door: "cli", Why: "the mail server is back"}
//	job, err := desk.Redrive(ctx, letterID, ops.RedriveOptions{By: by})
//
// Redrive makes a new job from the letter's snapshot, with a fresh budget of tries. Retry puts the old job back under its
// own id. Either way the letter stays where it is, says who ran it again and as what, and later how that ended; and two
// who do it at the same time do not run it twice: the second is told pawl.ErrAlreadyRedriven.
//
// A job's own policy is in its envelope and binds everybody here: pawl.RedriveNever, pawl.RedriveOneByOne. A job whose
// outcome is unknown is run again only when somebody confirms that its effect was checked.
//
// # Many letters
//
// An act on many letters is an operation, which the store keeps: StartOperation freezes the set, RunOperation runs it,
// ControlOperation pauses, resumes and stops it from anywhere, and a Runner takes up what nobody runs.
//
//	operation, err := desk.StartOperation(ctx, pawl.NewOperation{
//		Action: pawl.ActionRedrive, By: by, Filter: pawl.LetterFilter{Kind: "email.welcome.v1"},
//	})
//	operation, err = desk.RunOperation(ctx, operation.ID, ops.RunOptions{})
//
// # Where the job goes
//
// A job goes back to the connection on which it died. Where that is the store of the letters, the letter's change, its
// line in the audit trail and the new job are one transaction. Where it is another, the letter is moved first, with the
// new job's id, and the job is stored after that. A process that dies in between leaves a letter that is redriven, with
// the outcome pending, and a job that is not there. Within an operation that is completed by whoever goes on with it; else
// nothing does so by itself yet, and pawl.Jobs tells whether the job named in the letter exists. What the other connection
// refuses for good is undone: the letter is open again.
package ops
