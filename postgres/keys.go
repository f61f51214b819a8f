package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	selectLetterJobs = `select id, job_id from {s}.letter where id = any($1::uuid[]) and job_id is not null`

	// A job that lives is named before one that has ended.
	selectKnown = `select u.id, known.living from unnest($1::uuid[]) u (id), lateral (
  select true as living from {s}.job j where j.id = u.id{known} limit 1) known`
	knownTerm = ` union all select false from {t} where id = u.id`

	// Who holds the key of u: a job for its period, or the one job that has the key in its row. passes: that one has left its
	// scope, so the key goes to whoever asks for it.
	holders = `select k.job_id as id, false as passes from {s}.key k where k.hash = u.hash and k.until_at > now() and k.job_id is not null
  union all
  select j.id, j.flags & 16 <> 0 and j.holder is not null or j.flags & 512 <> 0 and not exists (
    select 1 from {s}.key k where k.hash = u.hash and k.job_id = j.id and k.until_at > now())
  from {s}.job j where j.ukey = u.place`

	selectHolders = `select u.hash, h.id, h.passes from unnest($1::uuid[], $2::uuid[]) u (place, hash) cross join lateral (
  ` + holders + `) h`

	yieldKeys = `select {s}.yield_keys($1::uuid[], $2::uuid[])`

	// Jobs that an insert has just stored beside a period of which it could not know.
	removeKept = `select b.id from {s}.take_back_kept($1::uuid[], $2::uuid[], $3::uuid[]) b (id)`

	// The periods of those that were stored.
	holdKeys = `insert into {s}.key (hash, job_id, until_at, purge_at)
select hash, id, now() + period * interval '1 microsecond', now() + period * interval '1 microsecond'
from unnest($1::uuid[], $2::uuid[], $3::bigint[]) t (hash, id, period) where exists (select 1 from {s}.job j where j.id = t.id)
on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at`

	// The earlier life of jobs that were stored under the id that they died with.
	forgetEnded    = `delete from {s}.{t} d where d.id = any($1::uuid[]) and exists (select 1 from {s}.job j where j.id = d.id)`
	forgetAttempts = `delete from {s}.attempt where job_id = any($1::uuid[])`
	forgetVerdicts = `delete from {s}.verdict where job_id = any($1::uuid[])`

	// Places in the queue, for jobs that are stored in another order than they were given, by several statements. The transaction
	// has its number before, so that claims look behind them for it: see cursor.
	drawSeqs = `select nextval('{l}.job_seq') from generate_series(1, $1::int) where pg_current_xact_id() is not null`
)

// digests are what stands for a unique key: half of its SHA-256 in the table of periods; and in the jobs, where one index has
// all of them, what lies near that of a key which differs in the last four bytes only. A call's keys often do, so that they
// are looked up, and stored, in few pages. It is 4 bytes of the SHA-256 of what comes before these, they themselves, and 8 bytes of
// the SHA-256 of the whole. The migration to version 16 has the same in SQL.
func digests(key string) (hash, place pawl.ID) {
	sum := sha256.Sum256([]byte(key))
	copy(hash[:], sum[:])
	cut := max(0, len(key)-4)
	before := sha256.Sum256([]byte(key[:cut]))
	copy(place[:4], before[:])
	copy(place[4:8], key[cut:])
	copy(place[8:], sum[:])
	return hash, place
}

// keys are the unique keys of an insertion's jobs, by index. Those without have zeros.
type keys struct {
	hashes, places idList
}

// add appends that of another's job.
func (k *keys) add(from keys, i int) {
	k.hashes, k.places = append(k.hashes, from.hashes[i]), append(k.places, from.places[i])
}

// inKeyOrder sorts indices by the keys of their jobs, those without first: every call stores its keys in that order, so that no two
// ever wait for each other crosswise. It reports whether that changed anything.
func (in *insertion) inKeyOrder(rows []int) bool {
	before := func(a, b int) int { return strings.Compare(in.jobs[a].Unique.Key, in.jobs[b].Unique.Key) }
	if slices.IsSortedFunc(rows, before) {
		return false
	}
	slices.SortStableFunc(rows, before)
	return true
}

// drawSeqs takes places in the queue for all jobs, in the order in which they were given, where several statements will store them
// in that of their keys.
func (in *insertion) drawSeqs(ctx context.Context, x execer.Execer) error {
	if len(in.jobs) <= insertBatch || in.seqs != nil {
		return nil
	}
	in.seqs = make([]int64, 0, len(in.jobs))
	var place int64
	err := x.Do(ctx, step{SQL: in.store.sql.drawSeqs, Args: []any{len(in.jobs)}, Row: func(scan func(...any) error) error {
		err := scan(&place)
		in.seqs = append(in.seqs, place)
		return err
	}})
	if err == nil && len(in.seqs) != len(in.jobs) {
		err = fmt.Errorf("%d places for %d jobs", len(in.seqs), len(in.jobs))
	}
	if err != nil {
		return fmt.Errorf("draw places in the queue: %w", err)
	}
	return nil
}
