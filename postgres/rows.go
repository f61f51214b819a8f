package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// timeValue is a time as an argument; the zero time is null.
func timeValue(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
