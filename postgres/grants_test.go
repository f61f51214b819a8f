package postgres_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// site is a store with principals of all roles, a job that waits, one that is done, and a dead letter.
type site struct {
	*testing.T
	byRoles
	config                postgres.Config
	waiting, done, letter pawl.ID
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, config: postgres.Config{Schema: freshSchema(t), Conns: 2, Logger: slog.New(slog.DiscardHandler)}}
	openIn(t, server(t), s.config)
	r := freshRoles(t)
	r.grant(t, s.config)
	s.byRoles = r.openAll(t, s.config)
	session := openSession(t, s.byRoles)
	jobs := []pawl.NewJob{newJob(t, s.byRoles), newJob(t, s.byRoles)}
	put(t, s.byRoles, jobs...)
	claimed := claimAll(t, s.byRoles, session)
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "a"}, claimed[1],
		pawl.Dead{Class: pawl.DeathPermanent, Reason: pawl.ReasonPermanent}, time.Now(), errors.New("no"))
	refusals, err := s.Settle(t.Context(), session, []pawl.Settlement{
		{Reservation: claimed[0].Reservation, Outcome: pawl.Done{}},
		{Reservation: claimed[1].Reservation, Outcome: pawl.Dead{Class: letter.Class, Reason: letter.Reason}, Letter: &letter},
	})
	if err := errors.Join(append(refusals, err)...); err != nil {
		t.Fatal(err)
	}
	last := newJob(t, s.byRoles)
	put(t, s.byRoles, last)
	s.waiting, s.done, s.letter = last.ID, claimed[0].ID, letter.ID
	return s
}

// as is a connection of a role.
func (s *site) as(role postgres.Role) *pgx.Conn {
	s.Helper()
	return beside(s, s.roles.url(s, role))
}

// text fills in the names: {s} the schema, {l} the same inside a literal, {waiting} and {done} the jobs, {letter} the letter.
func (s *site) text(statement string) string {
	quoted := pgx.Identifier{s.config.Schema}.Sanitize()
	return strings.NewReplacer("{s}", quoted, "{l}", strings.ReplaceAll(quoted, "'", "''"), "{waiting}", "'"+s.waiting.String()+"'",
		"{done}", "'"+s.done.String()+"'", "{letter}", "'"+s.letter.String()+"'").Replace(statement)
}

// refused runs what must be refused for want of a right.
func (s *site) refused(conn *pgx.Conn, role postgres.Role, statement string) {
	s.Helper()
	_, err := conn.Exec(s.Context(), s.text(statement), pgx.QueryExecModeSimpleProtocol)
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "42501" {
		s.Errorf("a %s: %s: error %v, want a refusal", role, statement, err)
	}
}

