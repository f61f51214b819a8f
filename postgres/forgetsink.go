package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectSinkHost = `select name from {s}.session where ended_at is null and beat_at > now() - $2::interval
and info::jsonb -> 'Sinks' @> to_jsonb($1::text) limit 1`

	deleteSink = `delete from {s}.sink where name = $1`

	dropFreshAlerts = `delete from {s}.alert where sink = $1 and message is null`
	dropToldAlerts  = `delete from {s}.alert where message in (select id from {s}.message where sink = $1 and due_at is not null)`
	dropMessages    = `delete from {s}.message where sink = $1 and due_at is not null`
)

// ForgetSink takes a sink off the register, with what it was not told of.
func (s *Store) ForgetSink(ctx context.Context, sink string, by pawl.By) (undelivered int, err error) {
	if err := desk.CheckBy(by); err != nil {
		return 0, err
	}
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		undelivered, err = s.forgetSink(ctx, tx, sink)
		if err != nil {
			return err
		}
		_, err = s.writeAudit(ctx, tx, audited{by, desk.ForgottenEntry(sink, undelivered)})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget sink: %w", err)
	}
	return undelivered, nil
}

func (s *Store) forgetSink(ctx context.Context, tx pgx.Tx, sink string) (undelivered int, err error) {
	host, used, err := selectOne(ctx, tx, scanValue[string], s.sql.desk.selectSinkHost, sink, desk.SinkSilence)
	if err != nil {
		return 0, err
	}
	if used {
		return 0, desk.SinkInUse(sink, host)
	}
	done, err := tx.Exec(ctx, s.sql.desk.deleteSink, sink) // waits for who claims for it
	if err != nil {
		return 0, err
	}
	if done.RowsAffected() == 0 {
		return 0, desk.NoSink(sink)
	}
	for _, text := range []string{s.sql.desk.dropFreshAlerts, s.sql.desk.dropToldAlerts} {
		done, err := tx.Exec(ctx, text, sink)
		if err != nil {
			return 0, err
		}
		undelivered += int(done.RowsAffected())
	}
	_, err = tx.Exec(ctx, s.sql.desk.dropMessages, sink)
	return undelivered, err
}
