package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

// A row that was damaged costs what is in it, and no other job its turn.

// damage is what a claim has found in a row.
type damage struct {
	job, what string
	err       error
	token     pawl.Token // of a row that is to be put aside
}

const badID = "a job cannot be run, since its stored id is damaged; its row is put aside for a day"

var errBadID = errors.New("an id has 16 bytes")

// noteDamage keeps what is to be logged when the claim has been committed, once for each job and matter.
func (c *claim) noteDamage(job pawl.ID, what string, err error) {
	d := damage{job: job.String(), what: what, err: err}
	if !slices.ContainsFunc(c.damage, func(known damage) bool { return known.job == d.job && known.what == d.what }) {
		c.damage = append(c.damage, d)
	}
}

const setAside = clear + `attempt = attempt - 1, run_at = ?3, ready_at = ?3 where session = ?1 and token = ?2`

// putAside moves rows out of the way that no reservation can name.
func (c *claim) putAside(ctx context.Context) error {
	for _, d := range c.damage {
		if d.token == 0 {
			continue
		}
		again := c.at + (24 * time.Hour).Milliseconds()
		if _, err := c.x.ExecContext(ctx, setAside, int64(c.request.Session), int64(d.token), again); err != nil {
			return err
		}
	}
	return nil
}

// maxRemains bounds what is kept of a letter that cannot be read, in bytes.
const maxRemains = 32 << 10

// substitute is the letter of a job whose own cannot be read: it has died, and what is left of why is kept.
func substitute(connection string, job pawl.ClaimedJob, text string, err error) *pawl.DeadLetter {
	dead := pawl.Dead{Class: pawl.DeathPoison, Reason: pawl.ReasonUndecodable}
	err = fmt.Errorf("the job has died before, and the letter that was kept with it cannot be read: %w", err)
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: connection}, job, dead, time.Time{}, err)
	letter.Detail += "\nwhat was kept:\n" + storable.Text(text, maxRemains)
	return &letter
}

// looseID reads an id of something that a row only refers to; a damaged one refers to nothing.
type looseID pawl.ID

func (c *looseID) Scan(value any) error {
	if (*idColumn)(c).Scan(value) != nil {
		*c = looseID{}
	}
	return nil
}
