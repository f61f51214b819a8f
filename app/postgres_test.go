//go:build unix

package app

import (
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
