package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// letterColumns are what lists show. The bulk of the evidence lies in another table.
const letterColumns = `l.id, l.job_id, l.source_message, l.connection, l.queue, l.kind, l.exception_type, l.message, l.attempts,
  l.class, l.reason, l.correlation_id, l.tags, l.fingerprint, l.host, l.server, l.version, l.enqueued_at, l.started_at, l.dead_at,
  l.previous, l.status, l.redriven_by, l.redriven_at, l.new_job_id, l.redrive_outcome, l.next_letter, l.note,
  l.group_resolved_at, l.erased_at, l.status_at, l.batch`

const (
	selectLetter = `select ` + letterColumns + `, e.detail, e.history, e.envelope
from {s}.letter l join {s}.evidence e on e.letter = l.id where l.id = $1`

	deleteAlerts = `with gone as (
  delete from {s}.alert where letter = any($1::uuid[]) returning message
), less as (
  select m.id, c.n from (select message, count(*) as n from gone group by message) c join {s}.message m on m.id = c.message order by m.id for update of m
), emptied as (
  delete from {s}.message m using less l where m.id = l.id and m.letters <= l.n
)
update {s}.message m set letters = m.letters - l.n from less l where m.id = l.id and m.letters > l.n`
	deleteEvidence = `delete from {s}.evidence where letter = any($1::uuid[])`
	deleteLetter   = `delete from {s}.letter where id = any($1::uuid[])`

	newestFirst = " order by dead_at desc, id desc"
	oldestFirst = " order by dead_at, id"
)

// letterTargets are where letterColumns go.
func letterTargets(l *pawl.DeadLetter) []any {
	return []any{
		(*idColumn)(&l.ID), (*idColumn)(&l.JobID), &l.SourceMessageID, &l.Connection, &l.Queue, &l.Kind, &l.ExceptionType,
		&l.Message, &l.Attempts,
		smallColumn[pawl.DeathClass]{&l.Class},
		(*string)(&l.Reason), &l.CorrelationID, &l.Tags,
		&l.Fingerprint, &l.Host, &l.Server, &l.Version, (*timeColumn)(&l.EnqueuedAt), (*timeColumn)(&l.StartedAt),
		(*timeColumn)(&l.DeadAt), (*idColumn)(&l.Previous),
		smallColumn[pawl.Status]{&l.Status},
		&l.RedrivenBy,
		(*timeColumn)(&l.RedrivenAt), (*idColumn)(&l.NewJobID), (*string)(&l.Outcome), (*idColumn)(&l.NextLetter), &l.Note,
		(*timeColumn)(&l.GroupResolvedAt), (*timeColumn)(&l.ErasedAt), (*timeColumn)(&l.StatusAt), (*idColumn)(&l.Batch),
	}
}

func scanLetter(rows pgx.Rows) (l pawl.DeadLetter, err error) {
	return l, rows.Scan(letterTargets(&l)...)
}

func scanWholeLetter(rows pgx.Rows) (l pawl.DeadLetter, err error) {
	return l, rows.Scan(append(letterTargets(&l), &l.Detail, jsonColumn{&l.History}, &l.Envelope)...)
}

// Letters lists, newest first, by time of death and then id. What it lists has no Envelope, Detail and History, so a
// page stays small whatever died: Letter has them.
func (s *Store) Letters(ctx context.Context, filter pawl.LetterFilter, p pawl.Page) (pawl.LetterPage, error) {
	list, limit, err := newLetterList(filter, p)
	if err != nil {
		return pawl.LetterPage{}, err
	}
	var out pawl.LetterPage
	err = s.viewLetters(ctx, list.letterQuery, func(ctx context.Context, q querier) error {
		letters, err := s.listLetters(ctx, q, list, limit+1)
		out.Letters, out.Next = page.Cut(letters, limit, page.Letters, func(l pawl.DeadLetter) page.Cursor {
			return page.Cursor{At: l.DeadAt.UnixMicro(), ID: l.ID}
		})
		return err
	})
	if err != nil {
		return pawl.LetterPage{}, fmt.Errorf("list letters: %w", err)
	}
	return out, nil
}

// letterList is a filter and a place in its list.
type letterList struct {
	letterQuery
	order string
}

