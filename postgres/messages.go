package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

const (
	// Messages of their own for the $2 oldest fresh deaths. A row finds its message by the key.
	insertSingles = `with fresh as materialized (
  select a.id, a.letter || '/' || a.sink as key, l.dead_at from {s}.alert a join {s}.letter l on l.id = a.letter
  where a.sink = $1 and a.message is null order by a.id limit $2
), made as (
  insert into {s}.message (sink, key, letters, since_at, due_at) select $1::text, key, 1, dead_at, now() from fresh order by id returning id, key
)
update {s}.alert a set message = m.id from fresh f join made m on m.key = f.key where a.id = f.id`

	selectFirstFresh = `select l.dead_at from {s}.alert a join {s}.letter l on l.id = a.letter
where a.sink = $1 and a.message is null order by a.id limit 1`

	insertMessage = `insert into {s}.message (sink, key, letters, since_at, attempt, due_at, error)
values ($1, $2, $3, $4, $5, $6, $7) returning id`

	assignFresh = `update {s}.alert set message = $2 where sink = $1 and message is null`
	openMessage = `update {s}.message set due_at = now(), letters = $2 where id = $1`

	// Messages that have failed too often to be sent by themselves. One whose last outcome is unknown is not among them.
	exhausted = `sink = $1 and due_at is not null and token is null and attempt >= $2`

	selectExhausted = `select count(*), coalesce(sum(letters), 0), coalesce(max(attempt), 0), coalesce(bool_or(due_at <= now()), false),
  coalesce((array_agg(error order by due_at desc))[1], '')
from {s}.message where ` + exhausted

	openMembers = `from {s}.alert a join {s}.letter l on l.id = a.letter
where a.message in (select id from {s}.message where ` + exhausted + `) and l.status + 0 in (0, 1)`  // the sum keeps the index on states out of it: it has every open letter

	countOpenMembers = `select count(*), min(l.dead_at) ` + openMembers
	moveOpenMembers  = `update {s}.alert set message = $3 where id in (select a.id ` + openMembers + `)`
	endExhausted     = `update {s}.message m set due_at = null, letters = (select count(*) from {s}.alert a where a.message = m.id)
where ` + exhausted
	dropEmpty = `delete from {s}.message where sink = $1 and letters = 0`

	selectMember = `select a.regression, ` + letterColumns + ` from {s}.alert a join {s}.letter l on l.id = a.letter where a.message = $1`

	selectAlertGroups = `with member as (
  select l.id, a.regression, l.fingerprint, l.dead_at from {s}.alert a join {s}.letter l on l.id = a.letter where a.message = $1
), grouped as (
  select id, count(*) over w as deaths, min(dead_at) over w as first_at, max(dead_at) over w as last_at, bool_or(regression) over w as regression,
    row_number() over (partition by fingerprint order by dead_at, id) as place
  from member window w as (partition by fingerprint)
), top as (
  select *, count(*) over () as groups, min(first_at) over () as begun_at, max(last_at) over () as ended_at, bool_or(regression) over () as relapse
  from grouped where place = 1 order by deaths desc, first_at, id limit $2
)
select t.deaths, t.first_at, t.last_at, t.regression, t.groups, t.begun_at, t.ended_at, t.relapse, ` + letterColumns + `
from top t join {s}.letter l on l.id = t.id order by t.deaths desc, t.first_at, t.id`
)

func (a alerting) message(ctx context.Context, args ...any) (int64, error) {
	id, _, err := selectOne(ctx, a.tx, scanValue[int64], a.store.sql.desk.insertMessage, args...)
	return id, err
}

// digest makes one message of all fresh deaths.
func (a alerting) digest(ctx context.Context, sink string) error {
	d := a.store.sql.desk
	since, found, err := selectOne(ctx, a.tx, scanTime, d.selectFirstFresh, sink)
	if err != nil || !found {
		return err
	}
	id, err := a.message(ctx, sink, pawl.NewID().String()+"/"+sink, 0, timeValue(time.Time(since)), 0, nil, "")
	if err != nil {
		return err
	}
	n, err := a.exec(ctx, d.assignFresh, sink, id)
	if err == nil {
		_, err = a.exec(ctx, d.openMessage, id, n)
	}
	return err
}

func scanTime(rows pgx.Rows) (t timeColumn, err error) { return t, rows.Scan(&t) }

