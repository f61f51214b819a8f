package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

func TestLookingAtMessages(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		box, jobs := b.box.(pawl.Outbox), newJobs(t, 5)
		b.write(t, jobs...)
		b.exec(t, `update {t} set attempts = 2, lost = 1, last_error = 'no room', locked_until = {now} + {hour} where seq = (select min(seq) from {t}) + 1`)
		b.exec(t, `insert into {l} (connection, first, last, claimed_by, locked_until) select 'default', max(seq), max(seq), 'me', {now} + {hour} from {t}`)
		var seen []pawl.ID
		var states []outbox.MessageState
		for page := (pawl.Page{Limit: 2}); ; {
			found, next, err := box.Messages(t.Context(), outbox.MessageFilter{}, page)
			if err != nil || len(found) > 2 {
				t.Fatalf("%d messages, error %v", len(found), err)
			}
			for _, m := range found {
				seen, states = append(seen, m.ID), append(states, m.State)
			}
			if page.After = next; next == "" {
				break
			}
		}
		same(t, "listed", seen, jobs)
		if states[0] != outbox.Waiting || states[1] != outbox.Failing || states[4] != outbox.Claimed {
			t.Errorf("states %v", states)
		}
		failing, _, err := box.Messages(t.Context(), outbox.MessageFilter{Connection: "default", Failing: true}, pawl.Page{Limit: 10})
		if err != nil || len(failing) != 1 || failing[0].Kind != work.Name() || failing[0].Queue != "2-default" || failing[0].LastError != "no room" || failing[0].Attempts != 2 || time.Until(failing[0].NextTry) < 50*time.Minute {
			t.Errorf("failing %+v, error %v", failing, err)
		}
		if others, _, err := box.Messages(t.Context(), outbox.MessageFilter{Connection: "other"}, pawl.Page{Limit: 10}); err != nil || len(others) != 0 {
			t.Errorf("%d messages to another connection, error %v", len(others), err)
		}
		if stats, err := box.Stats(t.Context()); err != nil || stats.Failing != 1 || stats.Connections[0].Failing != 1 {
			t.Errorf("stats %+v, error %v", stats, err)
		}
		results, err := box.Retry(t.Context(), []pawl.ID{jobs[1].ID, pawl.NewID()})
		if err != nil || results[0] != nil || !errors.Is(results[1], pawl.ErrNotFound) {
			t.Errorf("retry: %v, error %v", results, err)
		}
		m, err := box.Message(t.Context(), jobs[1].ID)
		if err != nil || m.State != outbox.Waiting || m.Attempts != 0 || !m.NextTry.IsZero() || len(m.Envelope) == 0 {
			t.Errorf("after the retry %+v, error %v", m, err)
		}
		b.exec(t, `delete from {l}`)
		target := fileStore(t)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		if m, err := box.Message(t.Context(), jobs[1].ID); err != nil || m.State != outbox.Dispatched || m.EndedAt.IsZero() || m.Envelope != nil {
			t.Errorf("dispatched %+v, error %v", m, err)
		}
		if n, err := box.Purge(t.Context(), time.Hour); n != 0 || err != nil {
			t.Errorf("purged %d, error %v", n, err)
		}
		b.exec(t, `update {t} set ended_at = ended_at - {hour}`)
		if n, err := box.Purge(t.Context(), time.Minute); n != 5 || err != nil {
			t.Errorf("purged %d, error %v", n, err)
		}
		if _, err := box.Message(t.Context(), jobs[1].ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a message that is gone: %v", err)
		}
		for _, page := range []pawl.Page{{Limit: -1}, {Limit: 1001}, {Limit: 1, After: "x/y"}, {Limit: 1, After: "1"}} {
			if _, _, err := box.Messages(t.Context(), outbox.MessageFilter{}, page); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("page %+v: %v", page, err)
			}
		}
		if _, err := box.Purge(t.Context(), -1); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a negative age: %v", err)
		}
	})
}

// A dispatcher may hold messages in another order than an operator names them: the server breaks one of the two off, and the
// operator's act is done all the same.
func TestRetryBesideDispatchers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx", "database/sql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := databases[name](t)
			jobs := newJobs(t, 2)
			b.write(t, jobs...)
			b.exec(t, `update {t} set attempts = 3`)
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			hold := func(job pawl.NewJob) {
				t.Helper()
				if _, err := tx.ExecContext(t.Context(), b.text(`update {t} set lost = 1 where id = $1`), job.ID.String()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.ExecContext(t.Context(), `set local deadlock_timeout = '1h'`); err != nil { // it is not the one to be broken off
				t.Fatal(err)
			}
			hold(jobs[1])
			retried := make(chan error, 1)
			go func() {
				_, err := b.box.(pawl.Outbox).Retry(t.Context(), []pawl.ID{jobs[0].ID, jobs[1].ID})
				retried <- err
			}()
			until(t, "the first is held by the operator", func() bool {
				return b.number(t, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and position($1 in query) > 0`, b.table) > 0
			})
			hold(jobs[0])
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-retried; err != nil {
				t.Error(err)
			}
			if n := b.number(t, `select count(*) from {t} where attempts = 0 and lost = 0`); n != 2 {
				t.Errorf("%d messages are retried, want 2", n)
			}
		})
	}
}