// Nobody may do what is not his.
func TestRolesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	everybody := []string{
		`create table {s}.mine (n int)`, `drop table {s}.done_1`, `drop table {s}.job`, `truncate {s}.job`, `alter table {s}.job add column x int`,
		`drop schema {s} cascade`, `select {s}.share_day(1)`, `create trigger t before insert on {s}.job execute function pg_catalog.suppress_redundant_updates_trigger()`,
		`insert into {s}.schema_version (version) values (99)`, `update {s}.slot set retired_at = 'epoch'`, `delete from {s}.slot`, `insert into {s}.slot (from_at, until_at) values (now(), now())`,
		`update {s}.letter set kind = ''`, `update {s}.letter set exception_type = '', dead_at = now()`, `update {s}.job set envelope = ''`, `update {s}.job set id = gen_random_uuid()`,
		`update {s}.audit set who = 'somebody'`, `delete from {s}.audit`, `truncate {s}.audit`, `insert into {s}.audit (at) values (now())`,
		`select setval('{l}.job_seq', 1)`, `update {s}.name set text = ''`, `delete from {s}.name`,
	}
	only := map[postgres.Role][]string{
		postgres.RoleViewer: {
			`select nextval('{l}.job_seq')`, `select {s}.make_days()`, `select {s}.drop_day(1)`, `select {s}.retire_day(1, '1 day')`, `select {s}.take_back('{}')`,
			`select * from {s}.key`,
		},
		postgres.RoleEnqueuer: {
			`select envelope from {s}.job`, `select * from {s}.job`, `select envelope from {s}.done_1`, `select history from {s}.done_1`, `select * from {s}.letter`, `select * from {s}.evidence`, `select * from {s}.audit`,
			`select * from {s}.attempt`, `select * from {s}.verdict`, `select * from {s}.session`, `select * from {s}.schedule`,
			`delete from {s}.job where id = {waiting}`, `update {s}.job set run_at = 'infinity'`, `insert into {s}.job (id, queue, kind, attempt, envelope) values ({waiting}, 1, 1, 9, '')`,
			`insert into {s}.letter (id) values ({waiting})`, `insert into {s}.done_1 (id, state) values ({waiting}, 0)`, `delete from {s}.done_1`, `update {s}.switch set value = true`,
			`select {s}.make_days()`, `select {s}.drop_day(1)`, `select {s}.retire_day(1, '1 day')`, `select nextval('{l}.claim_seq')`,
		},
		postgres.RoleWorker: {
			`delete from {s}.letter`, `delete from {s}.evidence`, `update {s}.evidence set envelope = null`, `update {s}.letter set message = ''`, `update {s}.letter set erased_at = now()`,
			`insert into {s}.letter (id, status) values ({waiting}, 2)`, `delete from {s}.alert`, `delete from {s}.done_1`, `update {s}.done_1 set envelope = null`,
			`update {s}.switch set value = true`, `insert into {s}.switch (what, name, value) values ('kind', 1, true)`, `update {s}.audit set outcome = ''`,
			`update {s}.session set quiet = true`, `insert into {s}.operation (id) values ({waiting})`, `delete from {s}.schedule`, `update {s}.slot set until_at = 'epoch'`,
		},
		postgres.RoleOperator: {
			`delete from {s}.letter where id = {letter}`, `delete from {s}.evidence`, `update {s}.evidence set envelope = null`, `update {s}.letter set message = ''`, `update {s}.done_1 set envelope = null`,
			`insert into {s}.letter (id) values ({waiting})`, `update {s}.job set claim = 1`, `insert into {s}.session (name) values ('a')`, `select {s}.drop_day(1)`, `select {s}.make_days()`,
		},
		postgres.RoleAdmin: {`insert into {s}.letter (id) values ({waiting})`, `update {s}.job set claim = 1`, `select {s}.drop_day(1)`},
	}
	for _, role := range postgres.Roles() {
		conn := s.as(role)
		for _, statement := range slices.Concat(everybody, only[role]) {
			s.refused(conn, role, statement)
		}
	}
	var writable []string
	rows, err := s.as(postgres.RoleViewer).Query(t.Context(), `select relname::text from pg_class where relnamespace = $1::regnamespace and relkind = 'r'
		and (has_any_column_privilege(oid, 'INSERT, UPDATE, REFERENCES') or has_table_privilege(oid, 'DELETE, TRUNCATE, TRIGGER'))`, pgx.Identifier{s.config.Schema}.Sanitize())
	if err == nil {
		writable, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(writable) > 0 {
		t.Errorf("a viewer may write to %v, error %v", writable, err)
	}
	for what, err := range map[string]error{
		"a viewer moves a letter": func() error {
			_, err := s.viewer.MoveLetters(t.Context(), []pawl.Move{{Letter: s.letter, Action: pawl.ActionResolve, By: pawl.By{Who: "v"}}})
			return err
		}(),
		"a viewer enqueues": func() error {
			_, err := s.viewer.Enqueue(t.Context(), []pawl.NewJob{newJob(t, s.byRoles)})
			return err
		}(),
		"an enqueuer looks": func() error { _, err := s.enqueuer.Job(t.Context(), s.waiting); return err }(),
		"an operator forgets": func() error {
			_, err := s.operator.ForgetLetter(t.Context(), s.letter, pawl.By{Who: "o"})
			return err
		}(),
	} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "pawl migrate grants") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if letter, err := s.Letter(t.Context(), s.letter); err != nil || letter.Status != pawl.StatusDead || len(letter.Envelope) == 0 {
		t.Errorf("the letter is %+v, error %v", letter, err)
	}
}

// What the owner's functions do for others they do for those who are right, whatever lies in the callers' own schemas.
func TestFunctionsOfTheOwner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner := beside(t, server(t))
	count := func(conn *pgx.Conn, query string, args ...any) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), s.text(query), append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&n); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	worker := s.as(postgres.RoleWorker)
	for _, statement := range []string{
		`create temp table slot as select * from {s}.slot`, `update pg_temp.slot set retired_at = 'epoch', until_at = 'epoch', used_at = 'epoch'`,
		`create temp table done (id int)`, `create temp table done_1 (id uuid)`, `insert into pg_temp.done_1 values ({waiting})`,
	} {
		if _, err := worker.Exec(t.Context(), s.text(statement)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if n := count(worker, `select count(*) from {s}.slot s where {s}.drop_day(s.n) or {s}.retire_day(s.n, '-1 year')`); n != 0 {
		t.Errorf("%d days that hosts write to were retired or dropped", n)
	}
	if n := count(worker, `select count(*) from {s}.drop_day(null) d where d`) + count(worker, `select count(*) from {s}.drop_day(99) d where d`); n != 0 {
		t.Error("a day that is not there was dropped")
	}
	before := count(owner, `select count(*) from {s}.slot`)
	count(worker, `select count(*) from {s}.make_days()`)
	if after := count(owner, `select count(*) from {s}.slot`); after != before {
		t.Errorf("%d days more than are needed were made", after-before)
	}
	enqueuer := s.as(postgres.RoleEnqueuer)
	if n := count(enqueuer, `select count(*) from {s}.take_back(array[{waiting}]::uuid[])`); n != 0 || count(owner, `select count(*) from {s}.job where id = {waiting}`) != 1 {
		t.Error("an enqueuer has removed a job that waits")
	}
	again := newJob(t, s.byRoles)
	again.ID = s.done
	if results := put(t, s.byRoles, again); results[0].Status != pawl.Repeated || count(owner, `select count(*) from {s}.job where id = {done}`) != 0 {
		t.Errorf("an id of a finished job: %+v", results)
	}
}

// A worker makes the tables of the days to come, which have the rights of their model, and drops those of the past.
func TestDaysOfAWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner := beside(t, server(t))
	days := func() (names []string) {
		t.Helper()
		rows, err := owner.Query(t.Context(), `select relname::text from pg_class c where relnamespace = $1::regnamespace and relname ~ '^done_[0-9]+$' order by oid`, pgx.Identifier{s.config.Schema}.Sanitize())
		if err == nil {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	rights := func(table string) (all string) {
		t.Helper()
		err := owner.QueryRow(t.Context(), `select string_agg(r, ' ' order by r) from (
			select a.grantee || a.privilege_type || '' as r from pg_class c, aclexplode(c.relacl) a where c.oid = $1::text::regclass
			union all select a.grantee || a.privilege_type || t.attname from pg_attribute t, aclexplode(t.attacl) a where t.attrelid = $1::text::regclass) r`,
			pgx.Identifier{s.config.Schema, table}.Sanitize()).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := days()
	for range 4 { // two days pass, and what is over age is forgotten, and then dropped
		backdate(t, inSchema{url: server(t), config: s.config}, 36*time.Hour)
		session := openSession(t, s.byRoles)
		if _, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err != nil {
			t.Fatal(err)
		}
		job := newJob(t, s.byRoles)
		put(t, s.byRoles, job)
		settleDone(t, s.byRoles, session, claimAll(t, s.byRoles, session))
		if view, err := s.Job(t.Context(), job.ID); err != nil || view.State != pawl.JobDone {
			t.Errorf("the job is %+v, error %v", view, err)
		}
	}
	now := days()
	if slices.ContainsFunc(first, func(day string) bool { return slices.Contains(now, day) }) {
		t.Errorf("tables of finished jobs are %v, and were %v", now, first)
	}
	for _, day := range now {
		if got, want := rights(day), rights("done"); got != want {
			t.Errorf("rights to %s are %s, want %s", day, got, want)
		}
	}
}

// Hosts of a worker run what an enqueuer has enqueued, bury what dies, and run what an operator redrives, without a warning.
func TestHostOfAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := freshRoles(t)
	r.grant(t, w.store.config)
	config := w.store.config
	worker, enqueuer, operator := r.open(t, postgres.RoleWorker, config), r.open(t, postgres.RoleEnqueuer, config), r.open(t, postgres.RoleOperator, config)
	mended := make(chan struct{})
	mux := muxOf(func(_ context.Context, job *pawl.Job, args workArgs) error {
		select {
		case <-mended:
			return nil
		default:
		}
		if args.N == 1 {
			return pawl.Permanent(errors.New("not yet"))
		}
		return nil
	})
	w.start(worker.Store, mux, w.config("host-w", 4, quick()))
	for n := range 3 {
		if _, err := work.Enqueue(t.Context(), enqueuer, workArgs{n}, pawl.OrderingKey("a line")); err != nil {
			t.Fatal(err)
		}
	}
	var letters pawl.LetterPage
	w.until(20*time.Second, "the death", func() bool {
		var err error
		letters, err = operator.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{})
		return err == nil && len(letters.Letters) == 1 && w.counts() == pawl.QueueView{}
	})
	close(mended)
	letter, err := operator.Letter(t.Context(), letters.Letters[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	envelope.ID = pawl.NewID()
	push := pawl.NewJobFrom(envelope)
	push.Letter = letter.ID
	refusals, err := operator.MoveLetters(t.Context(), []pawl.Move{{Letter: letter.ID, Action: pawl.ActionRedrive, By: pawl.By{Who: "ann"}, Push: &push}})
	if err := errors.Join(append(refusals, err)...); err != nil {
		t.Fatal(err)
	}
	w.until(20*time.Second, "the redrive", func() bool {
		letter, err := operator.Letter(t.Context(), letter.ID)
		return err == nil && letter.Status == pawl.StatusResolved
	})
	if f := found(t, worker, "rights"); f.Grade != pawl.GradeFine {
		t.Errorf("rights of the worker: %+v", f)
	}
	said := slices.DeleteFunc(w.lines.at(slog.LevelWarn), func(line string) bool { return strings.Contains(line, "no host of this store has a sink but the log") })
	if len(said) > 0 {
		t.Errorf("warnings:\n%s", strings.Join(said, "\n"))
	}
}

// Grants are exact: what somebody had before and is not named for he has no more. They are repeatable.
func TestGrantsAreExact(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	r := freshRoles(t)
	name := r[postgres.RoleWorker]
	mayUpdate := func() (may bool) {
		t.Helper()
		err := beside(t, server(t)).QueryRow(t.Context(), `select has_any_column_privilege($1, $2::text::regclass, 'UPDATE') or has_any_column_privilege($1, $3::text::regclass, 'INSERT')
			or has_function_privilege($1, $4::text::regprocedure, 'EXECUTE') or has_sequence_privilege($1, $5::text::regclass, 'USAGE')`, name, table(config.Schema, "letter"), table(config.Schema, "done_1"),
			table(config.Schema, "make_days")+"()", table(config.Schema, "claim_seq")).Scan(&may)
		if err != nil {
			t.Fatal(err)
		}
		return may
	}
	for _, c := range []struct {
		role postgres.Role
		may  bool
	}{{postgres.RoleWorker, true}, {postgres.RoleWorker, true}, {postgres.RoleViewer, false}, {postgres.RoleEnqueuer, false}} {
		if err := store.Grant(t.Context(), postgres.Grants{Roles: map[postgres.Role][]string{c.role: {name}}}); err != nil {
			t.Fatal(err)
		}
		if mayUpdate() != c.may {
			t.Errorf("as %s, it may write to letters, finished jobs or sequences: %v", c.role, !c.may)
		}
	}
	both := postgres.Grants{Roles: map[postgres.Role][]string{postgres.RoleWorker: {name}, postgres.RoleViewer: {name}}}
	if err := store.Grant(t.Context(), both); err != nil || !mayUpdate() {
		t.Errorf("who is a viewer too is no worker any more; error %v", err)
	}
}

// What cannot be granted is said, and changes nothing.
func TestGrantsRefused(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	r := freshRoles(t)
	to := func(role postgres.Role, names ...string) postgres.Grants {
		return postgres.Grants{Schema: config.Schema, Roles: map[postgres.Role][]string{role: names}}
	}
	for _, g := range []postgres.Grants{
		{},
		to("king", "a"), to(postgres.RoleViewer, ""), to(postgres.RoleViewer, "public"), to(postgres.RoleViewer, "none"), to(postgres.RoleViewer, "a\x00b"),
		to(postgres.RoleViewer, strings.Repeat("a", 64)),
		{Schema: "a\x00b", Roles: to(postgres.RoleViewer, "a").Roles},
	} {
		if text, err := g.SQL(); !errors.Is(err, pawl.ErrInvalid) || text != "" {
			t.Errorf("%+v: error %v, text %q", g, err, text)
		}
	}
	var owner string
	if err := beside(t, server(t)).QueryRow(t.Context(), `select current_user`).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	viewer := r[postgres.RoleViewer]
	for _, c := range []struct {
		grants postgres.Grants
		says   string
	}{
		{to(postgres.RoleViewer, viewer, owner), "the owner of the tables has all rights"},
		{to(postgres.RoleViewer, viewer, "nobody's '; drop schema x"), "does not exist"},
	} {
		if err := store.Grant(t.Context(), c.grants); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want %q", c.grants.Roles, err, c.says)
		}
	}
	execute(t, server(t), `delete from `+table(config.Schema, "schema_version")+` where version > 5`)
	if err := store.Grant(t.Context(), to(postgres.RoleViewer, viewer)); err == nil || !strings.Contains(err.Error(), "run pawl migrate up first") {
		t.Errorf("with older tables: error %v", err)
	}
	config.NoMigrate = true
	if _, err := postgres.Open(t.Context(), r.url(t, postgres.RoleViewer), config); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "pawl migrate grants") {
		t.Errorf("who was granted nothing opens the store with error %v", err)
	}
}
