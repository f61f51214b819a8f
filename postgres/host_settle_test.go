package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// The database refuses to write the end of one job, in each of the ways that concern one row or all: it is tried again
// until it is written, its handler does not run a second time, and its neighbours are not held up.
func TestOneEndCannotBeWritten(t *testing.T) {
	for _, state := range []string{
		"P0001", // a trigger's own error
		"23514", // a constraint
		"22P02", // a value
		"40001", // a collision that never ends
		"53100", // disk full
		"55P03", // a lock that is not to be had
		"57014", // a statement that takes too long
		"58030", // an I/O error
		"XX001", // a broken page
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			oneEndCannotBeWritten(newWorld(t), state)
		})
	}
}

func oneEndCannotBeWritten(w *world, state string) {
	const jobs = 60
	runs, open := newLedger(), make(chan struct{})
	h := w.start(w.another(), muxOf(func(_ context.Context, job *pawl.Job, _ workArgs) error {
		runs.add(job)
		<-open
		return nil
	}), w.config("a", jobs, quick()))
	ids := w.put(work, jobs)
	w.until(patience, "all jobs running", func() bool { return h.Stats().Running == jobs })
	bad := ids[jobs/2]
	undo := w.refuse(bad, state)
	close(open) // all end in one batch or a few

	w.until(patience, "the ends of the neighbours", func() bool { return h.Stats().Succeeded == jobs-1 })
	w.until(patience, "the bad one counted", func() bool { return h.Stats().Unsettled == 1 })
	w.equal("state of the bad one", w.view(bad).State, pawl.JobReserved)
	undo()
	w.until(patience, "the end of the bad one", func() bool { return h.Stats().Succeeded == jobs })
	w.equal("unsettled", h.Stats().Unsettled, 0)
	runs.ran(w, ids, 1)
	w.ends(ids, pawl.JobDone, 1, 0)
}

// refuse makes the database refuse the end of a job, until it is undone.
func (w *world) refuse(id pawl.ID, state string) (undo func()) {
	w.Helper()
	jobs, function := table(w.store.config.Schema, "job"), table(w.store.config.Schema, "refuse")
	execute(w, w.url, strings.NewReplacer("{f}", function, "{state}", state).Replace(`create function {f}() returns trigger language plpgsql as $$
begin
  raise exception 'refused' using errcode = '{state}';
end $$`))
	execute(w, w.url, fmt.Sprintf("create trigger refuse before delete on %s for each row when (old.id = '%s') execute function %s()", jobs, id, function))
	return func() { execute(w, w.url, "drop trigger refuse on "+jobs) }
}
