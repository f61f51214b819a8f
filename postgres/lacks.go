package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// What this principal may not do, of what it is asked for. A thing that is not there is not asked for: the version says so.
const selectLacks = `select n from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality t (sort, name, what, "column", n)
where not coalesce(case
  when sort = 'sequence' then has_sequence_privilege(to_regclass(name), what)
  when sort = 'function' then has_function_privilege(to_regprocedure(name), what)
  when "column" = '' then has_table_privilege(to_regclass(name), what)
  else has_column_privilege(to_regclass(name), "column", what) end, true) order by n`

// The tables of finished jobs. It is asked what is there: a principal may be one that cannot read the slots.
const selectDays = `select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind = 'r' and c.relname ~ '^done_[0-9]+$' order by 1`

// mostLacks is how many things are named that rights are lacking to.
const mostLacks = 10

// wanted is one thing that a role does.
type wanted struct{ sort, name, what, column string }

// wants takes the rights of a role apart. Those to done are those to the table of each day, too.
func wants(role Role, retains bool, days []string) (all []wanted) {
	for _, r := range rightsOf(role, retains) {
		for _, on := range r.on {
			sort, name := objectOf(on)
			names := []string{name}
			if on == "done" {
				names = append(names, days...)
			}
			for _, name := range names {
				for _, p := range r.privileges() {
					for _, column := range append(p.columns, "")[:max(1, len(p.columns))] {
						all = append(all, wanted{sort, name, p.what, column})
					}
				}
			}
		}
	}
	return all
}

// lacks says what this principal lacks of a role, by the things that the rights are to.
func (s *Store) lacks(ctx context.Context, q querier, role Role, days []string) ([]string, error) {
	all := wants(role, s.config.Retention > 0, days)
	text := func(of func(*wanted) string) []string { return column(all, of) }
	missing, err := selectRows(ctx, q, scanValue[int], selectLacks,
		text(func(w *wanted) string { return w.sort }), text(func(w *wanted) string { return s.schema.text("{s}.") + w.name }),
		text(func(w *wanted) string { return w.what }), text(func(w *wanted) string { return w.column }))
	if err != nil {
		return nil, fmt.Errorf("ask for the rights of a role: %w", err)
	}
	var things []string
	rights := map[string][]string{}
	for _, n := range missing {
		w := all[n-1]
		thing, right := w.name, strings.ToUpper(w.what)
		if w.column != "" {
			right += " of " + w.column
		}
		if !slices.Contains(things, thing) {
			things = append(things, thing)
		}
		if !slices.Contains(rights[thing], right) {
			rights[thing] = append(rights[thing], right)
		}
	}
	for i, thing := range things {
		things[i] = thing + " (" + strings.Join(rights[thing], ", ") + ")"
	}
	return things, nil
}

// rights looks whether this principal may do what it is here for. Where a host runs by this handle, that is known.
func (e *examination) rights(ctx context.Context) error {
	days, err := selectRows(ctx, e.q, scanValue[string], selectDays, e.store.schema.name)
	if err != nil {
		return err
	}
	lacks := map[Role][]string{}
	for _, role := range Roles() {
		if lacks[role], err = e.store.lacks(ctx, e.q, role, days); err != nil {
			return err
		}
	}
	var user string
	if err := e.q.QueryRow(ctx, `select current_user`).Scan(&user); err != nil {
		return err
	}
	var is []string
	for _, role := range Roles() {
		if len(lacks[role]) == 0 {
			is = append(is, string(role))
		}
	}
	e.judgeRights(user, is, lacks[RoleWorker])
	return nil
}

// judgeRights says what a principal is, and what it lacks for a host.
func (e *examination) judgeRights(user string, is, lacks []string) {
	fix := fmt.Sprintf("let the owner of the tables run what `pawl migrate grants --worker %s` prints, with whatever other roles it has", shellName(user))
	may := fmt.Sprintf("%s has all rights of %s", user, strings.Join(is, ", "))
	if more := len(lacks) - mostLacks; more > 0 {
		lacks = append(slices.Clip(lacks[:mostLacks]), fmt.Sprintf("and %d more", more))
	}
	cannot := "a host lacks rights to " + strings.Join(lacks, ", ")
	switch {
	case len(lacks) == 0:
		e.add("rights", pawl.GradeFine, may, "")
	case e.store.hosted.Load():
		e.add("rights", pawl.GradeFault, fmt.Sprintf("%s runs a host, and %s", user, cannot), fix)
	case len(is) > 0:
		e.add("rights", pawl.GradeFine, may+", and cannot run a host", "")
	default:
		e.add("rights", pawl.GradeRisk, fmt.Sprintf("%s has the rights of no role: %s", user, cannot), fix)
	}
}

// shellName is a name as a word of a shell.
func shellName(name string) string {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
