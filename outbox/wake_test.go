package outbox

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// nowhere is a store that nothing gets to.
type nowhere struct {
	pawl.Enqueuer
	pawl.DeadLetters
}

func (nowhere) Connection() pawl.Connection { return pawl.Connection{Name: "default"} }

// A commit that has let itself be waited for is heard of at once, too: a lane that was told of the write, and has come to look
// for its commit once in an hour, is woken from that.
func TestLateCommitWakes(t *testing.T) {
	t.Parallel()
	db, box := boxOnServer(t)
	d, err := NewDispatcher(box, nowhere{}, []pawl.Enqueuer{nowhere{}}, DispatcherConfig{Poll: 100 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d.soon = time.Hour
	lane := d.lanes[0]
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	workers.Go(func() { d.listen(ctx) })
	hears := func(what string, it <-chan struct{}) {
		t.Helper()
		select {
		case <-it:
		case <-time.After(30 * time.Second):
			t.Fatalf("it never came to this: %s", what)
		}
	}
	hears("it listens, and looks for what it has missed", lane.woken)
	looked := make(chan struct{})
	workers.Go(func() {
		lane.lookout(ctx)
		close(looked)
	})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := pawl.NewKind[int]("outbox.late.v1", pawl.Policy{}).Enqueue(t.Context(), box.Tx(tx), 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	hears("the commit ends the lookout", looked)
}
