package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
)

// step is one statement, and what is done with each row of its answer.
type step struct {
	sql  string
	args []any
	row  func(scan func(targets ...any) error) error // nil: there are none
}

// execer runs steps one after the other, in one round trip where it can: those that enqueue jobs, in a transaction of
// the store's or of a caller's, whatever its driver.
type execer interface {
	do(ctx context.Context, steps ...step) error
}

// PgxTx is what Store.Tx asks of a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// onPgx runs steps on a connection, where they are one transaction, or in a transaction, of pgx.
type onPgx struct{ PgxTx }

func (x onPgx) do(ctx context.Context, steps ...step) error {
	if len(steps) == 1 && steps[0].row == nil {
		_, err := x.Exec(ctx, steps[0].sql, steps[0].args...)
		return err
	}
	batch := &pgx.Batch{}
	for _, one := range steps {
		batch.Queue(one.sql, one.args...)
	}
	results := x.SendBatch(ctx, batch)
	for _, one := range steps {
		if err := one.read(results); err != nil {
			return errors.Join(err, ignoreSame(err, results.Close()))
		}
	}
	return results.Close()
}

// ignoreSame leaves out an error that was reported already.
func ignoreSame(reported, err error) error {
	if err != nil && err.Error() == reported.Error() {
		return nil
	}
	return err
}

func (t step) read(results pgx.BatchResults) error {
	if t.row == nil {
		_, err := results.Exec()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := t.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// SQLTx is what Store.SQLTx asks of a transaction: *sql.Tx has it, and so have the transactions of sqlx, bun, and gorm's
// ConnPool.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// onSQL runs steps through database/sql. Lists go as text, which every driver can send.
type onSQL struct{ SQLTx }

func (x onSQL) do(ctx context.Context, steps ...step) error {
	for _, one := range steps {
		if err := x.one(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (x onSQL) one(ctx context.Context, one step) error {
	args := make([]any, len(one.args))
	for i, arg := range one.args {
		args[i] = plain(arg)
	}
	if one.row == nil {
		_, err := x.ExecContext(ctx, one.sql, args...)
		return err
	}
	rows, err := x.QueryContext(ctx, one.sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := one.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// plain turns a list into the text of an array.
func plain(arg any) any {
	switch list := arg.(type) {
	case idList:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(hex.EncodeToString(list[i][:])) })
	case []int16:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.Itoa(int(list[i]))) })
	case []int32:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.Itoa(int(list[i]))) })
	case []int64:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.FormatInt(list[i], 10)) })
	case [][]byte:
		return array(len(list), func(b *strings.Builder, i int) {
			b.WriteString(`"\\x`)
			b.WriteString(hex.EncodeToString(list[i]))
			b.WriteByte('"')
		})
	}
	return arg
}

func array(n int, element func(b *strings.Builder, i int)) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		element(&b, i)
	}
	b.WriteByte('}')
	return b.String()
}

// idList is an array of uuid. The zero id is sent as it is: statements read it as null.
type idList []pawl.ID

func (l idList) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(l)), LowerBound: 1}}
}
func (l idList) Index(i int) any { return [16]byte(l[i]) }
func (l idList) IndexType() any  { return [16]byte{} }

// idColumn reads an id; null is the zero id.
type idColumn pawl.ID

// ScanUUID reads what pgx has decoded.
func (c *idColumn) ScanUUID(v pgtype.UUID) error {
	*c = idColumn(v.Bytes)
	return nil
}

// Scan reads what other drivers hand over: the text.
func (c *idColumn) Scan(value any) error {
	var text string
	switch value := value.(type) {
	case nil:
		*c = idColumn{}
		return nil
	case string:
		text = value
	case []byte:
		text = string(value)
	default:
		return fmt.Errorf("stored id has type %T", value)
	}
	id, err := pawl.ParseID(text)
	*c = idColumn(id)
	return err
}

// idValue is an id as an argument; the zero id is null.
func idValue(id pawl.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }
