package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// Role is what a principal of the database is there for. Each has exactly the rights that its statements need; who is several
// at once is granted several. The owner of the tables needs none: he makes them, by migrations.
type Role string

// Roles.
const (
	RoleWorker   Role = "worker"   // runs a host: jobs, deaths, alerts, schedules, operations; enqueues, and looks at everything
	RoleEnqueuer Role = "enqueuer" // enqueues, and sees no args, results or letters
	RoleViewer   Role = "viewer"   // looks at everything, args too, and changes nothing
	RoleOperator Role = "operator" // acts on jobs, letters, queues, kinds, hosts and schedules; enqueues, and looks at everything
	RoleAdmin    Role = "admin"    // is an operator who also removes evidence: forget, prune, erase
)

// Roles returns all, those with the least rights first.
func Roles() []Role {
	return []Role{RoleViewer, RoleEnqueuer, RoleWorker, RoleOperator, RoleAdmin}
}

// includes are the roles whose rights a role has besides its own.
func (r Role) includes() []Role {
	switch r {
	case RoleWorker, RoleOperator:
		return []Role{RoleViewer, RoleEnqueuer}
	case RoleAdmin:
		return []Role{RoleViewer, RoleEnqueuer, RoleOperator}
	}
	return nil
}

// retention are the rights of hosts that prune letters: see Config.Retention.
const retention Role = "retention"

// right is what a role may do with some tables, or sequences or functions, which are called so.
type right struct {
	role Role
	what string // as in a grant
	on   []string
}

const everyTable = "schema_version name kind job done slot attempt session switch letter evidence sink alert message audit operation operation_item " +
	"schedule run kind_limit turn batch tally"

// rights are all that is granted. Tables done_N have the rights of done. A table that nobody is granted anything on is
// in ungranted.
func rights() []right {
	var all []right
	add := func(role Role, what, on string) { all = append(all, right{role, what, strings.Fields(on)}) }

	add(RoleViewer, "select", everyTable)

	// Columns keep what others have enqueued out of sight, and leave a job that is there as it is.
	add(RoleEnqueuer, "select", "schema_version slot")
	add(RoleEnqueuer, "select, insert (text)", "name")
	add(RoleEnqueuer, "insert (name)", "kind")
	add(RoleEnqueuer, "select (id, seq, holder, run_at, flags, ukey), insert (id, queue, kind, run_at, ready_at, enqueued_at, flags, letter, ukey, batch, envelope)", "job")
	add(RoleEnqueuer, "usage", "sequence:job_seq")
	add(RoleEnqueuer, "select (id)", "done")
	add(RoleEnqueuer, "execute", "function:take_back(uuid[])")
	add(RoleEnqueuer, "select, insert, update (job_id, until_at, purge_at)", "key")
	add(RoleEnqueuer, "select, update (slot)", "key_lock")
	add(RoleEnqueuer, "select, insert, update (place, okey, lkey, kind, stage, pending)", "turn")
	add(RoleEnqueuer, "insert (job_id, okey, lkey, kind, alone)", "arrival")
	add(RoleEnqueuer, "insert", "kind_limit")
	add(RoleEnqueuer, "select (id, ended_at), insert (id, kind, queue, delay, envelope), update (created_at)", "batch") // who locks a row must be able to change it
	add(RoleEnqueuer, "insert (batch, members)", "tally")

	for _, role := range []Role{RoleWorker, RoleOperator} { // both give turns, count batches, and write what becomes of letters
		add(role, "select, delete", "arrival")
		add(role, "delete", "turn")
		add(role, "insert (done, dead, removed, held), delete", "tally")
		add(role, "update (members, done, dead, removed, ended_at, envelope)", "batch")
		add(role, "select, insert, update (tokens, counted_at, next_at)", "rate")
		add(role, "update (value), delete", "kind_limit")
		add(role, "delete", "job attempt verdict")
		add(role, "select", "verdict")
		add(role, "insert", "done")
		add(role, "update (used_at)", "slot")
		add(role, "update (status, redriven_by, redriven_at, new_job_id, redrive_outcome, next_letter, note, status_at)", "letter")
		add(role, "insert (who, door, action, subject, \"from\", \"to\", why, outcome)", "audit")
		add(role, "update (state, outcome, job, reason)", "operation_item")
		add(role, "update (state, probed, reason, letters, done, refused, succeeded, died_again, cancelled, tallied, runner, lease, free_at, changed_at, ended_at)", "operation")
		add(role, "insert, update", "schedule run")
		add(role, "delete", "run")
	}

	add(RoleWorker, "update (seq, holder, claim, attempt, requeues, started, run_at, ready_at, crashes, flags, progress)", "job")
	add(RoleWorker, "insert", "attempt")
	add(RoleWorker, "insert, update (letter)", "verdict")
	add(RoleWorker, "usage", "sequence:claim_seq")
	add(RoleWorker, "execute", "function:make_days() function:retire_day(int,interval) function:drop_day(int)")
	add(RoleWorker, "delete", "key batch")
	add(RoleWorker, "insert (name, info, kinds), update (beat, epoch, beat_at, busy, draining, unsettled, ended_at, closed, suspects, scanned, scan_queue, scan_seq, scan_at), delete", "session")
	add(RoleWorker, "insert, update (seen_at)", "kind")
	add(RoleWorker, "insert (id, dead_at, class, reason, fingerprint, kind, queue, connection, job_id, correlation_id, tags, exception_type, attempts, source_message, "+
		"host, server, version, enqueued_at, started_at, previous, message, status_at, group_resolved_at, batch)", "letter")
	add(RoleWorker, "insert", "evidence")
	add(RoleWorker, "insert, update (window_at, singles, storm, delivered, seen_at, retired_at)", "sink")
	add(RoleWorker, "insert (letter, sink, regression), update (message)", "alert")
	add(RoleWorker, "insert, update (letters, attempt, token, session, due_at, delivered_at, error), delete", "message")

	add(RoleOperator, "update (seq, run_at, ready_at, flags)", "job")
	add(RoleOperator, "delete", "done")
	add(RoleOperator, "update (cancelled)", "batch")
	add(RoleOperator, "insert (what, name, value, until), update (value, until, version)", "switch")
	add(RoleOperator, "usage", "sequence:switch_version")
	add(RoleOperator, "update (quiet, drain)", "session")
	add(RoleOperator, "update (outcome)", "audit")
	add(RoleOperator, "insert", "operation operation_item")
	add(RoleOperator, "delete", "schedule sink alert message")

	add(RoleAdmin, "update (tags, message, note, erased_at), delete", "letter")
	add(RoleAdmin, "update (detail, history, envelope), delete", "evidence")
	add(RoleAdmin, "update (history, envelope)", "done")
	add(RoleAdmin, "update (letters)", "message")

	add(retention, "delete", "letter evidence alert")
	return all
}

