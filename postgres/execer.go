package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// PgxTx is what Store.Tx asks of a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// SQLTx is what Store.SQLTx asks of a transaction: *sql.Tx has it, and so have the transactions of sqlx, bun, and gorm's
// ConnPool.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Statements that enqueue jobs run in a transaction of the store's or of a caller's.
type (
	step     = execer.Step
	idList   = execer.IDs
	idColumn = execer.IDColumn
	tidList  = execer.TIDs
)

// idValue is an id as an argument; the zero id is null.
func idValue(id pawl.ID) pgtype.UUID { return execer.IDValue(id) }
