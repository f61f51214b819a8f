package demo

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/pawljobs/pawl"
	_ "modernc.org/sqlite" // the driver
)

// ledger is the business's own part of the database file: who signed up, and which mails are known to be sent. Pawl's
// tables live beside its own, so that a sign-up and its jobs are one transaction.
type ledger struct{ db *sql.DB }

const ledgerTables = `
create table if not exists demo_signup (id text primary key, email text not null, name text not null, role text not null) strict;
create table if not exists demo_mail_sent (mail text primary key, sent_at integer not null) strict;
create table if not exists demo_finished (at integer not null) strict;`

func openLedger(ctx context.Context, path string) (*ledger, error) {
	q := url.Values{"_txlock": {"immediate"}}
	for _, pragma := range []string{"busy_timeout(20000)", "journal_mode(wal)", "synchronous(full)"} {
		q.Add("_pragma", pragma)
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, ledgerTables); err != nil {
		return nil, errors.Join(fmt.Errorf("make ledger tables: %w", err), db.Close())
	}
	return &ledger{db}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// signUp finds one by its id; one that is not there will not be there later either.
func (l *ledger) signUp(ctx context.Context, id string) (signUp, error) {
	s := signUp{ID: id}
	err := l.db.QueryRowContext(ctx, `select email, name, role from demo_signup where id = ?`, id).Scan(&s.Email, &s.Name, &s.Role)
	if errors.Is(err, sql.ErrNoRows) {
		return signUp{}, pawl.Permanent(fmt.Errorf("no sign-up has the id %q", id))
	}
	if err != nil {
		return signUp{}, fmt.Errorf("read sign-up: %w", err)
	}
	return s, nil
}

// isSent reports whether a mail is recorded as sent.
func (l *ledger) isSent(ctx context.Context, mail string) (bool, error) {
	n, err := l.number(ctx, `select count(*) from demo_mail_sent where mail = ?`, mail)
	if err != nil {
		return false, fmt.Errorf("look for sent mail: %w", err)
	}
	return n > 0, nil
}

// recordSent marks a mail as sent, in a transaction of its own.
func (l *ledger) recordSent(ctx context.Context, mail string) error {
	_, err := l.db.ExecContext(ctx, `insert into demo_mail_sent (mail, sent_at) values (?, ?) on conflict do nothing`,
		mail, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record mail as sent: %w", err)
	}
	return nil
}

// sentMails are the ids of all mails that are recorded as sent.
func (l *ledger) sentMails(ctx context.Context) (map[string]bool, error) {
	rows, err := l.db.QueryContext(ctx, `select mail from demo_mail_sent`)
	if err != nil {
		return nil, fmt.Errorf("list sent mails: %w", err)
	}
	defer rows.Close()
	sent := map[string]bool{}
	for rows.Next() {
		var mail string
		if err := rows.Scan(&mail); err != nil {
			return nil, fmt.Errorf("list sent mails: %w", err)
		}
		sent[mail] = true
	}
	return sent, rows.Err()
}

// signUps counts those whose jobs are enqueued.
func (l *ledger) signUps(ctx context.Context) (int, error) {
	n, err := l.number(ctx, `select count(*) from demo_signup`)
	if err != nil {
		return 0, fmt.Errorf("count sign-ups: %w", err)
	}
	return n, nil
}

// finished reports whether a run of this folder has ended by itself: from then on the downstream is healed.
func (l *ledger) finished(ctx context.Context) (bool, error) {
	n, err := l.number(ctx, `select count(*) from demo_finished`)
	if err != nil {
		return false, fmt.Errorf("look whether the run has finished: %w", err)
	}
	return n > 0, nil
}

func (l *ledger) recordFinished(ctx context.Context) error {
	if _, err := l.db.ExecContext(ctx, `insert into demo_finished (at) values (?)`, time.Now().UnixMilli()); err != nil {
		return fmt.Errorf("record the end of the run: %w", err)
	}
	return nil
}

func (l *ledger) number(ctx context.Context, query string, args ...any) (n int, err error) {
	err = l.db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// jobID is the id of a sign-up's job of one kind: always the same, so that whoever enqueues it again, after a crash
// for one, does not double it. The form is a UUID of version 8 over SHA-256 (RFC 9562, section 5.8).
func jobID(kind, signUp string) pawl.ID {
	sum := sha256.Sum256([]byte("pawl demo\x00" + kind + "\x00" + signUp))
	var id pawl.ID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