// ungranted is what only the owner needs.
func ungranted() []string { return []string{"function:share_day(int)"} }

// rightsOf are those of a role, those that it includes too.
func rightsOf(role Role, retains bool) (of []right) {
	roles := append(role.includes(), role)
	if retains && role == RoleWorker {
		roles = append(roles, retention)
	}
	for _, r := range rights() {
		if slices.Contains(roles, r.role) {
			of = append(of, r)
		}
	}
	return of
}

// Grants are who has which role.
type Grants struct {
	// Schema is Config.Schema; "" is pawl.
	Schema string
	// Retention says that hosts have a Config.Retention: then workers may remove letters.
	Retention bool
	// Roles are the principals of each, by their names in the database.
	Roles map[Role][]string
}

// SQL is the text that gives the rights, in one transaction: for the owner of the tables to run, and to run again after each
// migration. Principals that are named have these rights in the schema afterwards and no others.
func (g Grants) SQL() (string, error) {
	names, err := newSchema(Config{Schema: g.Schema}.withDefaults().Schema)
	if err != nil {
		return "", err
	}
	all, err := g.principals()
	if err != nil {
		return "", err
	}
	texts, err := (&Store{schema: names}).steps()
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	t := granting{schema: names, version: len(texts)}
	t.begin(all)
	for _, role := range Roles() {
		for _, name := range g.Roles[role] {
			t.role(role, name, g.Retention)
		}
	}
	t.end()
	return t.b.String(), nil
}

// Grant gives the rights. The store is that of the tables' owner.
func (s *Store) Grant(ctx context.Context, g Grants) error {
	g.Schema = s.schema.name
	text, err := g.SQL()
	if err == nil {
		err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Conn().PgConn().Exec(ctx, text).ReadAll()
			return err // where it fails, the pool closes the connection, and so the transaction
		})
	}
	if err != nil {
		return fmt.Errorf("grant rights: %w", err)
	}
	return nil
}

// principals are all names, each once.
func (g Grants) principals() (all []string, err error) {
	for role := range g.Roles {
		if !slices.Contains(Roles(), role) {
			return nil, &pawl.FieldError{Field: "role", Value: string(role), Rule: "must be one of " + fmt.Sprint(Roles())}
		}
	}
	for _, role := range Roles() {
		for _, name := range g.Roles[role] {
			switch {
			case name == "" || len(name) > 63 || !isStorableName(name):
				return nil, &pawl.FieldError{Field: string(role), Value: name, Rule: "must be a name of 1 to 63 bytes of UTF-8, without control characters"}
			case name == "public" || name == "none": // these are no names for PostgreSQL, also not in quotes
				return nil, &pawl.FieldError{Field: string(role), Value: name, Rule: "must be the name of one principal"}
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return nil, &pawl.FieldError{Field: "roles", Value: "", Rule: "must name the principal of one role at least"}
	}
	return all, nil
}
