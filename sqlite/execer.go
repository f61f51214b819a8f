package sqlite

import (
	"context"
	"database/sql"
)

// execer runs statements in a transaction: the writer's, or one that a caller has begun on a driver of its own.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

var _ execer = (*writer)(nil)
