package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
)

const (
	// Ids come as one blob: parameter 2 has 16 bytes for each element of the list in parameter 1.
	selectKnown = `select t.key from json_each(?1) t
where exists (select 1 from pawl_job where id = substr(?2, t.key * 16 + 1, 16))
   or exists (select 1 from pawl_done where id = substr(?2, t.key * 16 + 1, 16))`

	selectHolders = `select k.key, k.job_id, k.scope, k.until, j.seq is not null, j.session is not null
from json_each(?1) t join pawl_key k on k.key = t.value left join pawl_job j on j.id = k.job_id`

	upsertKey = `insert into pawl_key (key, job_id, scope, until) values (?1, ?2, ?3, ?4)
on conflict (key, job_id) do update set scope = excluded.scope, until = excluded.until`

	removeKey = `delete from pawl_key where key = ?1 and job_id = ?2`

	selectLetterJob = `select job_id from pawl_letter where id = ?1`
	selectLiving    = `select 1 from pawl_job where id = ?1`

	freeKey = `delete from pawl_key where key = ?1 and job_id = ?2 and scope <> ?3`
)

// forgetEnd are the traces of an ended job, which goes when its letter is retried under its id.
var forgetEnd = [...]string{
	`delete from pawl_done where id = ?1`,
	`delete from pawl_attempt where job_id = ?1`,
	`delete from pawl_verdict where job_id = ?1`,
}

// keyHolder is a job that holds a unique key, or may hold it again. Keys are looked at only when another job wants them: one whose
// holders have all left its scope, or its period, is free.
type keyHolder struct {
	key     string
	job     pawl.ID
	scope   pawl.UniqueScope
	until   int64
	living  bool
	running bool
}

// mayHold reports whether the key may keep other jobs out later, though it does not now.
func (h keyHolder) mayHold() bool { return h.scope == pawl.UniqueWaiting && h.living }

// holds reports whether the key keeps other jobs out.
func (h keyHolder) holds(at int64) bool {
	switch h.scope {
	case pawl.UniqueWaiting:
		return h.living && !h.running
	case pawl.UniqueForPeriod:
		return h.until > at
	}
	return h.living
}

func scanHolder(rows *sql.Rows) (h keyHolder, err error) {
	return h, rows.Scan(&h.key, (*idColumn)(&h.job), &h.scope, &h.until, &h.living, &h.running)
}

// admitSpecial decides on jobs with unique keys, and makes way for those that are retried under their own id.
func (in *insertion) admitSpecial(ctx context.Context, special []int) error {
	known, err := in.known(ctx, special)
	if err != nil {
		return fmt.Errorf("look up ids: %w", err)
	}
	holders, err := in.holders(ctx, special)
	if err != nil {
		return fmt.Errorf("look up unique keys: %w", err)
	}
	for _, i := range special {
		if err := in.admitOne(ctx, i, known, holders); err != nil {
			return fmt.Errorf("admit job %s: %w", in.jobs[i].ID, err)
		}
	}
	return nil
}

func (in *insertion) admitOne(ctx context.Context, i int, known map[pawl.ID]bool, holders map[string][]keyHolder) error {
	job, result := &in.jobs[i], &in.results[i]
	died, err := in.letterJob(ctx, job.Letter)
	if err != nil {
		return err
	}
	retried := died == job.ID && !job.Letter.IsZero()
	if retried && known[job.ID] {
		_, known[job.ID], err = selectOne(ctx, in.x, scanValue[int64], selectLiving, job.ID[:])
		if err != nil {
			return err
		}
	}
	if known[job.ID] {
		result.Status = pawl.Repeated
		return nil
	}
	if key := job.Unique.Key; key != "" {
		for _, h := range holders[key] {
			switch {
			case !h.holds(in.at), !died.IsZero() && h.job == died:
				continue
			case h.job == job.ID: // whose period goes on, though its end is forgotten
				result.Status = pawl.Repeated
			default:
				result.ID, result.Status = h.job, pawl.Duplicate
			}
			return nil
		}
		if err := in.takeKey(ctx, job, holders); err != nil {
			return err
		}
	}
	known[job.ID] = true
	if !retried {
		return nil
	}
	for _, forget := range forgetEnd {
		if _, err := in.x.ExecContext(ctx, forget, job.ID[:]); err != nil {
			return err
		}
	}
	return nil
}

// takeKey notes that a job holds its key, and forgets those that have done with it.
func (in *insertion) takeKey(ctx context.Context, job *pawl.NewJob, holders map[string][]keyHolder) error {
	h := keyHolder{key: job.Unique.Key, job: job.ID, scope: job.Unique.Scope, living: true}
	if h.scope == pawl.UniqueForPeriod {
		h.until = in.at + wholeMillis(job.Unique.Period)
	}
	all := []keyHolder{h}
	for _, other := range holders[h.key] {
		switch {
		case other.job == h.job:
		case other.mayHold():
			all = append(all, other)
		default:
			if _, err := in.x.ExecContext(ctx, removeKey, other.key, other.job[:]); err != nil {
				return err
			}
		}
	}
	holders[h.key] = all
	_, err := in.x.ExecContext(ctx, upsertKey, h.key, h.job[:], int64(h.scope), h.until)
	return err
}

// letterJob is the job that died with the letter.
func (in *insertion) letterJob(ctx context.Context, letter pawl.ID) (pawl.ID, error) {
	if letter.IsZero() {
		return pawl.ID{}, nil
	}
	died, _, err := selectOne(ctx, in.x, func(rows *sql.Rows) (id pawl.ID, err error) {
		return id, rows.Scan((*idColumn)(&id))
	}, selectLetterJob, letter[:])
	return died, err
}

// known are the ids among the jobs' that were accepted before.
func (in *insertion) known(ctx context.Context, special []int) (map[pawl.ID]bool, error) {
	var list intList
	blob := make([]byte, 0, 16*len(special))
	for _, i := range special {
		list.add(int64(i))
		blob = append(blob, in.jobs[i].ID[:]...)
	}
	found, err := selectRows(ctx, in.x, scanValue[int], selectKnown, list.json(), blob)
	known := make(map[pawl.ID]bool, len(special))
	for _, n := range found {
		known[in.jobs[special[n]].ID] = true
	}
	return known, err
}

// holders are who holds the jobs' keys now, or may hold them again.
func (in *insertion) holders(ctx context.Context, special []int) (map[string][]keyHolder, error) {
	holders := make(map[string][]keyHolder, len(special))
	var keys []string
	for _, i := range special {
		if key := in.jobs[i].Unique.Key; key != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return holders, nil
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	found, err := selectRows(ctx, in.x, scanHolder, selectHolders, string(list))
	for _, h := range found {
		holders[h.key] = append(holders[h.key], h)
	}
	return holders, err
}
