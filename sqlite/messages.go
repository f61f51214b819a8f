package sqlite

import (
	"context"
	"database/sql"

	"github.com/pawljobs/pawl"
)

const (
	selectFresh = `select a.id, a.letter, l.dead_at from pawl_alert a join pawl_letter l on l.id = a.letter
where a.sink = ? and a.message is null order by a.id limit ?`

	insertMessage = `insert into pawl_message (sink, key, letters, since_at, due_at) values (?, ?, ?, ?, ?) returning id`

	assignOne   = `update pawl_alert set message = ? where id = ?`
	assignFresh = `update pawl_alert set message = ? where sink = ? and message is null`

	// Messages that have failed too often to be sent by themselves. One whose last outcome is unknown is not among them.
	exhausted = `sink = ?1 and due_at is not null and token is null and attempt >= ?2`

	selectExhausted = `select count(*), coalesce(sum(letters), 0), coalesce(max(attempt), 0), coalesce(min(due_at), 0),
  coalesce((select error from pawl_message where ` + exhausted + ` order by due_at desc limit 1), '')
from pawl_message where ` + exhausted

	openMembers = `from pawl_alert a join pawl_letter l on l.id = a.letter
where a.message in (select id from pawl_message where ` + exhausted + `) and l.status + 0 in (0, 1)`  // the sum keeps the index on states out of it: it has every open letter

	countOpenMembers = `select count(*), coalesce(min(l.dead_at), 0) ` + openMembers
	moveOpenMembers  = `update pawl_alert set message = ?3 where id in (select a.id ` + openMembers + `)`
	endExhausted     = `update pawl_message set due_at = null, letters = (select count(*) from pawl_alert a where a.message = pawl_message.id)
where ` + exhausted
	dropEmpty     = `delete from pawl_message where sink = ?1 and letters = 0`
	insertAttempt = `insert into pawl_message (sink, key, letters, since_at, attempt, error) values (?, ?, ?, ?, ?, ?) returning id`

	selectMember = `select a.regression, ` + letterColumns + ` from pawl_alert a join pawl_letter l on l.id = a.letter where a.message = ?`

	selectGroups = `with member as (
  select l.id, a.regression, l.fingerprint, l.dead_at from pawl_alert a join pawl_letter l on l.id = a.letter where a.message = ?1
), grouped as (
  select id, count(*) over w as deaths, min(dead_at) over w as first_at, max(dead_at) over w as last_at, max(regression) over w as regression,
    row_number() over (partition by fingerprint order by dead_at, id) as place
  from member window w as (partition by fingerprint)
), top as (
  select *, count(*) over () as groups, min(first_at) over () as begun_at, max(last_at) over () as ended_at, max(regression) over () as relapse
  from grouped where place = 1 order by deaths desc, first_at, id limit ?2
)
select t.deaths, t.first_at, t.last_at, t.regression, t.groups, t.begun_at, t.ended_at, t.relapse, ` + letterColumns + `
from top t join pawl_letter l on l.id = t.id order by t.deaths desc, t.first_at, t.id`
)

// message makes one that is due.
func (a alerting) message(ctx context.Context, sink, key string, letters int, since int64) (int64, error) {
	id, _, err := selectOne(ctx, a.x, scanValue[int64], insertMessage, sink, key, letters, since, a.at)
	return id, err
}

type freshAlert struct {
	row    int64
	letter pawl.ID
	deadAt int64
}

func (a alerting) fresh(ctx context.Context, sink string, most int) ([]freshAlert, error) {
	return selectRows(ctx, a.x, func(rows *sql.Rows) (f freshAlert, err error) {
		return f, rows.Scan(&f.row, (*idColumn)(&f.letter), &f.deadAt)
	}, selectFresh, sink, most)
}

// singles makes messages of their own for so many fresh deaths.
func (a alerting) singles(ctx context.Context, sink string, most int) error {
	found, err := a.fresh(ctx, sink, most)
	if err != nil {
		return err
	}
	for _, f := range found {
		id, err := a.message(ctx, sink, f.letter.String()+"/"+sink, 1, f.deadAt)
		if err != nil {
			return err
		}
		if _, err := a.x.ExecContext(ctx, assignOne, id, f.row); err != nil {
			return err
		}
	}
	return nil
}

// digest makes one message of all fresh deaths.
func (a alerting) digest(ctx context.Context, sink string) error {
	first, err := a.fresh(ctx, sink, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	id, err := a.message(ctx, sink, pawl.NewID().String()+"/"+sink, 0, first[0].deadAt)
	if err != nil {
		return err
	}
	n, err := change(ctx, a.x, assignFresh, id, sink)
	if err != nil {
		return err
	}
	_, err = a.x.ExecContext(ctx, `update pawl_message set letters = ? where id = ?`, n, id)
	return err
}

// gather makes one digest of the messages that have failed too often, once one of them is due. Letters that were closed
// are left out, and stay with the message that they were in, which has ended.
func (a alerting) gather(ctx context.Context, sink string) error {
	var messages, letters, attempt, open int
	var due, since int64
	var failure string
	args := []any{sink, pawl.AlertTries}
	_, _, err := selectOne(ctx, a.x, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(&messages, &letters, &attempt, &due, &failure)
	}, selectExhausted, args...)
	if err != nil || messages == 0 || due > a.at {
		return err
	}
	_, _, err = selectOne(ctx, a.x, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(&open, &since)
	}, countOpenMembers, args...)
	if err != nil || messages == 1 && open == letters {
		return err // it is repeated as it is
	}
	var id int64
	if open > 0 {
		id, _, err = selectOne(ctx, a.x, scanValue[int64], insertAttempt, sink, pawl.NewID().String()+"/"+sink, open, since, attempt, failure)
		if err != nil {
			return err
		}
		if _, err := a.x.ExecContext(ctx, moveOpenMembers, append(args, id)...); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{endExhausted, args},
		{dropEmpty, args[:1]},
		{`update pawl_message set due_at = ? where id = ?`, []any{a.at, id}},
	} {
		if _, err := a.x.ExecContext(ctx, step.statement, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// tell reads what a message says.
func (a alerting) tell(ctx context.Context, task *pawl.AlertTask, letters int) error {
	if letters == 1 {
		letter, _, err := selectOne(ctx, a.x, func(rows *sql.Rows) (l pawl.DeadLetter, err error) {
			return l, rows.Scan(append([]any{&task.Regression}, letterTargets(&l)...)...)
		}, selectMember, task.Row)
		task.Letters = []pawl.DeadLetter{letter}
		return err
	}
	digest := &pawl.Digest{Deaths: letters}
	var groups int
	found, err := selectRows(ctx, a.x, func(rows *sql.Rows) (l pawl.DeadLetter, err error) {
		var g pawl.AlertGroup
		targets := []any{
			&g.Deaths, (*timeColumn)(&g.First), (*timeColumn)(&g.Last), &g.Regression,
			&groups, (*timeColumn)(&digest.First), (*timeColumn)(&digest.Last), &task.Regression,
		}
		err = rows.Scan(append(targets, letterTargets(&l)...)...)
		digest.Groups = append(digest.Groups, g)
		return l, err
	}, selectGroups, task.Row, pawl.DigestGroups)
	task.Letters, task.Digest, digest.More = found, digest, groups-len(found)
	return err
}
