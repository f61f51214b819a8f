//go:build unix

package app

import (
	"crypto/rand"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server that cannot be reached is one line that says what and where once, without the password.
func TestUnreachablePostgres(t *testing.T) {
	t.Parallel()
	got := said(t, "postgres://ann:hidden@127.0.0.1:1/jobs", "dead", "list")
	line, rest, _ := strings.Cut(got, "\n")
	if rest != "status 1" || strings.Count(line, "refused") != 1 || strings.Count(line, "ann") != 1 || !strings.Contains(line, "127.0.0.1:1") {
		t.Errorf("it says\n%s", got)
	}
	if strings.Contains(got, "hidden") {
		t.Errorf("the password is shown:\n%s", got)
	}
}

// Nor is a name that nobody knows said for each way to try it.
func TestUnknownPostgres(t *testing.T) {
	t.Parallel()
	got := said(t, "postgres://ann@nowhere.invalid/jobs", "dead", "list")
	if line, rest, _ := strings.Cut(got, "\n"); rest != "status 1" || strings.Count(line, "lookup nowhere.invalid") != 1 {
		t.Errorf("it says\n%s", got)
	}
}

// An operator's command makes nothing in a database without our tables, and says what does.
func TestEmptyPostgres(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, args := range [][]string{{"dead", "list"}, {"status"}, {"job", "enqueue", "a.v1"}} {
		got := said(t, url, args...)
		if !strings.Contains(got, "no tables of pawl in schema pawl: run `pawl migrate up` to make them") || !strings.HasSuffix(got, "status 5") {
			t.Errorf("%v says\n%s", args, got)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var made bool
	if err := conn.QueryRow(t.Context(), `select exists (select 1 from pg_namespace where nspname = 'pawl')`).Scan(&made); err != nil || made {
		t.Errorf("a schema was made: %v, error %v", made, err)
	}
	if got := said(t, url, "job", "enqueue", "a.v1", "--create"); !strings.HasSuffix(got, "status 0") {
		t.Errorf("with --create: %s", got)
	}
}

// What --apply gives is what the roles may then do, and nothing else; what cannot be given changes nothing.
func TestGrantsApplied(t *testing.T) {
	t.Parallel()
	url := database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	run := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	support, oncall := "support "+strings.ToLower(rand.Text()), "oncall "+strings.ToLower(rand.Text())
	for _, name := range []string{support, oncall} {
		quoted := pgx.Identifier{name}.Sanitize()
		run("create role " + quoted)
		defer func() { run("drop owned by " + quoted + "; drop role " + quoted) }()
	}
	grants := []string{"migrate", "grants", "--viewer", support, "--operator", oncall, "--apply"}
	if got := said(t, url, grants...); !strings.Contains(got, "no tables of pawl") || !strings.HasSuffix(got, "status 5") {
		t.Errorf("before there are tables: %s", got)
	}
	id := pawlOn(t, url, "job", "enqueue", "a.v1", "--create")
	as := func(name string) string {
		return url + "&options=" + strings.ReplaceAll(neturl.QueryEscape("-c role="+strings.ReplaceAll(name, " ", `\ `)), "+", "%20")
	}
	if got := said(t, as(support), "job", "show", id); !strings.HasSuffix(got, "status 4") || !strings.Contains(got, "`pawl migrate grants` prints what gives rights") {
		t.Errorf("before the grant: %s", got)
	}
	if got := said(t, as(oncall), grants...); !strings.HasSuffix(got, "status 4") {
		t.Errorf("by who does not own the tables: %s", got)
	}
	if got := said(t, url, append(grants, "--worker", "nobody at all")...); !strings.HasSuffix(got, "status 1") || !strings.Contains(got, `"nobody at all"`) {
		t.Errorf("to who is not there: %s", got)
	}
	if got := said(t, as(support), "job", "show", id); !strings.HasSuffix(got, "status 4") {
		t.Errorf("what failed has given something: %s", got)
	}
	for range 2 { // it can be repeated
		if got := pawlOn(t, url, grants...); got != "The rights are given." {
			t.Errorf("it says %q", got)
		}
	}
	for _, c := range []struct {
		name, status string
		args         []string
	}{
		{support, "status 0", []string{"job", "show", id}},
		{support, "status 4", []string{"job", "cancel", id}},
		{oncall, "status 0", []string{"job", "cancel", id}},
		{oncall, "status 4", []string{"dead", "erase", "--kind", "a.v1", "--reason", "test", "--yes"}},
	} {
		if got := said(t, as(c.name), c.args...); !strings.HasSuffix(got, c.status) {
			t.Errorf("%s: %v: %s", c.name, c.args, got)
		}
	}
}
