package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// letterColumns are what lists show. The bulk of the evidence lies in pawl_evidence.
const letterColumns = `l.id, l.job_id, l.source_message, l.connection, l.queue, l.kind, l.exception_type, l.message,
	l.attempts, l.class, l.reason, l.correlation_id, l.tags, l.fingerprint, l.host, l.server, l.version, l.enqueued_at,
	l.started_at, l.dead_at, l.previous, l.status, l.redriven_by, l.redriven_at, l.new_job_id, l.redrive_outcome,
	l.next_letter, l.note, l.group_resolved_at, l.erased_at, max(l.status_at, l.dead_at), l.batch`

// letterTargets are where letterColumns go.
func letterTargets(l *pawl.DeadLetter) []any {
	return []any{
		(*idColumn)(&l.ID), (*idColumn)(&l.JobID), &l.SourceMessageID, &l.Connection, &l.Queue, &l.Kind, &l.ExceptionType,
		&l.Message, &l.Attempts, &l.Class, &l.Reason, &l.CorrelationID,
		jsonColumn{&l.Tags},
		&l.Fingerprint, &l.Host,
		&l.Server, &l.Version, (*timeColumn)(&l.EnqueuedAt), (*timeColumn)(&l.StartedAt), (*timeColumn)(&l.DeadAt),
		(*idColumn)(&l.Previous), &l.Status, &l.RedrivenBy, (*timeColumn)(&l.RedrivenAt), (*idColumn)(&l.NewJobID),
		&l.Outcome, (*idColumn)(&l.NextLetter), &l.Note, (*timeColumn)(&l.GroupResolvedAt), (*timeColumn)(&l.ErasedAt),
		(*timeColumn)(&l.StatusAt), (*idColumn)(&l.Batch),
	}
}

func scanLetter(rows *sql.Rows) (l pawl.DeadLetter, err error) {
	return l, rows.Scan(letterTargets(&l)...)
}

func scanWholeLetter(rows *sql.Rows) (l pawl.DeadLetter, err error) {
	return l, rows.Scan(append(letterTargets(&l), &l.Detail, jsonColumn{&l.History}, &l.Envelope)...)
}

// Letters lists, newest first, by time of death and then id. What it lists has no Envelope, Detail and History, so a
// page stays small whatever died: Letter has them.
func (s *Store) Letters(ctx context.Context, filter pawl.LetterFilter, p pawl.Page) (pawl.LetterPage, error) {
	q, err := newLetterQuery(filter)
	if err != nil {
		return pawl.LetterPage{}, err
	}
	limit, err := page.Limit(p)
	if err != nil {
		return pawl.LetterPage{}, err
	}
	after, more, err := page.Decode(page.Letters, p.After)
	if err != nil {
		return pawl.LetterPage{}, err
	}
	if more && filter.OldestFirst {
		q.times.Behind(after)
	} else if more {
		q.times.Before(after)
	}
	var out pawl.LetterPage
	err = s.view(ctx, func(x execer) error {
		letters, err := q.list(ctx, x, filter.OldestFirst, limit+1)
		out.Letters, out.Next = page.Cut(letters, limit, page.Letters, func(l pawl.DeadLetter) page.Cursor {
			return page.Cursor{At: l.DeadAt.UnixMilli(), ID: l.ID}
		})
		return err
	})
	if err != nil {
		return pawl.LetterPage{}, fmt.Errorf("list letters: %w", err)
	}
	return out, nil
}

const (
	newestFirst = " order by dead_at desc, id desc"
	oldestFirst = " order by dead_at, id"
)

// nearby is how many letters are looked at one by one, from an index, before the whole table is gone through instead.
const nearby = 1000

// settle goes by the index of lists where that of a group leaves more than nearby letters to be looked at, and finds out whether,
// and where in the order of a list, there are more than nearby to be searched for a text.
func (q letterQuery) settle(ctx context.Context, x execer, order string) (_ letterQuery, far page.Cursor, many bool, err error) {
	if len(q.facts.terms) > 0 && q.index == groupIndex {
		if far, many, err = q.far(ctx, x, order); err != nil || !many {
			return q, far, many, err
		}
		q = q.listed()
	}
	if len(q.texts.terms) == 0 || q.index == jobIndex {
		return q, far, false, nil
	}
	far, many, err = q.far(ctx, x, order)
	return q, far, many, err
}

// far returns the place at which nearby ends; false where that is behind the last letter.
func (q letterQuery) far(ctx context.Context, x execer, order string) (page.Cursor, bool, error) {
	w := q.within(q.times)
	return selectOne(ctx, x, scanPlace, q.by("dead_at, id")+w.sql()+order+" limit 1 offset ?", append(w.args, nearby)...)
}

