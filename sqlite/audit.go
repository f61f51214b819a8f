package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// writeAudit appends a line and returns its number. At is the store's now.
func writeAudit(ctx context.Context, x execer, at int64, by pawl.By, e pawl.AuditEntry) (int64, error) {
	result, err := x.ExecContext(ctx, `
		insert into pawl_audit (at, who, door, action, subject, "from", "to", why, outcome)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		at, by.Who, by.Door, string(e.Action), e.Subject, e.From, e.To, by.Why, e.Outcome)
	if err != nil {
		return 0, fmt.Errorf("write audit: %w", err)
	}
	return result.LastInsertId()
}

// Audit lists the trail, newest first.
func (s *Store) Audit(ctx context.Context, filter pawl.AuditFilter, p pawl.Page) (pawl.AuditPage, error) {
	query, args, limit, err := auditQuery(filter, p)
	if err != nil {
		return pawl.AuditPage{}, err
	}
	var out pawl.AuditPage
	err = s.view(ctx, func(x execer) error {
		entries, err := selectRows(ctx, x, scanAudit, query, args...)
		out.Entries, out.Next = page.Cut(entries, limit, page.Audit, func(e pawl.AuditEntry) page.Cursor { return page.Cursor{At: e.ID} })
		return err
	})
	if err != nil {
		return pawl.AuditPage{}, fmt.Errorf("list audit: %w", err)
	}
	return out, nil
}

func auditQuery(f pawl.AuditFilter, p pawl.Page) (query string, args []any, limit int, err error) {
	limit, err = page.Limit(p)
	if err != nil {
		return "", nil, 0, err
	}
	var w where
	w.check(desk.CheckAudit(f))
	w.text("subject = ?", f.Subject)
	w.text("who = ?", f.Who)
	w.text("action = ?", string(f.Action))
	w.bound("at >= ?", f.Since)
	after, more, err := page.Decode(page.Audit, p.After)
	w.check(err)
	if more {
		w.add("id < ?", after.At)
	}
	query = `select id, at, who, door, action, subject, "from", "to", why, outcome from pawl_audit` +
		w.sql() + ` order by id desc limit ?`
	return query, append(w.args, limit+1), limit, w.err
}

func scanAudit(rows *sql.Rows) (e pawl.AuditEntry, err error) {
	return e, rows.Scan(&e.ID, (*timeColumn)(&e.At), &e.Who, &e.Door, &e.Action, &e.Subject, &e.From, &e.To, &e.Why, &e.Outcome)
}
