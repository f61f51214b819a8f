package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
)

const writeVerdict = `insert into pawl_verdict (job_id, letter)
select id, ?4 from pawl_job where session = ?1 and token = ?2 and +id = ?3
on conflict (job_id) do update set letter = excluded.letter`

// Condemn keeps the letters of deaths that could not be recorded with their jobs.
func (s *Store) Condemn(ctx context.Context, session pawl.SessionID, deaths []pawl.Settlement) ([]error, error) {
	verdicts := make([]string, len(deaths))
	refusals := make([]error, len(deaths))
	reservations := make([]pawl.Reservation, len(deaths))
	for i, death := range deaths {
		reservations[i] = death.Reservation
		verdicts[i], refusals[i] = verdictOf(death)
	}
	results, err := s.fenced(ctx, session, reservations, func(ctx context.Context, w *writer, i int) (int64, error) {
		if refusals[i] != nil {
			return 0, nil
		}
		r := reservations[i]
		return change(ctx, w, writeVerdict, int64(session), int64(r.Token), r.ID[:], verdicts[i])
	})
	if err != nil {
		return nil, fmt.Errorf("condemn: %w", err)
	}
	for i, refusal := range refusals {
		if refusal != nil {
			results[i] = refusal
		}
	}
	return results, nil
}

// verdictOf is the letter as it is kept with its job, which has the envelope.
func verdictOf(death pawl.Settlement) (string, error) {
	if death.Letter == nil || death.Letter.ID.IsZero() {
		return "", fmt.Errorf("condemn job %s: %w", death.ID, errNoLetter)
	}
	letter := *death.Letter
	letter.Envelope = nil
	text, err := json.Marshal(letter)
	if err != nil {
		return "", fmt.Errorf("condemn job %s: %w", death.ID, err)
	}
	return string(text), nil
}
