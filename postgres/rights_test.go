package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Every table, sequence and function of the schema is spoken of in the rights of the roles, or left to the owner by name.
func TestRightsSpeakOfEverything(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	there, err := selectRows(t.Context(), s.pool, scanValue[string], `select case relkind when 'S' then 'sequence:' else '' end || relname
  from pg_class c where relnamespace = $1::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f', 'S') and relname !~ '^done_[0-9]+$'
    and not exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'i')
  union all
  select 'function:' || proname || '(' || replace(pg_get_function_identity_arguments(oid), 'day ', '') || ')' from pg_proc where pronamespace = $1::regnamespace`,
		s.schema.text("{s}"))
	if err != nil {
		t.Fatal(err)
	}
	spoken := map[string]bool{}
	for _, r := range rights() {
		for _, on := range r.on {
			spoken[on] = true
		}
	}
	for _, on := range ungranted() {
		spoken[on] = true
	}
	for _, thing := range there {
		if plain := strings.NewReplacer(", ", ",", "age ", "", "ids ", "", "integer", "int").Replace(thing); !spoken[plain] {
			t.Errorf("rights.go says nothing of %s: which role needs what of it? (ungranted names what none does)", plain)
		}
	}
	if len(there) < 30 {
		t.Errorf("only %d things are there: %v", len(there), there)
	}
}

// principalHere is a role's only principal, with a connection of its own on which statements can be tried.
type principalHere struct {
	*testing.T
	store *Store
	role  Role
	name  string
	owner *pgx.Conn
	conn  *pgx.Conn
	texts map[string]string // statements by their names
	takes map[string]string // arguments by the names of statements
}

func newPrincipalHere(t *testing.T, s *Store, role Role, texts map[string]string) *principalHere {
	t.Helper()
	p := &principalHere{T: t, store: s, role: role, name: "pawl_" + strings.ToLower(rand.Text())[:12], texts: texts, takes: map[string]string{}}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), os.Getenv("PAWL_TEST_POSTGRES"))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	p.owner, p.conn = connect(), connect()
	p.do(p.owner, "create role "+p.name)
	t.Cleanup(func() {
		_ = p.conn.Close(context.Background())
		for _, statement := range []string{"drop owned by " + p.name, "drop role " + p.name} {
			if _, err := p.owner.Exec(context.Background(), statement); err != nil {
				t.Error(err)
			}
		}
		_ = p.owner.Close(context.Background())
	})
	p.do(p.owner, s.schema.text("grant usage on schema {s} to ")+p.name)
	p.do(p.conn, "set plan_cache_mode = force_generic_plan")
	for name, text := range texts {
		described, err := p.conn.Prepare(t.Context(), name, text)
		if err != nil {
			t.Fatalf("prepare %s: %v", name, err)
		}
		if n := len(described.ParamOIDs); n > 0 {
			p.takes[name] = " (" + strings.TrimSuffix(strings.Repeat("null, ", n), ", ") + ")"
		}
	}
	p.do(p.conn, "set role "+p.name)
	for _, table := range p.tables() {
		p.grant(table, wanted{})
	}
	for _, w := range wants(role, true, nil) {
		if w.sort != "table" {
			p.do(p.owner, "grant "+w.what+" on "+w.sort+s.schema.text(" {s}.")+w.name+" to "+p.name)
		}
	}
	return p
}

func (p *principalHere) do(conn *pgx.Conn, statement string) {
	p.Helper()
	if _, err := conn.Exec(p.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		p.Fatalf("%s: %v", statement, err)
	}
}

func (p *principalHere) tables() (names []string) {
	for _, w := range wants(p.role, true, []string{"done_1", "done_2"}) {
		if w.sort == "table" && !slices.Contains(names, w.name) {
			names = append(names, w.name)
		}
	}
	return names
}

