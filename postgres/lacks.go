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

// having is what a principal has of a role.
type having struct {
	role  Role
	all   []wanted // that the role does
	lacks []wanted // of all
}

// has asks what this principal has of a role.
func (s *Store) has(ctx context.Context, q querier, role Role, days []string) (having, error) {
	h := having{role: role, all: wants(role, s.config.Retention > 0, days)}
	text := func(of func(*wanted) string) []string { return column(h.all, of) }
	missing, err := selectRows(ctx, q, scanValue[int], selectLacks,
		text(func(w *wanted) string { return w.sort }), text(func(w *wanted) string { return s.schema.text("{s}.") + w.name }),
		text(func(w *wanted) string { return w.what }), text(func(w *wanted) string { return w.column }))
	if err != nil {
		return h, fmt.Errorf("ask for the rights of a role: %w", err)
	}
	for _, n := range missing {
		h.lacks = append(h.lacks, h.all[n-1])
	}
	return h, nil
}

// things says what rights are lacking to, and which.
func (h having) things() string {
	var things []string
	rights := map[string][]string{}
	for _, w := range h.lacks {
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
	if more := len(things) - mostLacks; more > 0 {
		things = append(things[:mostLacks], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(things, ", ")
}

// isPartOf says that the principal has something that only this role needs, and those that include it.
func (h having) isPartOf(others []having) bool {
	known := map[wanted]bool{}
	for _, w := range h.lacks {
		known[w] = true
	}
	for _, other := range others {
		if other.role != h.role && !slices.Contains(other.role.includes(), h.role) {
			for _, w := range other.all {
				known[w] = true
			}
		}
	}
	return slices.ContainsFunc(h.all, func(w wanted) bool {
		whole := w
		whole.column = ""
		return !known[w] && !known[whole]
	})
}

// meant are the roles that a principal seems to be there for: it has a part of their rights, and not as one of another role
// that includes them.
func meant(all []having) (roles []having) {
	parts := slices.DeleteFunc(slices.Clone(all), func(h having) bool { return !h.isPartOf(all) })
	for _, h := range parts {
		if !slices.ContainsFunc(parts, func(other having) bool { return slices.Contains(other.role.includes(), h.role) }) {
			roles = append(roles, h)
		}
	}
	return roles
}

// rights looks whether this principal may do what it is here for. Where a host runs by this handle, that is known.
func (e *examination) rights(ctx context.Context) error {
	days, err := selectRows(ctx, e.q, scanValue[string], selectDays, e.store.schema.name)
	if err != nil {
		return err
	}
	all := make([]having, len(Roles()))
	for i, role := range Roles() {
		if all[i], err = e.store.has(ctx, e.q, role, days); err != nil {
			return err
		}
	}
	var user string
	if err := e.q.QueryRow(ctx, `select current_user`).Scan(&user); err != nil {
		return err
	}
	e.judgeRights(user, all)
	return nil
}

// judgeRights says what a principal is, and what it lacks: for a host that it runs, else for what it has a part of.
func (e *examination) judgeRights(user string, all []having) {
	worker := all[slices.Index(Roles(), RoleWorker)]
	var is []string
	for _, h := range all {
		if len(h.lacks) == 0 {
			is = append(is, string(h.role))
		}
	}
	roles := meant(all)
	short := slices.DeleteFunc(slices.Clone(roles), func(h having) bool { return len(h.lacks) == 0 })
	may := fmt.Sprintf("%s has all rights of %s", user, strings.Join(is, ", "))
	cannot := "a host lacks rights to " + worker.things()
	switch {
	case len(worker.lacks) > 0 && e.store.hosted.Load():
		e.add("rights", pawl.GradeFault, fmt.Sprintf("%s runs a host, and %s", user, cannot), fixRights(user, append(roles, worker)))
	case len(short) > 0:
		var parts []string
		for _, h := range short {
			parts = append(parts, fmt.Sprintf("of %s, and lacks rights to %s", h.role, h.things()))
		}
		e.add("rights", pawl.GradeRisk, fmt.Sprintf("%s has a part of the rights %s", user, strings.Join(parts, "; ")), fixRights(user, roles))
	case len(worker.lacks) == 0:
		e.add("rights", pawl.GradeFine, may, "")
	case len(is) > 0:
		e.add("rights", pawl.GradeFine, may+", and cannot run a host", "")
	default:
		e.add("rights", pawl.GradeRisk, fmt.Sprintf("%s has the rights of no role: %s", user, cannot), fixRights(user, []having{worker}))
	}
}

// fixRights names the roles that a principal seems to have, each once.
func fixRights(user string, roles []having) string {
	flags := ""
	for _, role := range Roles() {
		if slices.ContainsFunc(roles, func(h having) bool { return h.role == role }) {
			flags += fmt.Sprintf(" --%s %s", role, shellName(user))
		}
	}
	return fmt.Sprintf("let the owner of the tables run what `pawl migrate grants%s` prints, with whatever other roles it has", flags)
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
