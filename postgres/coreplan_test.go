package postgres

import (
	"strings"
	"testing"
)

// Every statement of a host finds its jobs by the index that is meant for it, however many there are. Plans are made
// once, so they must be right for tables that are still empty too.
func TestHostPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkHostPlans(t, s)
	s.fill(t, `insert into {s}.name (text) select 'q' || g from generate_series(1, 5) g`,
		`insert into {s}.job (id, queue, kind, envelope) select gen_random_uuid(), 1 + g % 5, 1, '\x00' from generate_series(1, 100000) g`,
		`insert into {s}.job (id, queue, kind, run_at, envelope) select gen_random_uuid(), 1 + g % 5, 1, now() + g * interval '1 hour', '\x00'
		from generate_series(1, 20000) g`,
		`insert into {s}.job (id, queue, kind, ukey, envelope) select gen_random_uuid(), 1, 1, gen_random_uuid(), '\x00' from generate_series(1, 5000) g`,
		`insert into {s}.job (id, queue, kind, crashes, envelope) select gen_random_uuid(), 1, 1, 2, '\x00' from generate_series(1, 5) g`,
		`insert into {s}.done_1 (id, state) select gen_random_uuid(), 0 from generate_series(1, 50000) g`,
		`insert into {s}.batch (id, kind, queue, delay, created_at, ended_at) select gen_random_uuid(), 1, 1, 0, now() - g * interval '1 second',
		case when g % 100 > 0 then now() - g * interval '1 second' end from generate_series(1, 50000) g`,
		`insert into {s}.tally (batch, done) select id, 1 from {s}.batch`,
		`vacuum analyze {s}.job`, `vacuum analyze {s}.done_1`, `vacuum analyze {s}.batch`, `vacuum analyze {s}.tally`)
	checkHostPlans(t, s)
}

func checkHostPlans(t *testing.T, s *Store) {
	t.Helper()
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ statement, has string }{
		"ended ids":         {slots.texts.removeEnded, "using done_1_pkey"},
		"no ended ids":      {slots.texts.refuseEnded, "using done_1_pkey"},
		"no ended id":       {slots.texts.refuseOne, "using done_1_pkey"},
		"known ids":         {slots.texts.selectKnown, "using job_pkey"},
		"accepted jobs":     {slots.texts.selectAccepted, "using job_pkey"},
		"accepted, ended":   {slots.texts.selectAccepted, "using done_1_pkey"},
		"holders of keys":   {s.sql.selectHolders, "using job_key"},
		"locks of keys":     {s.sql.lockKeys, "Tid Scan on key_lock"},
		"all locks of keys": {s.sql.lockAllKeys, "Tid Scan on key_lock"},
		"claim":             {s.sql.claim, "using job_ready"},
		"claim, update":     {s.sql.claim, "Tid Scan on job"},
		"claim of suspects": {s.sql.claimSuspect, "using job_suspect"},
		"claim of orphans":  {s.sql.claimOrphan, "using job_ready"},
		"acknowledge":       {slots.texts.settleDone, "using job_pkey"},
		"end":               {s.sql.endJobs, "using job_pkey"},
		"put back":          {s.sql.putBack, "using job_pkey"},
		"cancelled":         {s.sql.removeCancelled, "using job_pkey"},
		"to be cancelled":   {s.sql.desk.lockToCancel, "using job_pkey"},
		"mark to cancel":    {s.sql.desk.markCancelled, "using job_pkey"},
		"cancel at once":    {s.sql.desk.removeFree, "using job_pkey"},
		"beat":              {s.sql.selectTroubled, "using job_pkey"},
		"progress":          {s.sql.writeProgress, "using job_pkey"},
		"start mark":        {s.sql.markStarted, "using job_pkey"},
		"verdict":           {s.sql.writeVerdicts, "using job_pkey"},
		"due":               {s.sql.makeDue, "using job_due"},
		"end of a session":  {s.sql.endSession, "using job_suspect"},
		"reserved":          {s.sql.selectReserved, "using job_ready"},
		"recover":           {s.sql.recoverJobs, "using job_pkey"},
		"open batches":      {s.sql.lockOpenBatches, "using batch_pkey"},
		"count members":     {s.sql.countMembers, "using tally_pkey"},
		"lock batches":      {s.sql.lockOver, "using batch_pkey"},
		"end batches":       {s.sql.endBatches, "using tally_batch"},
		"batch":             {s.sql.selectBatch, "using tally_batch"},
		"cancel batches":    {s.sql.cancelBatches, "using batch_pkey"},
		"batches over age":  {s.sql.purgeBatches, "using batch_ended"},
		"attempts":          {s.sql.selectAttempts, "using attempt_pkey"},
	} {
		checkPlan(t, name, hostPlan(t, s, c.statement), c.has, "Seq Scan", "Hash Cond", "hashed", "Merge")
	}
	for _, text := range []string{slots.texts.insertUnique, slots.texts.insertUniqueNow, slots.texts.insertUniqueOne} {
		plan := hostPlan(t, s, text)
		for _, index := range []string{"job_key", "key_pkey", "job_pkey"} {
			checkPlan(t, "unique", plan, "using "+index, "Seq Scan", "Hash ", "hashed", "Merge")
		}
		if strings.Count(plan, " Scan using ") != strings.Count(plan, "Index Cond:") {
			t.Errorf("unique: an index is read from end to end:\n%s", plan)
		}
	}
}
