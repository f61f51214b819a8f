package app

import (
	"context"
	"errors"
	"time"

	"github.com/pawljobs/pawl"
)

// The API serves the outboxes that serve carries messages from, whether they are open yet or not.

var (
	errNotOpen = errors.New("the outbox is not open yet")
	errLetGo   = errors.New("the outbox was let go: this server stops")
)

// outboxes are those that clients of the API may look at and act on.
func (g *relays) outboxes() map[string]pawl.Outbox {
	boxes := map[string]pawl.Outbox{}
	for _, r := range g.all {
		boxes[r.name] = r
	}
	return boxes
}

// hold notes what calls go to from now on, or why there is nothing that they could.
func (r *carrier) hold(box *openedBox, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.box, r.why = box, why
}

func (r *carrier) held() (*openedBox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.box, r.why
}

// Stats is pawl.Outbox.Stats, and the others are likewise.
func (r *carrier) Stats(ctx context.Context) (pawl.OutboxStats, error) {
	box, err := r.held()
	if err != nil {
		return pawl.OutboxStats{}, err
	}
	return box.Stats(ctx)
}

func (r *carrier) Messages(ctx context.Context, filter pawl.OutboxFilter, page pawl.Page) ([]pawl.OutboxMessage, string, error) {
	box, err := r.held()
	if err != nil {
		return nil, "", err
	}
	return box.Messages(ctx, filter, page)
}

func (r *carrier) Message(ctx context.Context, id pawl.ID) (pawl.OutboxMessage, error) {
	box, err := r.held()
	if err != nil {
		return pawl.OutboxMessage{}, err
	}
	return box.Message(ctx, id)
}

func (r *carrier) Retry(ctx context.Context, ids []pawl.ID) ([]error, error) {
	box, err := r.held()
	if err != nil {
		return nil, err
	}
	return box.Retry(ctx, ids)
}

func (r *carrier) SwitchOff(ctx context.Context, by pawl.By) error {
	box, err := r.held()
	if err != nil {
		return err
	}
	return box.SwitchOff(ctx, by)
}

func (r *carrier) SwitchOn(ctx context.Context) error {
	box, err := r.held()
	if err != nil {
		return err
	}
	return box.SwitchOn(ctx)
}

func (r *carrier) Purge(ctx context.Context, age time.Duration) (int, error) {
	box, err := r.held()
	if err != nil {
		return 0, err
	}
	return box.Purge(ctx, age)
}
