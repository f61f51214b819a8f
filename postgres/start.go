package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

const (
	// The mark is the token of the reservation that left it first: a give-back wipes its own mark and keeps an earlier
	// one. Nothing of a session that has ended is marked.
	markStarted = `update {s}.job j set started = coalesce(j.started, j.claim) from unnest($2::uuid[], $3::bigint[]) t (id, claim)
where j.id = t.id and j.claim = t.claim and j.holder = $1
  and exists (select 1 from {s}.session where id = $1 and ended_at is null) returning j.id`

	writeVerdicts = `with owned as (
  update {s}.job j set flags = j.flags | 4 from unnest($2::uuid[], $3::bigint[], $4::text[]) t (id, claim, letter)
  where j.id = t.id and j.claim = t.claim and j.holder = $1
    and exists (select 1 from {s}.session where id = $1 and ended_at is null) returning j.id, t.letter
)
insert into {s}.verdict (job_id, letter) select id, letter from owned
on conflict (job_id) do update set letter = excluded.letter returning job_id`
)

// Start writes the start marks of jobs that must not run twice.
func (s *Store) Start(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation) ([]error, error) {
	results, err := s.fenced(ctx, s.sql.markStarted, session, reservations)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return results, nil
}

// Condemn keeps the letters of deaths that could not be recorded with their jobs.
func (s *Store) Condemn(ctx context.Context, session pawl.SessionID, deaths []pawl.Settlement) ([]error, error) {
	latest := map[pawl.Reservation]string{}
	all := make([]pawl.Reservation, len(deaths))
	for i, death := range deaths {
		if death.Letter == nil || death.Letter.ID.IsZero() {
			return nil, fmt.Errorf("condemn job %s: %w", death.ID, errNoLetter())
		}
		letter := *death.Letter
		letter.Envelope = nil // the job has it
		text, err := json.Marshal(letter)
		if err != nil {
			return nil, fmt.Errorf("condemn job %s: %w", death.ID, err)
		}
		latest[death.Reservation], all[i] = string(text), death.Reservation
	}
	var once []pawl.Reservation
	var letters []string
	for _, reservation := range slices.SortedFunc(maps.Keys(latest), byID) {
		once, letters = append(once, reservation), append(letters, latest[reservation])
	}
	answers, err := s.fenced(ctx, s.sql.writeVerdicts, session, once, letters)
	if err != nil {
		return nil, fmt.Errorf("condemn: %w", err)
	}
	errs := make(map[pawl.Reservation]error, len(once))
	for i, reservation := range once {
		errs[reservation] = answers[i]
	}
	results := make([]error, len(deaths))
	for i, reservation := range all {
		results[i] = errs[reservation]
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results, nil
}

// fenced runs a statement that returns the ids of the reservations that it worked for. The others are lost. Arguments beside the
// reservations are in the order of their ids.
func (s *Store) fenced(ctx context.Context, statement string, session pawl.SessionID, reservations []pawl.Reservation, more ...any) ([]error, error) {
	if len(reservations) == 0 {
		return nil, nil
	}
	ids, claims := reservationLists(slices.SortedFunc(slices.Values(reservations), byID))
	args := append([]any{int64(session), ids, claims}, more...)
	there := make(map[pawl.ID]bool, len(ids))
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		clear(there)
		rows, err := conn.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		var id idColumn
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			there[pawl.ID(id)] = true
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]error, len(reservations))
	for i, r := range reservations {
		if !there[r.ID] {
			results[i] = pawl.LeaseLost(r)
		}
	}
	return results, nil
}
