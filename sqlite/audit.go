package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
)

// Bounds of what an operator writes, in bytes.
const (
	maxWho  = 256
	maxNote = 4000
)

// itself acts where the system writes something back.
var itself = pawl.By{Who: "pawl", Door: "pawl"}

// checkBy refuses an act without an actor.
func checkBy(by pawl.By) error {
	if by.Who == "" {
		return &pawl.FieldError{Field: "who", Value: by.Who, Rule: "must name who acts"}
	}
	if err := checkStorable("who", by.Who, maxWho); err != nil {
		return err
	}
	if err := checkStorable("door", by.Door, maxWho); err != nil {
		return err
	}
	return checkStorable("why", by.Why, maxNote)
}

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
func (s *Store) Audit(ctx context.Context, filter pawl.AuditFilter, page pawl.Page) (pawl.AuditPage, error) {
	query, args, limit, err := auditQuery(filter, page)
	if err != nil {
		return pawl.AuditPage{}, err
	}
	var out pawl.AuditPage
	err = s.view(ctx, func(x execer) error {
		entries, err := selectRows(ctx, x, scanAudit, query, args...)
		out.Entries, out.Next = cut(entries, limit, listAudit, func(e pawl.AuditEntry) cursor { return cursor{at: e.ID} })
		return err
	})
	if err != nil {
		return pawl.AuditPage{}, fmt.Errorf("list audit: %w", err)
	}
	return out, nil
}

func auditQuery(f pawl.AuditFilter, page pawl.Page) (query string, args []any, limit int, err error) {
	limit, err = pageLimit(page)
	if err != nil {
		return "", nil, 0, err
	}
	var w where
	w.text("subject", "subject = ?", f.Subject)
	w.text("who", "who = ?", f.Who)
	w.text("action", "action = ?", string(f.Action))
	w.since("at >= ?", f.Since)
	after, more, err := decodeCursor(listAudit, page.After)
	w.check(err)
	if more {
		w.add("id < ?", after.at)
	}
	query = `select id, at, who, door, action, subject, "from", "to", why, outcome from pawl_audit` +
		w.sql() + ` order by id desc limit ?`
	return query, append(w.args, limit+1), limit, w.err
}

func scanAudit(rows *sql.Rows) (e pawl.AuditEntry, err error) {
	return e, rows.Scan(&e.ID, (*timeColumn)(&e.At), &e.Who, &e.Door, &e.Action, &e.Subject, &e.From, &e.To, &e.Why, &e.Outcome)
}
