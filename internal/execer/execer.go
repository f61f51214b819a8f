// Package execer runs statements for PostgreSQL in a transaction of somebody else's, whatever driver began it: pgx, or
// anything with the methods of database/sql.
package execer

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

// Step is one statement, and what is done with each row of its answer.
type Step struct {
	SQL  string
	Args []any
	Row  func(scan func(targets ...any) error) error // nil: there are none
	// Changed, unless nil, is told how many rows a statement without Row has changed.
	Changed func(rows int64)
}

// Execer runs steps one after the other, in one round trip where it can.
type Execer interface {
	Do(ctx context.Context, steps ...Step) error
}

// PgxTx is what is asked of a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// OnPgx runs steps on a connection, where they are one transaction, or in a transaction, of pgx.
func OnPgx(tx PgxTx) Execer { return onPgx{tx} }

type onPgx struct{ PgxTx }

// Do sends them as one batch.
func (x onPgx) Do(ctx context.Context, steps ...Step) error {
	if len(steps) == 1 && steps[0].Row == nil {
		tag, err := x.Exec(ctx, steps[0].SQL, steps[0].Args...)
		return steps[0].tell(tag.RowsAffected(), err)
	}
	batch := &pgx.Batch{}
	for _, one := range steps {
		batch.Queue(one.SQL, one.Args...)
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

func (t Step) tell(changed int64, err error) error {
	if err == nil && t.Changed != nil {
		t.Changed(changed)
	}
	return err
}

func (t Step) read(results pgx.BatchResults) error {
	if t.Row == nil {
		tag, err := results.Exec()
		return t.tell(tag.RowsAffected(), err)
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := t.Row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// SQLTx is what is asked of a transaction of database/sql: *sql.Tx has it, and so have the transactions of sqlx, bun, and
// gorm's ConnPool.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// OnSQL runs steps through database/sql. Lists go as text, which every driver can send.
func OnSQL(tx SQLTx) Execer { return onSQL{tx} }

type onSQL struct{ SQLTx }

// Do runs them one by one.
func (x onSQL) Do(ctx context.Context, steps ...Step) error {
	for _, one := range steps {
		if err := x.one(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (x onSQL) one(ctx context.Context, one Step) error {
	args := make([]any, len(one.Args))
	for i, arg := range one.Args {
		args[i] = plain(arg)
	}
	if one.Row == nil {
		result, err := x.ExecContext(ctx, one.SQL, args...)
		if err != nil || one.Changed == nil {
			return err
		}
		changed, err := result.RowsAffected()
		return one.tell(changed, err)
	}
	rows, err := x.QueryContext(ctx, one.SQL, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := one.Row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// plain turns a list into the text of an array.
func plain(arg any) any {
	switch list := arg.(type) {
	case IDs:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(hex.EncodeToString(list[i][:])) })
	case []int16:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.Itoa(int(list[i]))) })
	case []int32:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.Itoa(int(list[i]))) })
	case []int64:
		return array(len(list), func(b *strings.Builder, i int) { b.WriteString(strconv.FormatInt(list[i], 10)) })
	case TIDs:
		return array(len(list), func(b *strings.Builder, i int) {
			fmt.Fprintf(b, `"(%d,%d)"`, list[i].BlockNumber, list[i].OffsetNumber)
		})
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

// TIDs are an array of tid, places of rows.
type TIDs []pgtype.TID

// IDs are an array of uuid. The zero id is sent as it is: statements read it as null.
type IDs []pawl.ID

func (l IDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(l)), LowerBound: 1}}
}
func (l IDs) Index(i int) any { return [16]byte(l[i]) }
func (l IDs) IndexType() any  { return [16]byte{} }

// IDColumn reads an id; null is the zero id.
type IDColumn pawl.ID

// ScanUUID reads what pgx has decoded.
func (c *IDColumn) ScanUUID(v pgtype.UUID) error {
	*c = IDColumn(v.Bytes)
	return nil
}

// Scan reads what other drivers hand over: the text.
func (c *IDColumn) Scan(value any) error {
	var text string
	switch value := value.(type) {
	case nil:
		*c = IDColumn{}
		return nil
	case string:
		text = value
	case []byte:
		text = string(value)
	default:
		return fmt.Errorf("stored id has type %T", value)
	}
	id, err := pawl.ParseID(text)
	*c = IDColumn(id)
	return err
}

// IDValue is an id as an argument; the zero id is null.
func IDValue(id pawl.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }
