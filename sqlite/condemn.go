package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
)

const writeVerdict = `insert into pawl_verdict (job_id, letter)
select id, ?4 from pawl_job where session = ?1 and token = ?2 and id = ?3
on conflict (job_id) do update set letter = excluded.letter`

// Condemn keeps the letters of deaths that could not be recorded with their jobs.
func (s *Store) Condemn(ctx context.Context, session pawl.SessionID, deaths []pawl.Settlement) ([]error, error) {
	verdicts := make([]string, len(deaths))
	reservations := make([]pawl.Reservation, len(deaths))
	for i, death := range deaths {
		if death.Letter == nil || death.Letter.ID.IsZero() {
			return nil, fmt.Errorf("condemn job %s: %w", death.ID, errNoLetter)
		}
		letter := *death.Letter
		letter.Envelope = nil // the job has it
		text, err := json.Marshal(letter)
		if err != nil {
			return nil, fmt.Errorf("condemn job %s: %w", death.ID, err)
		}
		verdicts[i], reservations[i] = string(text), death.Reservation
	}
	results, err := s.fenced(ctx, session, reservations, func(ctx context.Context, w *writer, i int) (int64, error) {
		r := reservations[i]
		return change(ctx, w, writeVerdict, int64(session), int64(r.Token), r.ID[:], verdicts[i])
	})
	if err != nil {
		return nil, fmt.Errorf("condemn: %w", err)
	}
	return results, nil
}
