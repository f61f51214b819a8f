package api_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/outbox"
)

// shop is a business database with an outbox.
type shop struct {
	*outbox.Box
	db  *sql.DB
	ids []pawl.ID // of its messages, in order
}

// openShop writes three messages: one waits, of one a claim has failed, and one was dispatched an hour ago.
func openShop(t *testing.T) shop {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	box, err := outbox.OpenSQLite(t.Context(), db, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := shop{Box: box, db: db}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	kind := pawl.NewKind[map[string]string]("mail.v1", pawl.Policy{})
	for range 3 {
		written, err := kind.Enqueue(t.Context(), box.Tx(tx), map[string]string{"to": "ada@example.org"})
		if err != nil {
			t.Fatal(err)
		}
		s.ids = append(s.ids, written.ID)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.fail(t)
	s.exec(t, `update pawl_outbox set status = 2, ended_at = 1, envelope = x'' where seq = 3`)
	return s
}

func (s shop) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// fail has claims of the second message failed.
func (s shop) fail(t *testing.T) {
	t.Helper()
	s.exec(t, `update pawl_outbox set attempts = 2, last_error = 'no room for ada@example.org', locked_until = 9999999999999 where seq = 2`)
}

// withOutbox serves one as "shop".
func withOutbox(box pawl.Outbox) func(*api.Config) {
	return func(c *api.Config) { c.Outboxes = map[string]pawl.Outbox{"shop": box} }
}

// What a client sees of an outbox, and does to it, is what its own program would.
func TestOutboxOverTheNetwork(t *testing.T) {
	t.Parallel()
	near := openShop(t)
	w := setup(t, withOutbox(near))
	far := w.dial(api.RoleAdmin).Outbox("shop")
	for _, c := range []struct {
		name string
		look func(pawl.Outbox) (any, error)
	}{
		{"stats", func(b pawl.Outbox) (any, error) {
			s, err := b.Stats(t.Context())
			s.Oldest, s.Connections[0].Oldest = 0, 0
			return s, err
		}},
		{"first page", func(b pawl.Outbox) (any, error) {
			found, next, err := b.Messages(t.Context(), pawl.OutboxFilter{}, pawl.Page{Limit: 1})
			return fmt.Sprint(len(found), found[0].ID, found[0].State, found[0].Kind, found[0].Queue, next), err
		}},
		{"second page", func(b pawl.Outbox) (any, error) {
			_, next, err := b.Messages(t.Context(), pawl.OutboxFilter{}, pawl.Page{Limit: 1})
			if err != nil {
				return nil, err
			}
			found, next, err := b.Messages(t.Context(), pawl.OutboxFilter{}, pawl.Page{After: next})
			return fmt.Sprint(len(found), found[0].ID, found[0].State, found[0].Attempts, found[0].LastError, next), err
		}},
		{"failing", func(b pawl.Outbox) (any, error) {
			found, _, err := b.Messages(t.Context(), pawl.OutboxFilter{Connection: "default", Failing: true}, pawl.Page{})
			return fmt.Sprint(len(found), found[0].ID), err
		}},
		{"elsewhere", func(b pawl.Outbox) (any, error) {
			found, next, err := b.Messages(t.Context(), pawl.OutboxFilter{Connection: "other"}, pawl.Page{})
			return fmt.Sprint(len(found), next), err
		}},
		{"a waiting message", func(b pawl.Outbox) (any, error) {
			m, err := b.Message(t.Context(), near.ids[0])
			return fmt.Sprint(m), err
		}},
		{"a dispatched message", func(b pawl.Outbox) (any, error) {
			m, err := b.Message(t.Context(), near.ids[2])
			return fmt.Sprint(m), err
		}},
		{"no message", func(b pawl.Outbox) (any, error) { return b.Message(t.Context(), pawl.ID{15: 1}) }},
		{"bad page", func(b pawl.Outbox) (any, error) {
			_, _, err := b.Messages(t.Context(), pawl.OutboxFilter{}, pawl.Page{After: "x"})
			return nil, err
		}},
		{"too many", func(b pawl.Outbox) (any, error) {
			_, _, err := b.Messages(t.Context(), pawl.OutboxFilter{}, pawl.Page{Limit: 1001})
			return nil, err
		}},
		{"retry", func(b pawl.Outbox) (any, error) {
			near.fail(t)
			results, err := b.Retry(t.Context(), []pawl.ID{near.ids[1], near.ids[2], {15: 1}})
			s, _ := near.Stats(t.Context())
			return fmt.Sprint(results, errors.Is(results[1], pawl.ErrNotFound), s.Failing), err
		}},
		{"retry of nothing", func(b pawl.Outbox) (any, error) {
			results, err := b.Retry(t.Context(), nil)
			return len(results), err
		}},
		{"off", func(b pawl.Outbox) (any, error) {
			err := errors.Join(near.SwitchOn(t.Context()), b.SwitchOff(t.Context(), pawl.By{Who: "ada", Why: "it moves"}))
			s, _ := near.Stats(t.Context())
			return fmt.Sprint(s.Off, strings.HasPrefix(strings.Replace(s.Why, "the-admin/", "", 1), "it moves (ada, 2")), err
		}},
		{"off without a reason", func(b pawl.Outbox) (any, error) {
			return nil, errors.Join(b.SwitchOff(t.Context(), pawl.By{Who: "ada"}), b.SwitchOff(t.Context(), pawl.By{Why: "it moves"}))
		}},
		{"on", func(b pawl.Outbox) (any, error) {
			before := near.SwitchOff(t.Context(), pawl.By{Who: "ada", Why: "it moves"})
			err := errors.Join(before, b.SwitchOn(t.Context()))
			s, _ := near.Stats(t.Context())
			return s.Off, err
		}},
		{"purge", func(b pawl.Outbox) (any, error) {
			near.exec(t, `insert into pawl_outbox (id, connection, status, ended_at, created_at, envelope) values (randomblob(16), 'default', 2, 1, 1, x'')`)
			_, _ = near.Purge(t.Context(), 100*365*24*time.Hour)
			n, err := b.Purge(t.Context(), time.Hour)
			return n > 0, err
		}},
		{"purge of the future", func(b pawl.Outbox) (any, error) { return b.Purge(t.Context(), -time.Hour) }},
	} {
		ours, nearErr := c.look(near)
		theirs, farErr := c.look(far)
		if fmt.Sprint(ours) != fmt.Sprint(theirs) || (nearErr == nil) != (farErr == nil) ||
			errors.Is(nearErr, pawl.ErrInvalid) != errors.Is(farErr, pawl.ErrInvalid) || errors.Is(nearErr, pawl.ErrNotFound) != errors.Is(farErr, pawl.ErrNotFound) {
			t.Errorf("%s:\nnear %v, %v\nfar  %v, %v", c.name, ours, nearErr, theirs, farErr)
		}
	}
	for _, want := range []string{"outbox paused or resumed", "paused=true by=the-admin/ada reason=\"it moves\"", "are tried again", "rows=1"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.log)
		}
	}
}

