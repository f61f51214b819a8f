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

// Who lacks rights for a host is told which, and what gives them; a fault where a host runs all the same.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	r := freshRoles(t)
	r.grant(t, config)
	for role, want := range map[postgres.Role]string{
		postgres.RoleViewer:   `has all rights of viewer, and cannot run a host`,
		postgres.RoleEnqueuer: `has all rights of enqueuer, and cannot run a host`,
		postgres.RoleWorker:   `has all rights of viewer, enqueuer, worker`,
		postgres.RoleAdmin:    `has all rights of viewer, enqueuer, operator, admin, and cannot run a host`,
	} {
		if f := found(t, r.open(t, role, config), "rights"); f.Grade != pawl.GradeFine || !strings.HasSuffix(f.Text, want) {
			t.Errorf("rights of the %s are %s: %s", role, f.Grade, f.Text)
		}
	}
	name := pgx.Identifier{r[postgres.RoleWorker]}.Sanitize()
	for _, statement := range []string{
		`revoke delete on ` + table(config.Schema, "session") + ` from ` + name, `revoke update (note) on ` + table(config.Schema, "letter") + ` from ` + name,
		`revoke insert on ` + table(config.Schema, "done_1") + ` from ` + name, `revoke usage on sequence ` + table(config.Schema, "claim_seq") + ` from ` + name,
		`revoke execute on function ` + table(config.Schema, "make_days") + `() from ` + name,
	} {
		execute(t, store.url, statement)
	}
	worker := r.open(t, postgres.RoleWorker, config)
	lacks := "a host lacks rights to done_1 (INSERT), letter (UPDATE of note), claim_seq (USAGE), make_days() (EXECUTE), session (DELETE)"
	part := strings.Replace(lacks, "a host lacks", "has a part of the rights of worker, and lacks", 1)
	if f := found(t, worker, "rights"); f.Grade != pawl.GradeRisk || !strings.HasSuffix(f.Text, part) || !strings.Contains(f.Fix, "grants --worker 'Pawl'") {
		t.Errorf("rights are %s: %s; %s", f.Grade, f.Text, f.Fix)
	}
	openSession(t, worker)
	f := found(t, worker, "rights")
	if f.Grade != pawl.GradeFault || !strings.HasSuffix(f.Text, lacks) || !strings.Contains(f.Fix, "pawl migrate grants --worker 'Pawl'\\''s ") {
		t.Errorf("of a host, rights are %s: %s; %s", f.Grade, f.Text, f.Fix)
	}
	execute(t, store.url, `revoke select on `+table(config.Schema, "letter")+` from `+name)
	another := r.open(t, postgres.RoleWorker, config)
	if f := found(t, another, "rights"); f.Grade != pawl.GradeRisk || !strings.Contains(f.Text, "a part of the rights of worker, and lacks rights to letter (SELECT, UPDATE of note)") {
		t.Errorf("without a host, rights are %s: %s", f.Grade, f.Text)
	}

	// As after an upgrade without new grants.
	name = pgx.Identifier{r[postgres.RoleOperator]}.Sanitize()
	operator := r.open(t, postgres.RoleOperator, config)
	execute(t, store.url, `revoke select on `+table(config.Schema, "turn")+`, `+table(config.Schema, "tally")+` from `+name)
	if f := found(t, operator, "rights"); f.Grade != pawl.GradeRisk || !strings.Contains(f.Fix, "grants --operator 'Pawl'") ||
		!strings.HasSuffix(f.Text, "has a part of the rights of operator, and lacks rights to turn (SELECT), tally (SELECT)") {
		t.Errorf("of an operator, rights are %s: %s; %s", f.Grade, f.Text, f.Fix)
	}
	name = pgx.Identifier{r[postgres.RoleViewer]}.Sanitize()
	viewer := r.open(t, postgres.RoleViewer, config)
	execute(t, store.url, `revoke all on all tables in schema `+pgx.Identifier{config.Schema}.Sanitize()+` from `+name)
	if f := found(t, viewer, "rights"); f.Grade != pawl.GradeRisk || !strings.Contains(f.Text, "has the rights of no role: a host lacks rights to ") {
		t.Errorf("of nobody, rights are %s: %s", f.Grade, f.Text)
	}
}

// A principal that is not shown others' sessions says so, and knows no less how many there are.
func TestExamineHiddenSessions(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	r := freshRoles(t)
	r.grant(t, config)
	viewer := r.open(t, postgres.RoleViewer, config) // beside the store's own sessions, which are another's
	name := pgx.Identifier{r[postgres.RoleViewer]}.Sanitize()
	if f := found(t, viewer, "statistics"); f.Grade != pawl.GradeRisk || !strings.Contains(f.Text, "is not shown how old the transactions of others are") || !strings.HasSuffix(f.Fix, "grant pg_read_all_stats to "+name) {
		t.Errorf("statistics are %s: %s; %s", f.Grade, f.Text, f.Fix)
	}
	if f := found(t, viewer, "connections"); strings.HasPrefix(f.Text, "0 ") {
		t.Errorf("connections: %s", f.Text)
	}
	execute(t, store.url, `grant pg_read_all_stats to `+name)
	findings, err := viewer.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Check == "statistics" {
			t.Errorf("with the grant: %s", f.Text)
		}
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
