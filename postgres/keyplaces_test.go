package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The lock of every key is a row, and each a row of its own.
func TestEveryLockHasItsRow(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	places := make(tidList, 1<<18)
	for lock := range places {
		places[lock] = lockPlace(uint32(lock), s.pageSize)
	}
	var wrong, rows int
	err := s.run(t.Context(), func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.schema.text(`select count(*) filter (where l.slot is distinct from u.n - 1), count(*)
			from unnest($1::tid[]) with ordinality u (place, n) left join {s}.key_lock l on l.ctid = u.place`), places).Scan(&wrong, &rows)
	})
	if err != nil || wrong > 0 || rows != len(places) {
		t.Fatalf("%d of %d rows do not lie where they are looked for; %v", wrong, rows, err)
	}
}
