package api

import (
	"context"
	"time"

	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// Troubles is what the server finds not well, and what is good to know, each in the order in which to deal with it; wait as in
// ops.StatusOptions. The server's clock is that of the store, or close to it.
func (c *Client) Troubles(ctx context.Context, wait time.Duration) (troubles, notes []ops.Trouble, err error) {
	answer, err := send(ctx, c, statusRoute, statusQuery{WaitMS: wait.Milliseconds()})
	read := func(t wire.Trouble) ops.Trouble {
		return ops.Trouble{What: t.What, Subject: string(t.Subject), Text: t.Text}
	}
	return wire.Each(answer.Troubles, read), wire.Each(answer.Notes, read), err
}
