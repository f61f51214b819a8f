package app

import (
	"context"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/ops"
)

// desk is what acts on dead letters: an ops.Desk over a store, or a client of the API, where each act is one call on the
// server.
type desk interface {
	letterDesk
	operationDesk
}

type letterDesk interface {
	Redrive(ctx context.Context, letter pawl.ID, o ops.RedriveOptions) (pawl.ID, error)
	RedriveMany(ctx context.Context, letters []pawl.ID, o ops.RedriveOptions) ops.Results
	CheckRedrive(ctx context.Context, letter pawl.ID, o ops.RedriveOptions) error
	Retry(ctx context.Context, letter pawl.ID, o ops.RetryOptions) (pawl.ID, error)
	RetryMany(ctx context.Context, letters []pawl.ID, o ops.RetryOptions) ops.Results
	CheckRetry(ctx context.Context, letter pawl.ID, o ops.RetryOptions) error
	ResolveMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results
	DiscardMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results
	ReopenMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results
	NoteMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results
	Forget(ctx context.Context, letter pawl.ID, by pawl.By) (bool, error)
	ForgetMany(ctx context.Context, letters []pawl.ID, by pawl.By) ops.Results
}

type operationDesk interface {
	StartOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error)
	ControlOperation(ctx context.Context, id pawl.ID, action pawl.Action, by pawl.By) error
	RehearseOperation(ctx context.Context, o pawl.NewOperation, each func(ops.Result)) (int, error)
	RunOperation(ctx context.Context, id pawl.ID, o ops.RunOptions) (pawl.Operation, error)
	Prune(ctx context.Context, filter pawl.LetterFilter, o ops.PruneOptions) (ops.PruneReport, error)
}

// deskOf is the desk of a store.
func deskOf(s store) (desk, error) {
	if client, remote := s.(*api.Client); remote {
		return client, nil
	}
	return ops.New(s, nil)
}
