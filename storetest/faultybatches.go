package storetest

import (
	"context"

	"github.com/pawljobs/pawl"
)

func (f *Faulty) Batch(ctx context.Context, id pawl.ID) (pawl.Batch, error) {
	return ask(ctx, f, "Batch", func() (pawl.Batch, error) { return f.operator.Batch(ctx, id) })
}

func (f *Faulty) Batches(ctx context.Context, filter pawl.BatchFilter, page pawl.Page) (pawl.BatchPage, error) {
	return ask(ctx, f, "Batches", func() (pawl.BatchPage, error) { return f.operator.Batches(ctx, filter, page) })
}

func (f *Faulty) BatchMembers(ctx context.Context, id pawl.ID, page pawl.Page) (pawl.JobPage, error) {
	return ask(ctx, f, "BatchMembers", func() (pawl.JobPage, error) { return f.operator.BatchMembers(ctx, id, page) })
}
