package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/rows"
)

// view runs reads that see one state of the file.
func (s *Store) view(ctx context.Context, read func(x execer) error) error {
	err := s.snapshot(ctx, read)
	if err == nil {
		return nil
	}
	select {
	case <-s.writer.quit:
		return pawl.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *Store) snapshot(ctx context.Context, read func(x execer) error) error {
	tx, err := s.reads.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = read(tx)
	if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) {
		err = errors.Join(err, rollbackErr)
	}
	return err
}

// selectRows reads all rows of a query.
func selectRows[T any](ctx context.Context, x execer, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	answer, err := x.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return rows.All(answer, scan)
}

// selectOne reads the first row of a query, if there is one.
func selectOne[T any](ctx context.Context, x execer, scan func(*sql.Rows) (T, error), query string, args ...any) (one T, found bool, err error) {
	return rows.First(selectRows(ctx, x, scan, query, args...))
}

// scanValue reads rows of a single column.
func scanValue[T any](rows *sql.Rows) (value T, err error) {
	return value, rows.Scan(&value)
}

// change runs a statement and returns how many rows it changed.
func change(ctx context.Context, x execer, statement string, args ...any) (int64, error) {
	result, err := x.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// idColumn reads an id; null is the zero id.
type idColumn pawl.ID

func (c *idColumn) Scan(value any) error {
	*c = idColumn{}
	switch value := value.(type) {
	case nil:
		return nil
	case []byte:
		if copy(c[:], value) == len(value) && len(value) == len(c) {
			return nil
		}
	}
	return fmt.Errorf("stored id has %T %v, not 16 bytes", value, value)
}

// idValue is an id as it is stored; the zero id is null.
func idValue(id pawl.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// timeColumn reads Unix milliseconds; null is the zero time.
type timeColumn time.Time

func (c *timeColumn) Scan(value any) error {
	switch value := value.(type) {
	case nil:
		*c = timeColumn{}
	case int64:
		*c = timeColumn(time.UnixMilli(value).UTC())
	default:
		return fmt.Errorf("stored time is a %T", value)
	}
	return nil
}

// timeValue is a time as it is stored; the zero time is null.
func timeValue(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// ceilMilli is the first stored time that is not before t.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// jsonColumn reads JSON into what it points at.
type jsonColumn struct{ to any }

func (c jsonColumn) Scan(value any) error {
	switch value := value.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(value), c.to)
	case []byte:
		return json.Unmarshal(value, c.to)
	}
	return fmt.Errorf("stored JSON is a %T", value)
}

// columns are how rows are read that both SQL stores have.
var columns = desk.Columns{
	ID:   func(id *pawl.ID) any { return (*idColumn)(id) },
	Time: func(t *time.Time) any { return (*timeColumn)(t) },
	JSON: func(to any) any { return jsonColumn{to} },
}
