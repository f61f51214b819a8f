package postgres_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Keys that jobs of an earlier release hold are held after the migration to version 16, whatever they look like: by one job each.
func TestKeysOfEarlierVersions(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "_keys.sql") })
	for _, version := range []int{1, at} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			checkOldKeys(t, names[:version])
		})
	}
}

func checkOldKeys(t *testing.T, migrations []string) {
	conn := beside(t, server(t))
	schema := freshSchema(t)
	oldTables(t, schema, migrations)
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(`insert into ` + table(schema, "name") + ` (text) values ('2-default'), ('` + testKind + `')`)
	old := func(key string) []byte {
		sum := sha256.Sum256([]byte(key))
		return sum[:16]
	}
	made := func(options ...pawl.Option) pawl.NewJob {
		t.Helper()
		job, err := pawl.NewKind[map[string]string](testKind, pawl.Policy{}).New(t.Context(), pawl.Connection{Name: "default"}, map[string]string{"text": strings.Repeat("long ", 100)}, options...)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	insert := func(job pawl.NewJob, flags int, holder any, ago time.Duration) pawl.ID {
		t.Helper()
		run(`insert into `+table(schema, "job")+` (id, queue, kind, flags, holder, claim, enqueued_at, ukey, envelope) values ($1, 1, 2, $2, $3, $3, now() - $4::interval, $5, $6)`,
			job.ID.String(), flags, holder, ago, old(job.Unique.Key), job.Envelope)
		return job.ID
	}
	waiting := func(key string) pawl.NewJob { return made(pawl.UniqueWhileWaiting(key)) }
	want := map[string]pawl.ID{} // by key, who holds it
	for _, key := range []string{"k", "abc", "abcd", "abcde", "customer:1", "customer:2", "\u00e9\u20ac\U0001f600", strings.Repeat("x", 127), strings.Repeat("y", 256)} {
		want[key] = insert(made(pawl.UniqueWhileUnfinished(key), pawl.Tags("tag")), 0, nil, time.Hour)
	}
	insert(waiting("runs"), 16, 1, time.Hour)
	want["runs"] = pawl.ID{}
	insert(waiting("rival"), 16, 1, time.Minute)
	want["rival"] = insert(waiting("rival"), 16, nil, time.Hour)
	insert(waiting("both wait"), 16, nil, time.Hour)
	want["both wait"] = insert(waiting("both wait"), 16, nil, time.Minute)
	want["stronger"] = insert(made(pawl.UniqueWhileUnfinished("stronger")), 0, 1, time.Hour)
	insert(waiting("stronger"), 16, 1, time.Minute)
	for key, envelope := range map[string][]byte{"cut": made(pawl.UniqueWhileUnfinished("cut")).Envelope[:20], "none": {}, "no end": []byte("PWL\x01\x11\xff\xff\xff\xff\xff\xff\xff\xff\xff")} {
		damaged := made(pawl.UniqueWhileUnfinished(key))
		damaged.Envelope = envelope
		insert(damaged, 0, nil, time.Hour)
		want[key] = pawl.ID{}
	}
	ended := pawl.NewID()
	run(`insert into `+table(schema, "key")+` (hash, job_id, until_at, purge_at) values ($1, $2, now() + interval '1 hour', now() + interval '1 hour')`, old("period"), ended.String())
	want["period"] = ended

	store := openIn(t, server(t), postgres.Config{Schema: schema})
	// A program of the release before is refused: this is what it does first with a unique key.
	if _, err := conn.Exec(t.Context(), `insert into `+table(schema, "key_lock")+` (slot) values (1)`); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a lock of the release before: %v", err)
	}
	var jobs []pawl.NewJob
	for key := range want {
		jobs = append(jobs, newJob(t, store, pawl.UniqueWhileUnfinished(key)))
	}
	check := func(what string, results []pawl.Enqueued) {
		t.Helper()
		for i, job := range jobs {
			expected := pawl.Enqueued{ID: want[job.Unique.Key], Status: pawl.Duplicate}
			if expected.ID.IsZero() {
				expected = pawl.Enqueued{ID: job.ID}
			}
			if results[i] != expected {
				t.Errorf("%s: key %q: %v, want %v", what, job.Unique.Key, results[i], expected)
			}
		}
	}
	tx := begin(t, store)
	check("in a transaction", put(t, tx, jobs...))
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	check("together", put(t, store, jobs...))
	var free int
	err := conn.QueryRow(t.Context(), `select count(*) from `+table(schema, "job")+` where ukey is null`).Scan(&free)
	if err != nil || free != 7 {
		t.Errorf("%d jobs are without their keys (%v), want 7: those that had a rival, or run while another has asked, and what cannot be read", free, err)
	}
}
