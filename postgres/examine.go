package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

const (
	examineServer = `select current_setting('server_version'), current_setting('server_version_num')::int, current_user`

	examineSettings = `select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum')`

	examineVacuum = `select exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = 'job' and exists (select 1 from unnest(c.reloptions) o
  where o in ('autovacuum_enabled=off', 'autovacuum_enabled=false', 'autovacuum_enabled=0')))`

	// What keeps dead rows from being removed.
	examineSnapshots = `select what, who, age from (
  select 'transaction' as what, 'process ' || pid || ' of ' || coalesce(nullif(application_name, ''), usename, '?') as who,
    now() - xact_start as age
  from pg_stat_activity where backend_xmin is not null and xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
  union all
  select 'prepared transaction', gid, now() - prepared from pg_prepared_xacts
  union all
  select 'replication slot', slot_name, null from pg_replication_slots where xmin is not null and not active
) s order by age desc nulls first limit 1`

	// Sessions in this database of which the server shows this principal neither transaction nor sort.
	examineHidden = `select current_user, count(*) from pg_stat_activity
where datname = current_database() and usesysid is not null and backend_type is null`

	examineConnections = `select (select count(*) from pg_stat_activity where backend_type = 'client backend'
    or backend_type is null and datid is not null and usesysid is not null),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`

	clockRisk    = time.Second      // between this machine and the server
	snapshotRisk = 10 * time.Minute // age of a transaction
	oldestServer = 130000
)

// examination collects findings.
type examination struct {
	store    *Store
	q        querier
	findings []pawl.Finding
}

func (e *examination) add(check string, grade pawl.Grade, text, fix string) {
	e.findings = append(e.findings, pawl.Finding{Check: check, Grade: grade, Text: text, Fix: fix})
}

// Examine looks at the server's version and settings, the tables and the rights to them, the clocks, what keeps vacuum
// from its work, and how many connections are left.
func (s *Store) Examine(ctx context.Context) ([]pawl.Finding, error) {
	e := &examination{store: s}
	checks := []struct {
		name string
		run  func(ctx context.Context) error
	}{
		{"server", e.server},
		{"schema", e.schema},
		{"rights", e.rights},
		{"clock", e.clock},
		{"durability", e.durability},
		{"vacuum", e.vacuum},
		{"snapshot", e.snapshot},
		{"connections", e.connections},
		{"wake-up", e.wakeUp},
		{"history", e.history},
	}
	for _, check := range checks {
		err := s.view(ctx, func(ctx context.Context, q querier) error {
			e.q = q
			return check.run(ctx)
		})
		switch {
		case err != nil && check.name == "server":
			return nil, fmt.Errorf("examine: %w", err)
		case err != nil:
			e.add(check.name, pawl.GradeRisk, "this could not be looked at: "+err.Error(), "see that this principal may read the server's statistics and settings")
		}
	}
	return e.findings, nil
}

func (e *examination) server(ctx context.Context) error {
	var version, user string
	var number int
	if err := e.q.QueryRow(ctx, examineServer).Scan(&version, &number, &user); err != nil {
		return err
	}
	text := fmt.Sprintf("PostgreSQL %s, as %s", version, user)
	if number < oldestServer {
		e.add("server", pawl.GradeFault, text, "use version 13 or later")
		return nil
	}
	e.add("server", pawl.GradeFine, text, "")
	return nil
}

func (e *examination) schema(ctx context.Context) error {
	version, err := e.store.version(ctx, e.q)
	if err != nil {
		return err
	}
	texts, err := e.store.steps()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the tables in schema %s are at version %d", e.store.schema.name, version)
	switch {
	case version < len(texts):
		e.add("schema", pawl.GradeFault, fmt.Sprintf("%s and this program needs %d", text, len(texts)), "run `pawl migrate up`")
	case version > len(texts):
		e.add("schema", pawl.GradeFault, fmt.Sprintf("%s and this program knows %d", text, len(texts)), "run a newer release")
	default:
		e.add("schema", pawl.GradeFine, text, "")
	}
	return nil
}

func (e *examination) clock(ctx context.Context) error {
	began := time.Now()
	var there time.Time
	if err := e.q.QueryRow(ctx, `select clock_timestamp()`).Scan(&there); err != nil {
		return err
	}
	took := time.Since(began)
	off := there.Sub(began.Add(took / 2))
	text := fmt.Sprintf("this machine's clock and the server's differ by %s", off.Abs().Round(time.Millisecond))
	if off.Abs()-took/2 > clockRisk {
		e.add("clock", pawl.GradeRisk, text+"; jobs go by the server's, logs by this one's", "set both by NTP")
		return nil
	}
	e.add("clock", pawl.GradeFine, text, "")
	return nil
}

