package postgres

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// granting is the text under way.
type granting struct {
	b       strings.Builder
	schema  schema
	version int
}

func (t *granting) line(template string, args ...any) {
	t.b.WriteString(t.schema.text(template))
	for _, arg := range args {
		fmt.Fprint(&t.b, arg)
	}
	t.b.WriteByte('\n')
}

// begin takes from the principals what they have. The locks keep away migrations, and hosts that make and drop days.
func (t *granting) begin(principals []string) {
	quoted, literals := make([]string, len(principals)), make([]string, len(principals))
	for i, name := range principals {
		quoted[i], literals[i] = pgx.Identifier{name}.Sanitize(), quoteLiteral(name)
	}
	to := strings.Join(quoted, ", ")
	t.line("begin;")
	t.line("select pg_advisory_xact_lock(", t.schema.lock("migrate"), "), pg_advisory_xact_lock(", t.schema.lock("slots"), ");")
	t.line("do ", quoteLiteral(t.schema.text(`
begin
  if (select max(version) from {s}.schema_version) is distinct from `)+fmt.Sprint(t.version)+t.schema.text(` then
    raise exception 'the tables are not at version `)+fmt.Sprint(t.version)+`: run pawl migrate up first';
  end if;
  if exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles r on r.oid = c.relowner
      where n.nspname = `+quoteLiteral(t.schema.name)+` and r.rolname in (`+strings.Join(literals, ", ")+`)) then
    raise exception 'the owner of the tables has all rights: give the roles to others';
  end if;
end `), ";")
	for _, all := range []string{"schema {s}", "all tables in schema {s}", "all sequences in schema {s}", "all functions in schema {s}"} {
		t.line("revoke all on "+all+" from ", to, ";")
	}
	t.line("grant usage on schema {s} to ", to, ";")
}

// role grants a role with what it includes.
func (t *granting) role(role Role, name string, retains bool) {
	with := ""
	for i, included := range role.includes() {
		with += map[bool]string{true: ", with what is granted to a ", false: ", "}[i == 0] + string(included)
	}
	t.line("")
	t.line("-- ", string(role), with)
	for _, r := range rightsOf(role, retains) {
		sorts := map[string][]string{}
		for _, on := range r.on {
			sort, name := objectOf(on)
			sorts[sort] = append(sorts[sort], t.schema.text("{s}.")+name)
		}
		for _, sort := range []string{"table", "sequence", "function"} {
			if len(sorts[sort]) > 0 {
				t.line("grant ", r.what, " on ", sort, " ", strings.Join(sorts[sort], ", "), " to ", pgx.Identifier{name}.Sanitize(), ";")
			}
		}
	}
}

// end hands the rights on to the tables of finished jobs.
func (t *granting) end() {
	t.line("")
	t.line("select {s}.share_day(n) from {s}.slot where to_regclass('{l}.done_' || n) is not null order by n;")
	t.line("commit;")
}

// objectOf is what sort of thing a right is on, and its name, in which nothing has to be quoted.
func objectOf(on string) (sort, name string) {
	if sort, name, found := strings.Cut(on, ":"); found {
		return sort, name
	}
	return "table", on
}

// privilege is one part of a right: what may be done, with which columns; none: all.
type privilege struct {
	what    string
	columns []string
}

// privileges takes a right apart.
func (r right) privileges() (all []privilege) {
	for rest := r.what; rest != ""; {
		end := strings.IndexByte(rest, ',')
		if open := strings.IndexByte(rest, '('); open >= 0 && (end < 0 || open < end) {
			end = strings.IndexByte(rest, ')') + 1
		}
		if end < 0 {
			end = len(rest)
		}
		what, columns, _ := strings.Cut(strings.TrimSuffix(rest[:end], ")"), " (")
		p := privilege{what: strings.TrimSpace(what)}
		for column := range strings.SplitSeq(columns, ", ") {
			if column != "" {
				p.columns = append(p.columns, strings.Trim(column, `"`))
			}
		}
		all, rest = append(all, p), strings.TrimLeft(rest[end:], ", ")
	}
	return all
}

// quoteLiteral is a text as a literal of SQL, whatever is in it.
func quoteLiteral(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func isStorableName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