// grant grants what the role has to a table, but for one thing.
func (p *principalHere) grant(table string, but wanted) {
	p.Helper()
	on := p.store.schema.text(" on {s}.") + table
	statements := []string{"revoke all" + on + " from " + p.name}
	for _, w := range wants(p.role, true, []string{"done_1", "done_2"}) {
		if w.sort != "table" || w.name != table || w == but {
			continue
		}
		what := w.what
		if w.column != "" {
			what += " (" + pgx.Identifier{w.column}.Sanitize() + ")"
		}
		statements = append(statements, "grant "+what+on+" to "+p.name)
	}
	p.do(p.owner, strings.Join(statements, "; "))
}

// may reports whether the principal may run a statement: the rights are looked at before a plan is shown.
func (p *principalHere) may(name string) bool {
	p.Helper()
	_, err := p.conn.Exec(p.Context(), `explain execute "`+name+`"`+p.takes[name], pgx.QueryExecModeSimpleProtocol)
	if err != nil && state(err) != insufficientRights {
		p.Fatalf("explain %s: %v", name, err)
	}
	return err == nil
}

// statementsHere are the statements of a store, by their names in the code, and some that are put together when they are run.
func statementsHere(t *testing.T, s *Store) map[string]string {
	t.Helper()
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	var collect func(of reflect.Value)
	collect = func(of reflect.Value) {
		for i := range of.NumField() {
			switch field := of.Field(i); field.Kind() {
			case reflect.Struct:
				collect(field)
			case reflect.String:
				texts[of.Type().Field(i).Name] = field.String()
			}
		}
	}
	collect(reflect.ValueOf(s.sql))
	collect(reflect.ValueOf(slots.texts))
	for name, text := range map[string]string{
		"selectAudit": selectAudit, "eraseLetter": eraseLetter, "selectEvidence": selectEvidence, "eraseEvidence": eraseEvidence,
		"walkLetters": walkLetters, "walkJobs": walkJobs, "walkBatches": walkBatches, "eraseKey": eraseKey,
		"selectEnding": fmt.Sprintf(selectEnding, "done_1"), "eraseEnding": fmt.Sprintf(eraseEnding, "done_1"), "walkDone": fmt.Sprintf(walkDone, "done_1"),
		"clearJobs":      strings.NewReplacer("{part}", clearReady, "{kept}", strings.ReplaceAll(keepRemoved, "{current}", "{s}.done_1")).Replace(clearJobs),
		"forgetEnded":    `delete from {s}.done_1 where id = any($1::uuid[])`,
		"schema version": `select coalesce(max(version), 0) from {s}.schema_version`,
	} {
		texts[name] = s.schema.text(text)
	}
	return texts
}

// Of each role every right is needed, by a statement that it may not run without. And every statement may be run by some role.
func TestRightsAreNeeded(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	texts := statementsHere(t, s)
	of := func(table string) (names []string) {
		for name, text := range texts {
			if strings.Contains(text+" ", s.schema.text("{s}.")+table+" ") || strings.Contains(text, s.schema.text("{s}.")+table+"\n") ||
				strings.Contains(text, s.schema.text("{s}.")+table+"(") || strings.Contains(text, s.schema.text("{s}.")+table+")") {
				names = append(names, name)
			}
		}
		return names
	}
	run := map[string]bool{}
	for _, role := range Roles() {
		p := newPrincipalHere(t, s, role, texts)
		for name := range texts {
			run[name] = p.may(name) || run[name]
		}
		included := map[wanted]bool{}
		for _, other := range role.includes() {
			for _, w := range wants(other, false, nil) {
				included[w] = true
			}
		}
		for _, w := range wants(role, true, nil) {
			if w.sort != "table" || included[w] {
				continue
			}
			table := w.name
			if table == "done" { // each day has its rights
				table, w.name = "done_1", "done_1"
			}
			may := slices.DeleteFunc(of(table), func(name string) bool { return !p.may(name) })
			p.grant(table, w)
			if !slices.ContainsFunc(may, func(name string) bool { return !p.may(name) }) {
				t.Errorf("no statement of a %s needs %s (%s) on %s", role, w.what, w.column, w.name)
			}
			p.grant(table, wanted{})
		}
	}
	for name := range texts {
		if !run[name] {
			t.Errorf("no role may run %s: %s", name, texts[name])
		}
	}
}
