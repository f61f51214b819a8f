package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// found is what a store's examination says of one check.
func found(t *testing.T, store pawl.Examiner, check string) pawl.Finding {
	t.Helper()
	findings, err := store.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if (f.Grade == pawl.GradeFine) != (f.Fix == "") || f.Text == "" {
			t.Errorf("%s is %s: %q, and the remedy is %q", f.Check, f.Grade, f.Text, f.Fix)
		}
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("nothing is said of %s: %v", check, findings)
	return pawl.Finding{}
}

func TestExamineWhatIsWell(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	for _, check := range []string{"server", "schema", "rights", "clock", "vacuum", "snapshot", "wake-up", "history"} {
		if f := found(t, store, check); f.Grade != pawl.GradeFine {
			t.Errorf("%s is %s: %s", check, f.Grade, f.Text)
		}
	}
	var fsync string
	if err := beside(t, store.url).QueryRow(t.Context(), `show fsync`).Scan(&fsync); err != nil {
		t.Fatal(err)
	}
	want := pawl.GradeFine
	if fsync == "off" {
		want = pawl.GradeFault
	}
	if f := found(t, store, "durability"); f.Grade != want {
		t.Errorf("with fsync %s, durability is %s: %s", fsync, f.Grade, f.Text)
	}
}

func TestExamineWhatIsNot(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	for _, c := range []struct {
		check     string
		grade     pawl.Grade
		says      string
		statement string
	}{
		{"vacuum", pawl.GradeRisk, "autovacuum does not look after", `alter table {job} set (autovacuum_enabled = off)`},
		{"history", pawl.GradeRisk, "not there yet", `delete from {slot}`},
		{"schema", pawl.GradeFault, "and this program knows", `insert into {schema_version} (version) values (999)`},
		{"schema", pawl.GradeFault, "and this program needs", `delete from {schema_version} where version > 1`},
	} {
		text := c.statement
		for _, name := range []string{"job", "slot", "schema_version"} {
			text = strings.ReplaceAll(text, "{"+name+"}", table(config.Schema, name))
		}
		execute(t, store.url, text)
		if f := found(t, store, c.check); f.Grade != c.grade || !strings.Contains(f.Text, c.says) {
			t.Errorf("after %s: %s is %s: %s; want %s: … %s …", text, c.check, f.Grade, f.Text, c.grade, c.says)
		}
	}
}

// A principal that may do less than run a host is told so.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	role := "pawl_" + strings.ToLower(pawl.NewID().String()[24:])
	conn := beside(t, store.url)
	for _, statement := range []string{
		`create role ` + role,
		`grant usage on schema ` + pgx.Identifier{config.Schema}.Sanitize() + ` to ` + role,
		`grant select, insert, update, delete on all tables in schema ` + pgx.Identifier{config.Schema}.Sanitize() + ` to ` + role,
		`revoke update, delete on ` + table(config.Schema, "letter") + ` from ` + role,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { execute(t, store.url, `drop owned by `+role+`; drop role `+role) })
	limited := openIn(t, server(t)+"&options=-c%20role%3D"+role, postgres.Config{Schema: config.Schema, NoMigrate: true})
	f := found(t, limited, "rights")
	if f.Grade != pawl.GradeRisk || !strings.HasSuffix(f.Text, "to letter (DELETE, UPDATE)") {
		t.Errorf("rights are %s: %s", f.Grade, f.Text)
	}
}

func TestExamineOldestSnapshot(t *testing.T) {
	t.Parallel()
	age := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		what  string
		age   *time.Duration
		grade pawl.Grade
		says  string
	}{
		{"transaction", age(time.Minute), pawl.GradeFine, "open for 1m0s"},
		{"transaction", age(time.Hour), pawl.GradeRisk, "a transaction has been open for 1h0m0s (somebody)"},
		{"replication slot", nil, pawl.GradeRisk, "replication slot somebody"},
	} {
		if f := postgres.OldestSnapshot(c.what, "somebody", c.age); f.Grade != c.grade || !strings.Contains(f.Text, c.says) {
			t.Errorf("%s, %v: %s: %s", c.what, c.age, f.Grade, f.Text)
		}
	}
}

func TestExamineAClosedStore(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if findings, err := store.Examine(t.Context()); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("findings %v, error %v, want ErrClosed", findings, err)
	}
}
