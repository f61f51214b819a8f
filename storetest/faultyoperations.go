package storetest

import (
	"context"

	"github.com/pawljobs/pawl"
)

var _ Store = (*Faulty)(nil)

func (f *Faulty) CreateOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error) {
	return ask(ctx, f, "CreateOperation", func() (pawl.Operation, error) { return f.operator.CreateOperation(ctx, o) })
}

func (f *Faulty) Operations(ctx context.Context, filter pawl.OperationFilter, page pawl.Page) (pawl.OperationPage, error) {
	return ask(ctx, f, "Operations", func() (pawl.OperationPage, error) { return f.operator.Operations(ctx, filter, page) })
}

func (f *Faulty) Operation(ctx context.Context, id pawl.ID) (pawl.Operation, error) {
	return ask(ctx, f, "Operation", func() (pawl.Operation, error) { return f.operator.Operation(ctx, id) })
}

func (f *Faulty) OperationItems(ctx context.Context, id pawl.ID, filter pawl.ItemFilter, page pawl.Page) (pawl.ItemPage, error) {
	return ask(ctx, f, "OperationItems", func() (pawl.ItemPage, error) { return f.operator.OperationItems(ctx, id, filter, page) })
}

func (f *Faulty) ControlOperations(ctx context.Context, ids []pawl.ID, action pawl.Action, by pawl.By) ([]error, error) {
	return ask(ctx, f, "ControlOperations", func() ([]error, error) { return f.operator.ControlOperations(ctx, ids, action, by) })
}

func (f *Faulty) LeaseOperations(ctx context.Context, request pawl.OperationLease) ([]pawl.LeasedOperation, error) {
	return carry(ctx, f, "LeaseOperations", func() ([]pawl.LeasedOperation, error) { return f.work.LeaseOperations(ctx, request) })
}

func (f *Faulty) OperationLetters(ctx context.Context, id pawl.ID, most int) ([]pawl.OperationLetter, error) {
	return carry(ctx, f, "OperationLetters", func() ([]pawl.OperationLetter, error) { return f.work.OperationLetters(ctx, id, most) })
}

func (f *Faulty) AdvanceOperation(ctx context.Context, step pawl.OperationStep) ([]error, error) {
	return carry(ctx, f, "AdvanceOperation", func() ([]error, error) { return f.work.AdvanceOperation(ctx, step) })
}

// carry is answer for a method of those who carry out operations.
func carry[T any](ctx context.Context, f *Faulty, method string, call func() (T, error)) (T, error) {
	return answer(ctx, f, method, func() (T, error) {
		if f.work == nil {
			var none T
			return none, pawl.ErrUnsupported
		}
		return call()
	})
}
