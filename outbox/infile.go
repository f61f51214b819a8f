package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"

	"github.com/pawljobs/pawl/internal/execer"
	"github.com/pawljobs/pawl/internal/guest"
)

// exchangeInFile chooses in the program what PostgreSQL chooses by itself. The write lock keeps everybody else out.
func (c *core) exchangeInFile(ctx context.Context, settled []settlement, r *claimRequest) (b batch, lost int, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		if err := execer.OnSQL(tx).Do(ctx, c.settleSteps(settled, &lost)...); err != nil || r == nil {
			return err
		}
		held, err := c.leasesInFile(ctx, tx, r)
		if err != nil {
			return err
		}
		if err := c.chooseInFile(ctx, tx, r, held, &b); err != nil || len(b.rows) == 0 {
			return err
		}
		first, last := b.rows[0].seq, b.rows[len(b.rows)-1].seq
		_, err = guest.One(ctx, tx, c.texts.lease, []any{r.connection, first, last, r.owner, r.lease.Milliseconds()}, &b.lease)
		return err
	})
	return b, lost, err
}

// leasesInFile ends the leases that are over, and returns those that hold what a claim could reach.
func (c *core) leasesInFile(ctx context.Context, tx guest.Tx, r *claimRequest) (held []span, err error) {
	expired := false
	err = guest.Rows(ctx, tx, c.texts.leases, []any{r.connection}, func(answer *sql.Rows) error {
		var s span
		over := false
		err := answer.Scan(&s.first, &s.last, &over)
		expired = expired || over
		if !over && s.last > r.after {
			held = append(held, s)
		}
		return err
	})
	if err == nil && expired {
		err = execer.OnSQL(tx).Do(ctx, c.expireSteps(r)...)
	}
	return held, err
}

func (c *core) chooseInFile(ctx context.Context, tx guest.Tx, r *claimRequest, held []span, b *batch) error {
	query := c.texts.claimFree
	if len(held) > 0 {
		query = c.texts.claim
	}
	bytes, before := 0, int64(0)
	return guest.Rows(ctx, tx, query, []any{r.connection, r.after, r.limit}, func(answer *sql.Rows) error {
		row, err := scanRowInFile(answer)
		if err != nil {
			return err
		}
		suspect := row.lost >= aloneAfter
		switch {
		case len(b.rows) == 0 && before == 0:
			before = wallBehind(row.seq, held)
		case row.seq > before:
			return guest.ErrEnough
		case suspect:
			return nil
		}
		b.rows = append(b.rows, row)
		if bytes += len(row.envelope); suspect || bytes > claimBytes {
			return guest.ErrEnough
		}
		return nil
	})
}

// wallBehind is where the next lease behind a message begins.
func wallBehind(seq int64, held []span) int64 {
	wall := int64(math.MaxInt64)
	for _, s := range held {
		if s.first > seq {
			wall = min(wall, s.first)
		}
	}
	return wall
}

// rare is what few messages have.
type rare struct {
	Attempts  int    `json:"attempts"` // claims that ended and count
	Lost      int    `json:"lost"`
	LastError string `json:"last_error"`
	RunAt     int64  `json:"run_at"`
	Delay     int64  `json:"delay"`
}

func scanRowInFile(answer *sql.Rows) (*row, error) {
	r := &row{}
	var created int64
	var few rare
	var text sql.RawBytes
	err := answer.Scan(&r.seq, (*idColumn)(&r.id), &created, &r.envelope, &text)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &few)
	}
	r.attempts, r.lost, r.lastError = few.Attempts+1, few.Lost, few.LastError
	r.setTimes(created, few.RunAt, few.Delay)
	return r, err
}