// gather makes one digest of the messages that have failed too often, once one of them is due. Letters that were closed
// are left out, and stay with the message that they were in, which has ended.
func (a alerting) gather(ctx context.Context, sink string) error {
	d := a.store.sql.desk
	var messages, letters, attempt, open int
	var due bool
	var failure string
	var since timeColumn
	err := a.tx.QueryRow(ctx, d.selectExhausted, sink, pawl.AlertTries).Scan(&messages, &letters, &attempt, &due, &failure)
	if err != nil || !due {
		return err
	}
	err = a.tx.QueryRow(ctx, d.countOpenMembers, sink, pawl.AlertTries).Scan(&open, &since)
	if err != nil || messages == 1 && open == letters {
		return err // it is repeated as it is
	}
	if open == 0 {
		_, err := a.exec(ctx, d.endExhausted, sink, pawl.AlertTries)
		return err
	}
	id, err := a.message(ctx, sink, pawl.NewID().String()+"/"+sink, open, timeValue(time.Time(since)), attempt, nil, failure)
	if err != nil {
		return err
	}
	if _, err := a.exec(ctx, d.moveOpenMembers, sink, pawl.AlertTries, id); err != nil {
		return err
	}
	if _, err := a.exec(ctx, d.endExhausted, sink, pawl.AlertTries); err != nil {
		return err
	}
	if _, err := a.exec(ctx, d.dropEmpty, sink); err != nil {
		return err
	}
	_, err = a.exec(ctx, d.openMessage, id, open)
	return err
}

// tell reads what a message says.
func (a alerting) tell(ctx context.Context, task *pawl.AlertTask, letters int) error {
	d := a.store.sql.desk
	if letters == 1 {
		letter, _, err := selectOne(ctx, a.tx, func(rows pgx.Rows) (l pawl.DeadLetter, err error) {
			return l, rows.Scan(append([]any{&task.Regression}, letterTargets(&l)...)...)
		}, d.selectMember, task.Row)
		task.Letters = []pawl.DeadLetter{letter}
		return err
	}
	digest := &pawl.Digest{Deaths: letters}
	var groups int
	found, err := selectRows(ctx, a.tx, func(rows pgx.Rows) (l pawl.DeadLetter, err error) {
		var g pawl.AlertGroup
		targets := []any{
			&g.Deaths, (*timeColumn)(&g.First), (*timeColumn)(&g.Last), &g.Regression,
			&groups, (*timeColumn)(&digest.First), (*timeColumn)(&digest.Last), &task.Regression,
		}
		err = rows.Scan(append(targets, letterTargets(&l)...)...)
		digest.Groups = append(digest.Groups, g)
		return l, err
	}, d.selectAlertGroups, task.Row, pawl.DigestGroups)
	task.Letters, task.Digest, digest.More = found, digest, groups-len(found)
	return err
}

// alertStatements are the texts of alerts, for one schema.
type alertStatements struct {
	lockSinks, selectSinkStates, freeMessages, writeWindow       string
	leaseMessages, settleMessages                                string
	insertSingles, selectFirstFresh, insertMessage               string
	assignFresh, openMessage                                     string
	selectExhausted, countOpenMembers, moveOpenMembers           string
	endExhausted, dropEmpty                                      string
	selectMember, selectAlertGroups, selectSinks, selectAlertsOf string
}

func newAlertStatements(s schema) alertStatements {
	return alertStatements{
		lockSinks: s.text(lockSinks), selectSinkStates: s.text(selectSinkStates), freeMessages: s.text(freeMessages), writeWindow: s.text(writeWindow),
		leaseMessages: s.text(leaseMessages), settleMessages: s.text(settleMessages),
		insertSingles: s.text(insertSingles), selectFirstFresh: s.text(selectFirstFresh), insertMessage: s.text(insertMessage),
		assignFresh: s.text(assignFresh), openMessage: s.text(openMessage),
		selectExhausted: s.text(selectExhausted), countOpenMembers: s.text(countOpenMembers), moveOpenMembers: s.text(moveOpenMembers),
		endExhausted: s.text(endExhausted), dropEmpty: s.text(dropEmpty),
		selectMember: s.text(selectMember), selectAlertGroups: s.text(selectAlertGroups), selectSinks: s.text(selectSinks), selectAlertsOf: s.text(selectAlertsOf),
	}
}
