package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	insertAudit = `insert into {s}.audit (who, door, action, subject, "from", "to", why, outcome)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
returning id, at`

	selectAudit = `select id, at, who, door, action, subject, "from", "to", why, outcome from {s}.audit`
)

// audited is a line in the trail and who it is of.
type audited struct {
	by    pawl.By
	entry pawl.AuditEntry
}

// writeAudit appends lines, and returns the number and the time of the first.
func (s *Store) writeAudit(ctx context.Context, tx pgx.Tx, lines ...audited) (first pawl.AuditEntry, err error) {
	if len(lines) == 0 {
		return first, nil
	}
	text := func(of func(*audited) string) []string { return column(lines, of) }
	first, _, err = selectOne(ctx, tx, func(rows pgx.Rows) (e pawl.AuditEntry, err error) {
		return e, rows.Scan(&e.ID, (*timeColumn)(&e.At))
	}, s.sql.desk.insertAudit,
		text(func(a *audited) string { return a.by.Who }),
		text(func(a *audited) string { return a.by.Door }),
		text(func(a *audited) string { return string(a.entry.Action) }),
		text(func(a *audited) string { return a.entry.Subject }),
		text(func(a *audited) string { return a.entry.From }),
		text(func(a *audited) string { return a.entry.To }),
		text(func(a *audited) string { return a.by.Why }),
		text(func(a *audited) string { return a.entry.Outcome }))
	if err != nil {
		return first, fmt.Errorf("write audit: %w", err)
	}
	return first, nil
}

// Audit lists the trail, newest first.
func (s *Store) Audit(ctx context.Context, filter pawl.AuditFilter, p pawl.Page) (pawl.AuditPage, error) {
	c, limit, err := auditConditions(filter, p)
	if err != nil {
		return pawl.AuditPage{}, err
	}
	var out pawl.AuditPage
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		query := s.schema.text(numbered(selectAudit + c.where() + " order by id desc limit ?"))
		entries, err := selectRows(ctx, q, scanAudit, query, append(c.args, limit+1)...)
		out.Entries, out.Next = page.Cut(entries, limit, page.Audit, func(e pawl.AuditEntry) page.Cursor {
			return page.Cursor{At: e.ID}
		})
		return err
	})
	if err != nil {
		return pawl.AuditPage{}, fmt.Errorf("list audit: %w", err)
	}
	return out, nil
}

func auditConditions(f pawl.AuditFilter, p pawl.Page) (c conditions, limit int, err error) {
	if err := desk.CheckAudit(f); err != nil {
		return c, 0, err
	}
	if limit, err = page.Limit(p); err != nil {
		return c, 0, err
	}
	after, more, err := page.Decode(page.Audit, p.After)
	if err != nil {
		return c, 0, err
	}
	c.text("subject = ?", f.Subject)
	c.text("who = ?", f.Who)
	c.text("action = ?", string(f.Action))
	if !f.Since.IsZero() {
		c.add("at >= ?", ceilMicro(f.Since))
	}
	if more {
		c.add("id < ?", after.At)
	}
	return c, limit, nil
}

func scanAudit(rows pgx.Rows) (e pawl.AuditEntry, err error) {
	return e, rows.Scan(&e.ID, (*timeColumn)(&e.At), &e.Who, &e.Door, &e.Action, &e.Subject, &e.From, &e.To, &e.Why, &e.Outcome)
}
