package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectSinkHost = `select name from pawl_session where ended_at is null and beat_at > ?2
and exists (select 1 from json_each(iif(json_valid(info), info, '{}'), '$.Sinks') where value = ?1) limit 1`

	deleteSink = `delete from pawl_sink where name = ?1`

	dropFreshAlerts = `delete from pawl_alert where sink = ?1 and message is null`
	dropToldAlerts  = `delete from pawl_alert where message in (select id from pawl_message where sink = ?1 and due_at is not null)`
	dropMessages    = `delete from pawl_message where sink = ?1 and due_at is not null`
)

// ForgetSink takes a sink off the register, with what it was not told of.
func (s *Store) ForgetSink(ctx context.Context, sink string, by pawl.By) (undelivered int, err error) {
	if err := desk.CheckBy(by); err != nil {
		return 0, err
	}
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		undelivered, err = forgetSink(ctx, w, sink, now())
		if err != nil {
			return err
		}
		_, err = writeAudit(ctx, w, now(), by, desk.ForgottenEntry(sink, undelivered))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget sink: %w", err)
	}
	return undelivered, nil
}

func forgetSink(ctx context.Context, x execer, sink string, at int64) (undelivered int, err error) {
	host, used, err := selectOne(ctx, x, scanValue[string], selectSinkHost, sink, at-desk.SinkSilence.Milliseconds())
	if err != nil {
		return 0, err
	}
	if used {
		return 0, desk.SinkInUse(sink, host)
	}
	n, err := change(ctx, x, deleteSink, sink)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, desk.NoSink(sink)
	}
	for _, text := range []string{dropFreshAlerts, dropToldAlerts} {
		n, err := change(ctx, x, text, sink)
		if err != nil {
			return 0, err
		}
		undelivered += int(n)
	}
	_, err = x.ExecContext(ctx, dropMessages, sink)
	return undelivered, err
}
