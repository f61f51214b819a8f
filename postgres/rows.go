package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/rows"
)

// selectRows reads all rows of a query.
func selectRows[T any](ctx context.Context, q querier, scan func(rows pgx.Rows) (T, error), query string, args ...any) ([]T, error) {
	answer, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return rows.All(answer, scan)
}

// selectOne reads the first row of a query, if there is one.
func selectOne[T any](ctx context.Context, q querier, scan func(rows pgx.Rows) (T, error), query string, args ...any) (one T, found bool, err error) {
	return rows.First(selectRows(ctx, q, scan, query, args...))
}

// scanValue reads rows of a single column.
func scanValue[T any](rows pgx.Rows) (value T, err error) { return value, rows.Scan(&value) }

func scanID(rows pgx.Rows) (id idColumn, err error) { return id, rows.Scan(&id) }

// column gathers one column of many rows into an argument.
func column[R, C any](rows []R, of func(row *R) C) []C {
	out := make([]C, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}

// timeValue is a time as an argument; the zero time is null.
func timeValue(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// timeColumn reads a time; null is the zero time.
type timeColumn time.Time

// ScanTimestamptz takes what pgx has decoded.
func (c *timeColumn) ScanTimestamptz(v pgtype.Timestamptz) error {
	*c = timeColumn{}
	if v.Valid {
		*c = timeColumn(v.Time.UTC())
	}
	return nil
}

// smallColumn reads a small number.
type smallColumn[T ~uint8] struct{ to *T }

// ScanInt64 takes what pgx has decoded.
func (c smallColumn[T]) ScanInt64(v pgtype.Int8) error {
	*c.to = T(v.Int64)
	return nil
}

// jsonColumn reads JSON into what it points at.
type jsonColumn struct{ to any }

// ScanText takes what pgx has decoded.
func (c jsonColumn) ScanText(v pgtype.Text) error {
	if !v.Valid {
		return nil
	}
	return json.Unmarshal([]byte(v.String), c.to)
}

// columns are how rows are read that both SQL stores have; anyTime and anyID are how they are written.
var columns = desk.Columns{
	ID:   func(id *pawl.ID) any { return (*idColumn)(id) },
	Time: func(t *time.Time) any { return (*timeColumn)(t) },
	JSON: func(to any) any { return jsonColumn{to} },
}

func anyTime(t time.Time) any { return timeValue(t) }
func anyID(id pawl.ID) any    { return idValue(id) }
