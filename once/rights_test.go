package once_test

import (
	"context"
	"crypto/rand"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl/once"
)

// The rights that docs/roles.md names are enough for handlers, and do not let them take a mark away.
func TestRightsOfHandlers(t *testing.T) {
	t.Parallel()
	owner := openDB(t, "pgx", server(t))
	config := once.Config{Schema: freshSchema(t)}
	if _, err := once.OpenPostgres(t.Context(), owner, config); err != nil {
		t.Fatal(err)
	}
	role, schema := "pawl_once_"+strings.ToLower(rand.Text())[:12], pgx.Identifier{config.Schema}.Sanitize()
	do := func(statement string) {
		t.Helper()
		if _, err := owner.ExecContext(context.Background(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	do("create role " + role)
	t.Cleanup(func() {
		do("drop owned by " + role)
		do("drop role " + role)
	})
	do("grant usage on schema " + schema + " to " + role)
	page, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`(?m)^grant .* on pawl_once.*;$`).FindAllString(string(page), -1)
	if len(grants) != 2 {
		t.Fatalf("the page has %q", grants)
	}
	for _, grant := range grants {
		do(strings.NewReplacer(" on pawl_", " on "+schema+".pawl_", " to jobs;", " to "+role).Replace(grant))
	}
	config.NoMigrate = true
	db := openDB(t, "pgx", server(t)+"&options=-c%20role%3D"+role)
	marks, err := once.OpenPostgres(t.Context(), db, config)
	if err != nil {
		t.Fatal(err)
	}
	w := ofSQL(t, db, marks)
	for _, first := range []bool{true, false} {
		c := w.begin(t)
		if got := c.must(t, "mail", "7"); got != first {
			t.Errorf("the first time: %v, want %v", got, first)
		}
		done(t, c.commit)
	}
	if there, err := w.peek("mail", "7"); err != nil || !there {
		t.Errorf("it is there: %v, error %v", there, err)
	}
	if _, err := w.prune(time.Hour); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("pruned by a handler: error %v", err)
	}
}