// stuck is an outbox whose database does not answer, or says why it cannot.
type stuck struct {
	pawl.Outbox
	err error
}

func (s stuck) Stats(ctx context.Context) (pawl.OutboxStats, error) {
	if s.err == nil {
		<-ctx.Done()
		return pawl.OutboxStats{}, context.Cause(ctx)
	}
	return pawl.OutboxStats{}, s.err
}

// An outbox that cannot be read says why, and hides nothing of the others; a status says so, too.
func TestOutboxesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	near := openShop(t)
	w := setup(t, func(c *api.Config) {
		c.Timeout = 3 * time.Second
		c.Outboxes = map[string]pawl.Outbox{"shop": near, "down": stuck{err: errors.New("no answer\nfrom db-2")}, "hangs": stuck{}}
	})
	client := w.dial(api.RoleViewer)
	looks, err := client.Outboxes(t.Context())
	if err != nil || len(looks) != 3 {
		t.Fatalf("%d outboxes, %v", len(looks), err)
	}
	down, hangs, shop := looks[0], looks[1], looks[2]
	if down.Name != "down" || down.Err == nil || down.Err.Error() != "no answer; from db-2" || hangs.Name != "hangs" || hangs.Err == nil ||
		shop.Name != "shop" || shop.Err != nil || shop.Stats.Pending != 2 || shop.Stats.Failing != 1 {
		t.Errorf("%+v", looks)
	}
	troubles, _, err := client.Troubles(t.Context(), time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, trouble := range troubles {
		texts = append(texts, trouble.Text)
	}
	if text := strings.Join(texts, "\n"); !strings.Contains(text, "outbox down cannot be read: no answer; from db-2") || !strings.Contains(text, "outbox hangs cannot be read") {
		t.Errorf("the status says\n%s", text)
	}
}

// A server without outboxes says so, and one that knows none of a name says which it does know.
func TestUnknownOutboxes(t *testing.T) {
	t.Parallel()
	bare, w := setup(t), setup(t, withOutbox(openShop(t)))
	if looks, err := bare.dial(api.RoleViewer).Outboxes(t.Context()); err != nil || len(looks) != 0 {
		t.Errorf("%v, %v", looks, err)
	}
	for server, says := range map[*world]string{&bare: "the server knows no outboxes", &w: "the server knows shop"} {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "", ""},
			{"GET", "/messages", ""},
			{"GET", "/messages/" + pawl.NewID().String(), ""},
			{"PUT", "/pause", `{"paused":true,"reason":"x"}`},
			{"POST", "/retry", `{"ids":["` + pawl.NewID().String() + `"]}`},
			{"POST", "/purge", `{"older_ms":1}`},
		} {
			p := server.refused(server.ask(api.RoleAdmin, c.method, "/api/v1/outboxes/nowhere"+c.path, c.body), http.StatusNotFound, "not_found")
			if !strings.Contains(fmt.Sprint(p["detail"]), says) {
				t.Errorf("%s %s: %v", c.method, c.path, p["detail"])
			}
		}
	}
	for _, name := range []string{"", "a\n", "nowhere"} {
		if _, err := w.dial(api.RoleViewer).Outbox(name).Stats(t.Context()); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("outbox %q: %v", name, err)
		}
	}
	for name, box := range map[string]pawl.Outbox{"shop": nil, "": stuck{}, "a\n": stuck{}} {
		_, token, err := api.NewToken("a", api.RoleViewer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.New(bare.store, api.Config{Tokens: []api.Token{token}, Outboxes: map[string]pawl.Outbox{name: box}}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("outbox %q: %v", name, err)
		}
	}
}