func newLetterList(filter pawl.LetterFilter, p pawl.Page) (list letterList, limit int, err error) {
	if list.letterQuery, err = newLetterQuery(filter); err != nil {
		return list, 0, err
	}
	if limit, err = page.Limit(p); err != nil {
		return list, 0, err
	}
	after, more, err := page.Decode(page.Letters, p.After)
	list.order = newestFirst
	if filter.OldestFirst {
		list.order = oldestFirst
	}
	switch {
	case more && filter.OldestFirst:
		list.times.Behind(after)
	case more:
		list.times.Before(after)
	}
	return list, limit, err
}

// nearby is how many letters are looked at one by one, in the order of the list, before all are gone through and what is
// left is sorted.
const nearby = 2000

// listLetters reads the first n letters of a list. Where its filter lets through many, they lie near the beginning; where
// few, going through all of them in the order in which they lie is the faster way.
func (s *Store) listLetters(ctx context.Context, q querier, list letterList, n int) ([]pawl.DeadLetter, error) {
	first := list.first(n)
	letters, err := selectRows(ctx, q, scanLetter, s.schema.text(first.text), first.args...)
	if err != nil || len(letters) == n || list.few {
		return letters, err
	}
	all := list.sorted(n)
	return selectRows(ctx, q, scanLetter, s.schema.text(all.text), all.args...)
}

// query is a query, in which {s} is the schema, and its arguments.
type query struct {
	text string
	args []any
}

// first looks along an index.
func (l letterList) first(n int) query {
	if l.few {
		c := l.all()
		text := "select " + letterColumns + " from {s}.letter l" + c.where() + l.order + " limit ?"
		return query{numbered(text), append(c.args, n)}
	}
	near := l.near()
	text := "select " + letterColumns + " from (select * from {s}.letter" + near.where() + l.order + " limit ?) l" +
		l.rest.where() + l.order + " limit ?"
	return query{numbered(text), slices.Concat(near.args, []any{nearby}, l.rest.args, []any{n})}
}

// sorted goes through the table: by the offset, the order must wait.
func (l letterList) sorted(n int) query {
	c := l.all()
	text := "select " + letterColumns + " from (select * from {s}.letter" + c.where() + " offset 0) l" + l.order + " limit ?"
	return query{numbered(text), append(c.args, n)}
}

// Letter returns one whole, or ErrNotFound.
func (s *Store) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	var letter pawl.DeadLetter
	err := s.view(ctx, func(ctx context.Context, q querier) (err error) {
		var found bool
		letter, found, err = selectOne(ctx, q, scanWholeLetter, s.sql.desk.selectLetter, idValue(id))
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
func (s *Store) CountLetters(ctx context.Context, filter pawl.LetterFilter) (n int, err error) {
	list, err := newLetterQuery(filter)
	if err != nil {
		return 0, err
	}
	c := list.all()
	err = s.viewLetters(ctx, list, func(ctx context.Context, q querier) error {
		n, _, err = selectOne(ctx, q, scanValue[int], s.schema.text(numbered("select count(*) from {s}.letter"+c.where())), c.args...)
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
	found := false
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		found, err = s.forget(ctx, tx, id, by)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("forget letter %s: %w", id, err)
	}
	return found, nil
}

func (s *Store) forget(ctx context.Context, tx pgx.Tx, id pawl.ID, by pawl.By) (bool, error) {
	fates, err := s.lockFates(ctx, tx, []pawl.ID{id})
	fate, found := fates[id]
	if err != nil || !found {
		return false, err
	}
	if err := s.removeLetters(ctx, tx, []pawl.ID{id}); err != nil {
		return false, err
	}
	_, err = s.writeAudit(ctx, tx, audited{by, pawl.AuditEntry{
		Action: pawl.ActionForget, Subject: id.String(), From: fate.Status.String(), To: "forgotten",
	}})
	return true, err
}

// removeLetters removes letters that are locked, and what hangs on them.
func (s *Store) removeLetters(ctx context.Context, tx pgx.Tx, ids []pawl.ID) error {
	if len(ids) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, statement := range []string{s.sql.desk.deleteAlerts, s.sql.desk.deleteEvidence, s.sql.desk.deleteLetter} {
		batch.Queue(statement, idList(ids))
	}
	return tx.SendBatch(ctx, batch).Close()
}
