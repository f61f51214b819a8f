package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/ops"
)

// boxTime bounds a look at one outbox of a status: a database that hangs must not hang the answer.
const boxTime = 10 * time.Second

// lookAtOutboxes asks all of the configuration how they stand, or has the server do so with its own.
func (p *program) lookAtOutboxes(ctx context.Context) ([]ops.OutboxLook, error) {
	if client, err := p.server(ctx); client != nil || err != nil {
		return farLooks(ctx, client, err)
	}
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	boxes := map[string]pawl.Outbox{}
	for _, name := range settings.OutboxNames() {
		boxes[name] = unopened{settings: settings, name: name}
	}
	return ops.LookAtOutboxes(ctx, boxes, boxTime), nil
}

func farLooks(ctx context.Context, client *api.Client, err error) ([]ops.OutboxLook, error) {
	if err != nil {
		return nil, err
	}
	looks, err := client.Outboxes(ctx)
	return looks, errors.Join(err, client.Close())
}

// unopened is an outbox that is opened for one look.
type unopened struct {
	pawl.Outbox
	settings *config.Settings
	name     string
}

func (u unopened) Stats(ctx context.Context) (stats pawl.OutboxStats, err error) {
	box, err := openOutbox(ctx, u.settings, u.name, false)
	if err == nil {
		stats, err = box.Stats(ctx)
		err = errors.Join(err, box.Close())
	}
	return stats, err
}

// outboxes is whether those of the configuration can be dispatched, and are.
func (d *doctor) outboxes(ctx context.Context, connection string) error {
	looks, err := d.program.lookAtOutboxes(ctx)
	if err != nil {
		return err
	}
	for _, look := range looks {
		check, show := "outbox "+look.Name, "see `"+d.program.invocation()+" outbox list --outbox "+look.Name+"`"
		switch s := look.Stats; {
		case errors.Is(look.Err, pawl.ErrSchema):
			d.add(check, pawl.GradeFault, oneLine(look.Err), "start `pawl serve` where outboxes."+look.Name+".migrate is true, or have the service make its tables")
			continue
		case look.Err != nil:
			d.add(check, pawl.GradeFault, "it cannot be read: "+oneLine(look.Err), "see that its database is up, and that this program may use it")
			continue
		case s.Off:
			d.add(check, pawl.GradeRisk, "it is paused, and messages gather: "+s.Why, "go on with `"+d.program.invocation()+" outbox resume --outbox "+look.Name+"`")
		case s.Failing > 0:
			d.add(check, pawl.GradeRisk, count(s.Failing, "message")+" could not be dispatched and will be dead letters", show+" --failing")
		case s.Oldest > 10*time.Minute:
			d.add(check, pawl.GradeRisk, fmt.Sprintf("%s wait, the oldest for %s", count(s.Pending, "message"), age(s.Oldest)), "see that a `pawl serve` with this configuration runs")
		default:
			d.add(check, pawl.GradeFine, count(s.Pending, "message")+" in it", "")
		}
		for _, lane := range look.Stats.Connections {
			if lane.Connection != connection {
				d.add(check, pawl.GradeRisk, fmt.Sprintf("%s in it for connection %s, to which a host of connection %s carries none",
					count(lane.Pending, "message"), lane.Connection, connection), "run a `pawl serve --connection "+lane.Connection+"` as well")
			}
		}
	}
	return nil
}
