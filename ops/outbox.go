package ops

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// OutboxLook is how an outbox was found; Err says that it could not be read.
type OutboxLook struct {
	Name  string
	Stats pawl.OutboxStats
	Err   error
}

// LookAtOutboxes asks all at the same time how they stand, each for so long at most: a database that hangs must not hang the
// answer. They come by name.
func LookAtOutboxes(ctx context.Context, boxes map[string]pawl.Outbox, limit time.Duration) []OutboxLook {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	looks := make([]OutboxLook, len(boxes))
	var all sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(boxes)) {
		all.Go(func() {
			looks[i].Name = name
			looks[i].Stats, looks[i].Err = boxes[name].Stats(ctx)
		})
	}
	all.Wait()
	return looks
}

// JudgeOutboxes adds what is not well with outboxes, and what is good to know: they lie elsewhere, and the store knows nothing
// of them. Wait is as in StatusOptions.
func (s *Status) JudgeOutboxes(looks []OutboxLook, wait time.Duration) {
	if wait == 0 {
		wait = defaultWait
	}
	for _, look := range looks {
		if look.Err != nil {
			s.trouble(OutboxUnread, look.Name, "outbox %s cannot be read: %s", look.Name, strings.ReplaceAll(look.Err.Error(), "\n", "; "))
			continue
		}
		if look.Stats.Off {
			s.note(OutboxPaused, look.Name, "outbox %s is paused, so its messages wait: %s", look.Name, look.Stats.Why)
		}
		for _, lane := range look.Stats.Connections {
			if lane.Oldest > wait {
				are := "are"
				if lane.Pending == 1 {
					are = "is"
				}
				s.trouble(OutboxLate, look.Name, "%s of outbox %s to connection %s %s not dispatched, the oldest for %s",
					some(lane.Pending, "message"), look.Name, lane.Connection, are, span(lane.Oldest))
			}
		}
	}
}
