package storetest

import (
	"context"

	"github.com/pawljobs/pawl"
)

func (f *Faulty) Batch(ctx context.Context, id pawl.ID) (pawl.Batch, error) {
	return answer(ctx, f, "Batch", func() (pawl.Batch, error) {
		batches, ok := f.store.(pawl.Batches)
		if !ok {
			return pawl.Batch{}, pawl.ErrUnsupported
		}
		return batches.Batch(ctx, id)
	})
}