func (e *examination) durability(ctx context.Context) error {
	settings, err := e.settings(ctx)
	if err != nil {
		return err
	}
	var off []string
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if settings[name] == "off" {
			off = append(off, name+" = off")
		}
	}
	if len(off) > 0 {
		e.add("durability", pawl.GradeFault, strings.Join(off, ", ")+": a job whose enqueue was acknowledged is lost when the server crashes",
			"switch it on for this database")
		return nil
	}
	e.add("durability", pawl.GradeFine, "an acknowledged job is on disk", "")
	return nil
}

func (e *examination) settings(ctx context.Context) (map[string]string, error) {
	rows, err := e.q.Query(ctx, examineSettings)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = value
		return nil
	})
	return settings, err
}

func (e *examination) vacuum(ctx context.Context) error {
	settings, err := e.settings(ctx)
	if err != nil {
		return err
	}
	var off bool
	if err := e.q.QueryRow(ctx, examineVacuum, e.store.schema.name).Scan(&off); err != nil {
		return err
	}
	if off || settings["autovacuum"] == "off" {
		e.add("vacuum", pawl.GradeRisk, "autovacuum does not look after the tables: they grow, and everything slows down", "switch it on")
		return nil
	}
	e.add("vacuum", pawl.GradeFine, "autovacuum looks after the tables", "")
	return nil
}

func (e *examination) snapshot(ctx context.Context) error {
	if err := e.hidden(ctx); err != nil {
		return err
	}
	var what, who string
	var age *time.Duration
	err := e.q.QueryRow(ctx, examineSnapshots).Scan(&what, &who, &age)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.add("snapshot", pawl.GradeFine, "nothing keeps vacuum from its work", "")
	case err != nil:
		return err
	default:
		e.oldest(what, who, age)
	}
	return nil
}

// hidden tells of sessions whose age this principal is not shown: what it finds of old transactions leaves them out.
func (e *examination) hidden(ctx context.Context) error {
	var user string
	var sessions int
	if err := e.q.QueryRow(ctx, examineHidden).Scan(&user, &sessions); err != nil {
		return err
	}
	e.judgeHidden(user, sessions)
	return nil
}

func (e *examination) judgeHidden(user string, sessions int) {
	if sessions > 0 {
		e.add("statistics", pawl.GradeRisk, fmt.Sprintf("%s is not shown how old the transactions of others are: %d of their sessions go unexamined", user, sessions),
			"as a superuser: grant pg_read_all_stats to "+pgx.Identifier{user}.Sanitize())
	}
}

// oldest judges what keeps the oldest snapshot; age is nil where there is no telling.
func (e *examination) oldest(what, who string, age *time.Duration) {
	switch {
	case age == nil:
		e.add("snapshot", pawl.GradeRisk, fmt.Sprintf("the %s %s, which nobody reads, keeps dead rows from being removed", what, who), "drop it, or start its reader")
	case *age > snapshotRisk:
		e.add("snapshot", pawl.GradeRisk, fmt.Sprintf("a %s has been open for %s (%s) and keeps dead rows from being removed", what, age.Round(time.Second), who),
			"end it; reports belong on a replica")
	default:
		e.add("snapshot", pawl.GradeFine, fmt.Sprintf("the oldest transaction has been open for %s", age.Round(time.Millisecond)), "")
	}
}

func (e *examination) connections(ctx context.Context) error {
	var used, most int
	if err := e.q.QueryRow(ctx, examineConnections).Scan(&used, &most); err != nil {
		return err
	}
	text := fmt.Sprintf("%d of %d connections are in use; a host needs up to %d", used, most, e.store.config.Conns+1)
	if most-used < e.store.config.Conns+1 {
		e.add("connections", pawl.GradeRisk, text, "raise max_connections, or put a pooler in between")
		return nil
	}
	e.add("connections", pawl.GradeFine, text, "")
	return nil
}

func (e *examination) wakeUp(context.Context) error {
	if e.store.pooler {
		e.add("wake-up", pawl.GradeFine, "through a pooler: hosts look for jobs every 200 ms, since they cannot listen", "")
		return nil
	}
	e.add("wake-up", pawl.GradeFine, "hosts are told of jobs by the server", "")
	return nil
}

func (e *examination) history(ctx context.Context) error {
	all, now, err := e.store.readSlots(ctx, e.q)
	if err != nil {
		return err
	}
	if !ahead(all, now) {
		e.add("history", pawl.GradeRisk, "the table of the next finished jobs is not there yet: hosts make it in time, and none has", "start a host, or look why its upkeep fails in its log")
		return nil
	}
	e.add("history", pawl.GradeFine, fmt.Sprintf("finished jobs have their tables until %s", all[len(all)-1].until.UTC().Format("2006-01-02 15:04")), "")
	return nil
}
