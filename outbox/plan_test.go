package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/guest"
)

// boxOnServer makes one in a schema of its own.
func boxOnServer(t *testing.T) (*sql.DB, *Box) {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	schema := "outbox_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.Background(), "drop schema if exists "+pgx.Identifier{schema}.Sanitize()+" cascade"); err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	box, err := OpenPostgres(t.Context(), db, Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	return db, box
}

// Tables with many rows that were dispatched, and many that wait. Those of PostgreSQL are never analyzed: so they are in the
// minute after a rush.
func TestPlansOnServer(t *testing.T) {
	t.Parallel()
	db, box := boxOnServer(t)
	c := box.core
	for _, statement := range []string{
		`alter table {t} set (autovacuum_enabled = off)`,
		`insert into {t} (id, connection, status, ended_at, envelope) select gen_random_uuid(), 'default', 2, now() - g * interval '1 second', '' from generate_series(1, 50000) g`,
		`insert into {t} (id, connection, envelope) select gen_random_uuid(), 'c' || g % 3, '\x00' from generate_series(1, 50000) g`,
	} {
		if _, err := db.ExecContext(t.Context(), c.home.Text(statement)); err != nil {
			t.Fatal(err)
		}
	}
	pending, ended, id := `using pawl_outbox_pending`, `using pawl_outbox_ended`, `using pawl_outbox_pkey`
	for name, look := range map[string]struct {
		query string
		args  []any
		has   string
	}{
		"claim":    {c.texts.claim, []any{"c1", 0, 500, "me", 60000, 3, 1 << 24}, pending},
		"ready":    {c.texts.ready, []any{"c1", 0}, pending},
		"charge":   {c.texts.charge, []any{"c1", 3}, pending},
		"mark":     {c.texts.mark, []any{"{}", 7}, id},
		"erase":    {c.texts.erase, []any{"{}", 7}, id},
		"markRun":  {c.texts.markRun, []any{1, 7, 1000}, pending},
		"eraseRun": {c.texts.eraseRun, []any{1, 7, 1000}, pending},
		"giveBack": {c.texts.giveBack, []any{"{}", 7, 0}, id},
		"purge":    {c.texts.purge, []any{3600000, 1000}, ended},
		"lanes":    {c.texts.lanes, nil, pending},
		"oldest":   {c.texts.oldest, []any{"c1"}, pending},
		"failing":  {c.texts.failing, []any{"c1", 100}, `using pawl_outbox_failing`},
		"list":     {c.texts.list, []any{"c1", 0, 100}, pending},
		"worst":    {c.texts.listFailing, []any{"c1", 0, 100}, `pawl_outbox_failing`},
		"find":     {c.texts.find, []any{pawl.NewID().String()}, id},
	} {
		plan := explainOnServer(t, db, c, !strings.Contains("lanes oldest failing list worst find", name), look.query, look.args)
		if !strings.Contains(plan, look.has) || strings.Contains(plan, "Seq Scan on pawl_outbox\n") {
			t.Errorf("%s:\n%s", name, plan)
		}
		if name == "claim" && strings.Contains(plan, "Sort Key: o") {
			t.Errorf("a claim sorts the table:\n%s", plan)
		}
	}
}

func explainOnServer(t *testing.T, db *sql.DB, c core, hurried bool, query string, args []any) string {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if hurried {
		if _, err := guest.One(t.Context(), tx, c.texts.quick, nil, new(int)); err != nil {
			t.Fatal(err)
		}
	}
	return plan(t, tx, "explain (costs off) "+query, args, 1)
}

// plan joins the last column of an answer.
func plan(t *testing.T, tx guest.Tx, query string, args []any, columns int) string {
	t.Helper()
	var b strings.Builder
	err := guest.Rows(t.Context(), tx, query, args, func(rows *sql.Rows) error {
		row := make([]any, columns)
		for i := range row {
			row[i] = new(any)
		}
		if err := rows.Scan(row...); err != nil {
			return err
		}
		fmt.Fprintln(&b, *row[columns-1].(*any))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return b.String()
}

func TestPlansInFile(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "plans.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	box, err := OpenSQLite(t.Context(), db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := box.core
	for name, look := range map[string]struct {
		query string
		args  []any
		has   string
	}{
		"claim":    {c.texts.claim, []any{"c1", 0, 500}, "USING INDEX pawl_outbox_pending (connection=? AND seq>?)"},
		"free":     {c.texts.claimFree, []any{"c1", 0, 500}, "USING INDEX pawl_outbox_pending (connection=? AND seq>?)"},
		"charge":   {c.texts.charge, []any{"c1", 3}, "USING INDEX pawl_outbox_pending (connection=? AND seq>? AND seq<?)"},
		"ready":    {c.texts.ready, []any{"c1", 0}, "USING INDEX pawl_outbox_pending (connection=? AND seq>?)"},
		"mark":     {c.texts.mark, []any{"[]", 7}, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"erase":    {c.texts.erase, []any{"[]", 7}, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"markRun":  {c.texts.markRun, []any{1, 7, 1000}, "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"eraseRun": {c.texts.eraseRun, []any{1, 7, 1000}, "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"giveBack": {c.texts.giveBack, []any{"[]", 7, 0}, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"purge":    {c.texts.purge, []any{3600000, 1000}, "INDEX pawl_outbox_ended (ended_at<?)"},
		"lanes":    {c.texts.lanes, nil, "INDEX pawl_outbox_pending (connection>?)"},
		"count":    {c.texts.count, []any{"c1", 1000}, "INDEX pawl_outbox_pending (connection=?)"},
		"oldest":   {c.texts.oldest, []any{"c1"}, "INDEX pawl_outbox_pending (connection=?)"},
		"failing":  {c.texts.failing, []any{"c1", 100}, "INDEX pawl_outbox_failing (connection=?)"},
		"list":     {c.texts.list, []any{"c1", 0, 100}, "INDEX pawl_outbox_pending (connection=? AND seq>?)"},
		"worst":    {c.texts.listFailing, []any{"c1", 0, 100}, "INDEX pawl_outbox_failing (connection=? AND seq>?)"},
	} {
		plan := plan(t, db, "explain query plan "+look.query, look.args, 4)
		if !strings.Contains(plan, look.has) || strings.Contains(plan, "SCAN pawl_outbox\n") || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
