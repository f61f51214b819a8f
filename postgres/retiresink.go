package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	registerSinks = `insert into {s}.sink (name) select n from unnest($1::text[]) n
where not exists (select 1 from {s}.sink s where s.name = n and s.retired_at is null and s.seen_at >= now() - $2::interval)
on conflict (name) do update set seen_at = now(), retired_at = null`

	anyStaleSink = `select exists (select 1 from {s}.sink where retired_at is null and seen_at < now() - $1::interval)`
	selectInfos  = `select info from {s}.session where ended_at is null`

	// A row that a claim of alerts holds is left for the next sweep.
	noteSinks = `with held as (
  select name from {s}.sink where retired_at is null and seen_at < now() - $2::interval and name = any ($1::text[])
  order by name for update skip locked
)
update {s}.sink s set seen_at = now() from held where s.name = held.name`

	retireSinks = `with unseen as (
  select name from {s}.sink where retired_at is null and seen_at < now() - $1::interval
    and exists (select 1 from {s}.session where id = $2 and ended_at is null and opened_at <= now() - $3::interval)
  order by name for update skip locked
)
update {s}.sink s set retired_at = now() from unseen where s.name = unseen.name
returning s.name, (select count(*) from {s}.alert where sink = s.name and message is null)
  + (select coalesce(sum(letters), 0) from {s}.message where sink = s.name and due_at is not null)`
)

// retireSinks notes which sinks hosts have, and retires those that none has had for long. What one was not told of is kept,
// for a host that brings it back.
func (s *Store) retireSinks(ctx context.Context, session pawl.SessionID) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		infos, err := selectRows(ctx, tx, scanValue[string], s.sql.desk.selectInfos)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.sql.desk.noteSinks, desk.SinksOf(infos), desk.SinkNoted); err != nil {
			return fmt.Errorf("note sinks: %w", err)
		}
		retired, err := selectRows(ctx, tx, func(rows pgx.Rows) (a audited, err error) {
			var sink string
			var undelivered int
			err = rows.Scan(&sink, &undelivered)
			a.by, a.entry = desk.RetiredEntry(sink, undelivered)
			return a, err
		}, s.sql.desk.retireSinks, desk.SinkUnseen, int64(session), desk.SinkWatch)
		if err != nil {
			return err
		}
		_, err = s.writeAudit(ctx, tx, retired...)
		return err
	})
}
