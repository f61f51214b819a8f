package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
)

// Alerts of tables that know no messages yet go on as they were.
func TestAlertsOfOlderTables(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	for i, text := range texts[:2] {
		run(text)
		run(`insert into pawl_schema (version, applied_at) values (?, 1)`, i+1)
	}
	run(`insert into pawl_sink (name) values ('mail')`)
	var ids []pawl.ID
	for range 3 {
		id := pawl.NewID()
		ids = append(ids, id)
		run(`insert into pawl_letter (id, dead_at, class, reason, fingerprint, kind, queue, connection, correlation_id, tags, exception_type,
			attempts, source_message, host, server, version, message) values (?, 1, 1, '', 'f', 'k', 'q', 'c', '', '[]', '', 1, '', '', '', '', '')`, id[:])
	}
	alert := `insert into pawl_alert (letter, sink, key, attempt, due_at, delivered_at, error) values (?, 'mail', ?, ?, ?, ?, ?)`
	run(alert, ids[0][:], "fresh", 0, 1, nil, "")
	run(alert, ids[1][:], "failed", 2, 1, nil, "451")
	run(alert, ids[2][:], "sent", 1, nil, 2, "")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
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