// list reads the first n letters. Where a text is in many, they lie near the beginning of what the rest of the filter leaves;
// where in few, going through the whole table once is the faster way.
func (q letterQuery) list(ctx context.Context, x execer, fromOldest bool, n int) ([]pawl.DeadLetter, error) {
	order := newestFirst
	if fromOldest {
		order = oldestFirst
	}
	q, far, many, err := q.settle(ctx, x, order)
	if err != nil {
		return nil, err
	}
	near := q.times
	if many && fromOldest {
		near.Before(far)
	} else if many {
		near.NotBefore(far)
	}
	query, args := q.first(near, order, n)
	letters, err := selectRows(ctx, x, scanLetter, query, args...)
	if err != nil || !many || len(letters) == n {
		return letters, err
	}
	query, args = q.anywhere(order, n)
	return selectRows(ctx, x, scanLetter, query, args...)
}

// first is the query of the first n letters of a part of the list, in the order of the index.
func (q letterQuery) first(part page.Span, order string, n int) (query string, args []any) {
	w, rest := q.within(part), q.rest()
	return of(letterColumns, q.by(picks)+w.sql()) + rest.sql() + pickedOrder[order] + " limit ?", slices.Concat(w.args, rest.args, []any{n})
}

// anywhere is the query of the first n letters, wherever in the table they are.
func (q letterQuery) anywhere(order string, n int) (query string, args []any) {
	w := q.within(q.times).and(q.rest())
	return of(letterColumns, q.all(picks)+w.sql()+order+" limit ?") + pickedOrder[order], append(w.args, n)
}

// count counts by the way that list goes.
func (q letterQuery) count(ctx context.Context, x execer) (int, error) {
	q, _, many, err := q.settle(ctx, x, newestFirst)
	if err != nil {
		return 0, err
	}
	query, args := q.matching("count(*)", many)
	n, _, err := selectOne(ctx, x, scanValue[int], query, args...)
	return n, err
}

// matching is a query over all that the filter matches.
func (q letterQuery) matching(columns string, many bool) (query string, args []any) {
	w, rest := q.within(q.times), q.rest()
	switch {
	case len(rest.terms) == 0:
		return q.by(columns) + w.sql(), w.args
	case many:
		w = w.and(rest)
		return q.all(columns) + w.sql(), w.args
	}
	return of(columns, q.by(picks)+w.sql()) + rest.sql(), append(w.args, rest.args...)
}

// Letter returns one whole, or ErrNotFound.
func (s *Store) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	var letter pawl.DeadLetter
	err := s.view(ctx, func(x execer) (err error) {
		var found bool
		letter, found, err = selectOne(ctx, x, scanWholeLetter, `select `+letterColumns+`, e.detail, e.history, e.envelope
			from pawl_letter l join pawl_evidence e on e.letter = l.id where l.id = ?`, id[:])
		if err == nil && !found {
			err = pawl.ErrNotFound
		}
		return err
	})
	if err != nil {
		return pawl.DeadLetter{}, fmt.Errorf("read letter %s: %w", id, err)
	}
	return letter, nil
}

// CountLetters counts what the filter matches.
func (s *Store) CountLetters(ctx context.Context, filter pawl.LetterFilter) (int, error) {
	q, err := newLetterQuery(filter)
	if err != nil {
		return 0, err
	}
	var n int
	err = s.view(ctx, func(x execer) (err error) {
		n, err = q.count(ctx, x)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count letters: %w", err)
	}
	return n, nil
}

// ForgetLetter removes a letter and its alerts; false when there was none.
func (s *Store) ForgetLetter(ctx context.Context, id pawl.ID, by pawl.By) (bool, error) {
	if err := desk.CheckBy(by); err != nil {
		return false, err
	}
	var found bool
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		found, err = forget(ctx, w, id, by, now())
		return err
	})
	if err != nil {
		return false, fmt.Errorf("forget letter %s: %w", id, err)
	}
	return found, nil
}

func forget(ctx context.Context, x execer, id pawl.ID, by pawl.By, at int64) (bool, error) {
	letter, found, err := readFate(ctx, x, id)
	if err != nil || !found {
		return false, err
	}
	if err := removeLetter(ctx, x, id); err != nil {
		return false, err
	}
	_, err = writeAudit(ctx, x, at, by, pawl.AuditEntry{
		Action: pawl.ActionForget, Subject: id.String(), From: letter.Status.String(), To: "forgotten",
	})
	return true, err
}

// removeLetter removes a letter and what hangs on it.
func removeLetter(ctx context.Context, x execer, id pawl.ID) error {
	for _, statement := range []string{
		`update pawl_message set letters = letters - 1 where id in (select message from pawl_alert where letter = ?)`,
		`delete from pawl_message where letters = 0 and id in (select message from pawl_alert where letter = ?)`,
		`delete from pawl_alert where letter = ?`,
		`delete from pawl_evidence where letter = ?`,
		`delete from pawl_letter where id = ?`,
	} {
		if _, err := x.ExecContext(ctx, statement, id[:]); err != nil {
			return err
		}
	}
	return nil
}
