package app

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/outbox"
)

// boxed is a business database with an outbox, and a configuration that names it.
type boxed struct {
	*testing.T
	path   string
	db     *sql.DB
	box    *outbox.Box
	config string // file
}

// openBoxed makes the configuration; the outbox is made by write.
func openBoxed(t *testing.T, store, more string) *boxed {
	t.Helper()
	b := &boxed{T: t, path: filepath.Join(t.TempDir(), "shop.db")}
	b.config = filepath.Join(filepath.Dir(b.path), "pawl.yaml")
	text := fmt.Sprintf("connections:\n  default: {url: '%s'}\n  shop: {url: 'sqlite:%s'}\n%s", store, b.path, more)
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// write writes messages, and has a claim of the second failed.
func (b *boxed) write(n int) (ids []string) {
	b.Helper()
	db, err := sql.Open("sqlite", sourceOf(b.path))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	b.db = db
	if b.box, err = outbox.OpenSQLite(b.Context(), db, outbox.Config{}); err != nil {
		b.Fatal(err)
	}
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	kind := pawl.NewKind[map[string]int]("email.welcome.v1", pawl.Policy{})
	for i := range n {
		written, err := kind.Enqueue(b.Context(), b.box.Tx(tx), map[string]int{"user_id": i})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, written.ID.String())
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	b.fail()
	if _, err := db.ExecContext(b.Context(), `update pawl_outbox set created_at = created_at - 7200000`); err != nil { // an age that stays
		b.Fatal(err)
	}
	return ids
}

func (b *boxed) fail() {
	b.Helper()
	if _, err := b.db.ExecContext(b.Context(), `update pawl_outbox set attempts = 2, last_error = 'no room', locked_until = 9999999999999 where seq = 2`); err != nil {
		b.Fatal(err)
	}
}

// What a command says of an outbox from afar is what it says beside it, and acts from afar go by the token's role.
func TestOutboxesFromAfar(t *testing.T) {
	t.Parallel()
	bare := setupFar(t)
	b := openBoxed(t, bare.local, "outboxes:\n  shop: {}\n")
	ids := b.write(3)
	f := setupFar(t, func(c *api.Config) { c.Outboxes = map[string]pawl.Outbox{"shop": b.box} })
	unknown := pawl.NewID().String()
	for _, args := range [][]string{
		{"outbox", "status"},
		{"outbox", "status", "--json"},
		{"outbox", "list"},
		{"outbox", "list", "--json"},
		{"outbox", "list", "--failing"},
		{"outbox", "list", "--to", "other"},
		{"outbox", "list", "--outbox", "shop", "--limit", "1"},
		{"outbox", "list", "--limit", "1", "--after", "1/default"},
		{"outbox", "list", "--after", "x"},
		{"outbox", "show", ids[1]},
		{"outbox", "show", ids[1], "--json"},
		{"outbox", "show", unknown},
		{"outbox", "redrive", unknown},
		{"outbox", "redrive", ids[1], unknown},
		{"outbox", "redrive", "--failing"},
		{"outbox", "purge", "--older", "1h"},
		{"outbox", "pause"},
		{"outbox", "resume"},
		{"status", "--wait", "1ms"},
		{"status", "--wait", "1ms", "--json"},
	} {
		b.fail()
		nearOut, nearTalk, nearCode := f.pawl(api.RoleAdmin, bare.local, append([]string{"--config", b.config}, args...)...)
		b.fail()
		farOut, farTalk, farCode := f.pawl(api.RoleAdmin, f.server.URL, args...)
		alike := func(text string) string {
			return mask(strings.NewReplacer("--store "+f.server.URL, "", "--config "+b.config+" --store "+bare.local, "").Replace(text))
		}
		if alike(farOut) != alike(nearOut) || alike(farTalk) != alike(nearTalk) || farCode != nearCode {
			t.Errorf("pawl %.80s\nfar:  %d\n%.2000s%.2000s\nnear: %d\n%.2000s%.2000s", strings.Join(args, " "), farCode, farOut, farTalk, nearCode, nearOut, nearTalk)
		}
	}
	for _, c := range []struct {
		far  far
		role api.Role
		args []string
		code int
		says string
	}{
		{f, api.RoleViewer, []string{"pause", "--reason", "it moves"}, exitDenied, "to pause an outbox or let it go on it needs the role operator"},
		{f, api.RoleViewer, []string{"redrive", "--failing"}, exitDenied, "it needs the role operator"},
		{f, api.RoleEnqueue, []string{"list"}, exitDenied, "it needs the role viewer"},
		{f, api.RoleOperator, []string{"purge", "--older", "1h"}, exitDenied, "it needs the role admin"},
		{f, api.RoleOperator, []string{"pause", "--reason", "it moves", "--by", "grace"}, exitOK, "Outbox shop is paused"},
		{f, api.RoleViewer, []string{"status"}, exitOK, "paused: it moves (the-operator/grace, "},
		{f, api.RoleOperator, []string{"resume"}, exitOK, "Outbox shop is dispatched"},
		{f, api.RoleOperator, []string{"redrive", "--failing"}, exitOK, "1 message will be tried again"},
		{f, api.RoleViewer, []string{"list", "--outbox", "nowhere"}, exitNotFound, `there is no outbox "nowhere": the server has shop`},
		{bare, api.RoleViewer, []string{"status"}, exitOK, "The server knows no outboxes."},
		{bare, api.RoleViewer, []string{"list"}, exitNotFound, "knows no outboxes"},
		{bare, "", []string{"list"}, exitUsage, "PAWL_TOKEN"},
	} {
		out, talk, code := c.far.pawl(c.role, c.far.server.URL, append([]string{"outbox"}, c.args...)...)
		if code != c.code || !strings.Contains(out+talk, c.says) {
			t.Errorf("pawl outbox %s: status %d\n%s%s", strings.Join(c.args, " "), code, out, talk)
		}
	}
}

// The API of a serve has the outboxes of its configuration: one whose database is not there says so, until it is.
func TestServeKnowsItsOutboxes(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	secret, token, err := api.NewToken("ops", api.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	f.tokens[api.RoleOperator] = secret
	b := openBoxed(t, f.local, "outboxes:\n  shop: {off: true}\napi:\n  tokens:\n    ops: {role: operator, hash: "+hex.EncodeToString(token.Hash[:])+"}\n")
	p := serveBy(t, "", nil, "--config", b.config)
	status := func() (string, int) {
		out, talk, code := f.pawl(api.RoleOperator, p.url, "outbox", "status")
		return out + talk, code
	}
	ask := func(what, has string, code int) {
		t.Helper()
		text, got := status()
		for deadline := time.Now().Add(patience); !strings.Contains(text, has) || got != code; text, got = status() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: status %d\n%s", what, got, text)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	ask("without a database", "outbox shop: there is no database at "+b.path, exitError)
	if _, talk, code := f.pawl(api.RoleOperator, p.url, "outbox", "list"); code != exitError || !strings.Contains(talk, "there is no database at") {
		t.Errorf("list: status %d\n%s", code, talk)
	}
	b.write(2)
	ask("with one", "shop\t2\t1\t", exitOK)
	if _, talk, code := f.pawl(api.RoleOperator, p.url, "outbox", "pause", "--reason", "it moves"); code != exitOK {
		t.Errorf("pause: status %d\n%s", code, talk)
	}
	if stats, err := b.box.Stats(t.Context()); err != nil || !stats.Off || !strings.HasPrefix(stats.Why, "it moves (ops/kim, ") {
		t.Errorf("%+v, %v", stats, err)
	}
	if out, _, _ := f.pawl(api.RoleOperator, p.url, "status"); !strings.Contains(out, "Outbox shop is paused, so its messages wait: it moves (ops/kim, ") {
		t.Errorf("the status says\n%s", out)
	}
}
