package outbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl/outbox"
)

// The rights that docs/roles.md names are enough for who writes and for who dispatches, and let nobody who writes read.
func TestRightsOfRoles(t *testing.T) {
	t.Parallel()
	owner := openServer(t)
	config := outbox.Config{Schema: freshSchema(t)}
	if _, err := outbox.OpenPostgres(t.Context(), owner, config); err != nil {
		t.Fatal(err)
	}
	shop, jobs := freshRole(t, owner, config.Schema), freshRole(t, owner, config.Schema)
	page, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`(?m)^grant .* on pawl_outbox.*;$`).FindAllString(string(page), -1)
	if len(grants) != 5 {
		t.Fatalf("the page has %q", grants)
	}
	for _, grant := range grants {
		grant = strings.NewReplacer(" on pawl_", " on "+pgx.Identifier{config.Schema}.Sanitize()+".pawl_", " to shop;", " to "+shop, " to jobs;", " to "+jobs).Replace(grant)
		if _, err := owner.ExecContext(t.Context(), grant); err != nil {
			t.Fatalf("%s: %v", grant, err)
		}
	}
	config.NoMigrate = true
	as := func(role string) *business {
		t.Helper()
		db, err := sql.Open("pgx", server(t)+"&options=-c%20role%3D"+role)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		box, err := outbox.OpenPostgres(t.Context(), db, config)
		if err != nil {
			t.Fatal(err)
		}
		b := &business{name: "database/sql", db: db, box: box, config: config, table: pgx.Identifier{config.Schema, "pawl_outbox"}.Sanitize()}
		b.begin = func(t testing.TB) transaction { return beginSQL(t, db, box) }
		return b
	}
	writer, target := as(shop), fileStore(t)
	b := as(jobs)
	written := newJobs(t, 10)
	writer.write(t, written...)
	writer.write(t, written[0]) // it is there already
	start(t, b.dispatcher(t, target, nil, target))
	b.empty(t)
	if ids := jobsOf(t, target); len(ids) != len(written) {
		t.Errorf("%d jobs, want %d", len(ids), len(written))
	}
	for _, statement := range []string{`select envelope from `, `delete from `} {
		if _, err := writer.db.ExecContext(t.Context(), statement+writer.table); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("who writes: %s: %v", statement, err)
		}
	}
}

// freshRole is a principal that may use a schema.
func freshRole(t *testing.T, owner *sql.DB, schema string) string {
	t.Helper()
	role := "pawl_outbox_" + strings.ToLower(rand.Text())[:12]
	do := func(statement string) {
		t.Helper()
		if _, err := owner.ExecContext(context.Background(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	do("create role " + role)
	do("grant usage on schema " + pgx.Identifier{schema}.Sanitize() + " to " + role)
	t.Cleanup(func() {
		do("drop owned by " + role)
		do("drop role " + role)
	})
	return role
}
