package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

// Alerts of tables that know no messages yet go on as they were.
func TestAlertsOfOlderTables(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	texts, err := s.steps()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if err := script(t.Context(), tx, s.schema.text(`drop schema {s} cascade`)); err != nil {
			return err
		}
		return s.migrateTo(t.Context(), tx, texts[:3])
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := []pawl.ID{pawl.NewID(), pawl.NewID(), pawl.NewID()}
	for _, id := range ids {
		_, err := conn.Exec(t.Context(), s.schema.text(`insert into {s}.letter (id, dead_at, class, reason, fingerprint, kind, queue, connection,
			correlation_id, tags, exception_type, attempts, source_message, host, server, version, message)
			values ($1, now(), 1, '', 'f', 'k', 'q', 'c', '', '{}', '', 1, '', '', '', '', '')`), idValue(id))
		if err != nil {
			t.Fatal(err)
		}
	}
	s.fill(t, `insert into {s}.sink (name) values ('mail')`,
		`insert into {s}.alert (letter, sink, key, attempt, due_at, delivered_at, error) values
		('`+ids[0].String()+`', 'mail', 'fresh', 0, now(), null, ''), ('`+ids[1].String()+`', 'mail', 'failed', 2, now(), null, '451'),
		('`+ids[2].String()+`', 'mail', 'sent', 1, null, now(), '')`)
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return s.migrateTo(t.Context(), tx, texts) })
	if err != nil {
		t.Fatal(err)
	}

	sinks, err := s.Sinks(t.Context())
	if err != nil || len(sinks) != 1 || sinks[0].Pending != 2 || sinks[0].Delivered != 1 || sinks[0].LastError != "451" {
		t.Errorf("sinks %+v, %v", sinks, err)
	}
	tasks, err := s.ClaimAlerts(t.Context(), pawl.AlertClaim{Sinks: []string{"mail"}, Max: 9})
	if err != nil || len(tasks) != 2 || tasks[0].Key != "failed" || tasks[0].Attempt != 3 || tasks[1].Letters[0].ID != ids[0] {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	sent, err := s.AlertsOf(t.Context(), ids[2])
	if err != nil || len(sent) != 1 || sent[0].Pending || sent[0].Key != "sent" || sent[0].DeliveredAt.IsZero() {
		t.Errorf("alerts %+v, %v", sent, err)
	}
}
