package side

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl/bench/internal/child"
)

// emptyClient is what any program with a database has: a pool of connections, each used once.
type emptyClient struct{ pool *pgxpool.Pool }

// emptyConns is as many as Pawl's store has by default.
const emptyConns = 4

func openEmpty(ctx context.Context, task child.Task) (Client, error) {
	config, err := pgxpool.ParseConfig(task.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = emptyConns, emptyConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	conns := make([]*pgxpool.Conn, emptyConns)
	for i := range conns {
		if conns[i], err = pool.Acquire(ctx); err == nil {
			defer conns[i].Release()
			_, err = conns[i].Exec(ctx, `select 1 where $1 = 1`, 1)
		}
		if err != nil {
			return nil, err
		}
	}
	return &emptyClient{pool}, nil
}

func (c *emptyClient) Insert(context.Context, []Job) error { return errUnsupported }

func (c *emptyClient) Work(ctx context.Context, _ Handler) error {
	<-ctx.Done()
	return nil
}

func (c *emptyClient) Close() { c.pool.Close() }
