package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/outbox"
)

// boxTime bounds a look at one outbox of a status: a database that hangs must not hang the answer.
const boxTime = 10 * time.Second

// boxLook is one outbox as it was found.
type boxLook struct {
	name  string
	stats outbox.Stats
	err   error
}

func lookAtOutboxes(ctx context.Context, settings *config.Settings) (looks []boxLook) {
	for _, name := range settings.OutboxNames() {
		looks = append(looks, lookAtOutbox(ctx, settings, name))
	}
	return looks
}

func lookAtOutbox(ctx context.Context, settings *config.Settings, name string) (look boxLook) {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	look.name = name
	box, err := openOutbox(ctx, settings, name, false)
	if err == nil {
		look.stats, err = box.Stats(ctx)
		err = errors.Join(err, box.Close())
	}
	look.err = err
	return look
}

// judgeOutboxes adds what is not well with the configured outboxes to a status, and what is good to know.
func (p *program) judgeOutboxes(ctx context.Context, status *ops.Status, wait time.Duration) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	if wait == 0 {
		wait = 10 * time.Minute
	}
	for _, look := range lookAtOutboxes(ctx, settings) {
		switch {
		case look.err != nil:
			status.Troubles = append(status.Troubles, ops.Trouble{What: ops.OutboxUnread, Subject: look.name, Text: "outbox " + look.name + " cannot be read: " + oneLine(look.err)})
			continue
		case look.stats.Off:
			status.Notes = append(status.Notes, ops.Trouble{What: ops.OutboxPaused, Subject: look.name, Text: "outbox " + look.name + " is paused, so its messages wait: " + look.stats.Why})
		}
		for _, lane := range look.stats.Connections {
			if lane.Oldest > wait {
				status.Troubles = append(status.Troubles, ops.Trouble{What: ops.OutboxLate, Subject: look.name, Text: fmt.Sprintf(
					"%s of outbox %s to connection %s %s not dispatched, the oldest for %s", count(lane.Pending, "message"), look.name, lane.Connection,
					map[bool]string{true: "is", false: "are"}[lane.Pending == 1], age(lane.Oldest))})
			}
		}
	}
	return nil
}

// outboxes is whether those of the configuration can be dispatched, and are.
func (d *doctor) outboxes(ctx context.Context) {
	for _, look := range lookAtOutboxes(ctx, d.settings) {
		check, show := "outbox "+look.name, "see `"+d.program.invocation()+" outbox list --outbox "+look.name+"`"
		switch s := look.stats; {
		case errors.Is(look.err, pawl.ErrSchema):
			d.add(check, pawl.GradeFault, oneLine(look.err), "start `pawl serve` where outboxes."+look.name+".migrate is true, or have the service make its tables")
			continue
		case look.err != nil:
			d.add(check, pawl.GradeFault, "it cannot be read: "+oneLine(look.err), "see that its database is up, and that this program may use it")
			continue
		case s.Off:
			d.add(check, pawl.GradeRisk, "it is paused, and messages gather: "+s.Why, "go on with `"+d.program.invocation()+" outbox resume --outbox "+look.name+"`")
		case s.Failing > 0:
			d.add(check, pawl.GradeRisk, count(s.Failing, "message")+" could not be dispatched and will be dead letters", show+" --failing")
		case s.Oldest > 10*time.Minute:
			d.add(check, pawl.GradeRisk, fmt.Sprintf("%s wait, the oldest for %s", count(s.Pending, "message"), age(s.Oldest)), "see that a `pawl serve` with this configuration runs")
		default:
			d.add(check, pawl.GradeFine, count(s.Pending, "message")+" in it", "")
		}
		for _, lane := range look.stats.Connections {
			if lane.Connection != d.settings.Connection {
				d.add(check, pawl.GradeRisk, fmt.Sprintf("%s in it for connection %s, to which a host of connection %s carries none",
					count(lane.Pending, "message"), lane.Connection, d.settings.Connection), "run a `pawl serve --connection "+lane.Connection+"` as well")
			}
		}
	}
}
