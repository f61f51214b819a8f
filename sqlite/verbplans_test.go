package sqlite

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Statements that run all the time take a few steps of an index, however many rows there are beside theirs.
func TestVerbPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	const ready, held = "pawl_job_ready (queue=? AND kind=? AND lane=?)", "pawl_job_held (session=? AND token=?)"
	for name, c := range map[string]struct {
		query string
		has   string
	}{
		"kinds of a queue":   {selectFronts, "pawl_job_ready (queue=? AND kind>?)"},
		"lanes of a kind":    {selectFronts, ready},
		"claim":              {takeHead + numbered(merged([]string{takeLane})) + takeTail, ready},
		"claim of kinds":     {takeHead + numbered(merged([]string{takeLane, takeLane, takeOne})) + takeTail, ready},
		"read of a claim":    {selectTaken, "pawl_job_held (session=? AND token>?)"},
		"suspect":            {selectFront, ready},
		"orphans":            {selectOld, ready},
		"records":            {selectAttempts, "pawl_job_held (session=? AND token>? AND token<?)"},
		"verdicts":           {selectVerdicts, "pawl_job_held (session=? AND token>? AND token<?)"},
		"start":              {markStarted, held},
		"done":               {insertDone, held},
		"done, removed":      {deleteDone, held},
		"refused":            {selectOwned, held},
		"special":            {selectCare, "pawl_job_care (session=?)"},
		"retry":              {waitAgain, held},
		"retry at once":      {queueUp, held},
		"give back":          {giveBack, held},
		"death":              {selectEnding, held},
		"verdict":            {writeVerdict, held},
		"beat":               {selectTroubled, held},
		"progress":           {writeProgress, held},
		"reconcile":          {selectHeld, "pawl_job_held (session=?)"},
		"close":              {giveBackHeld, "pawl_job_held (session=?)"},
		"dead sessions":      {selectDead, "pawl_session_dead"},
		"their jobs":         {selectDeadJobs, "COVERING INDEX pawl_job_held (session=?)"},
		"due":                {selectDue, "COVERING INDEX pawl_job_due (run_at>? AND run_at<?)"},
		"next due":           {selectNext, "COVERING INDEX pawl_job_due (run_at>?)"},
		"over age":           {purgeDone, "pawl_done_finished (finished_at<?)"},
		"records over age":   {purgeAttempts, "pawl_done_finished (finished_at<?)"},
		"periods over age":   {purgePeriods, "pawl_key_until (until>? AND until<?)"},
		"sessions over age":  {purgeSessions, "pawl_session_ended (ended_at<?)"},
		"history over age":   {stripDone, "pawl_done_finished (finished_at>? AND finished_at<?)"},
		"known ids":          {selectKnown, "pawl_job_1 (id=?)"},
		"known ids, ended":   {selectKnown, "pawl_done_1 (id=?)"},
		"holders of keys":    {selectHolders, "PRIMARY KEY (key=?)"},
		"insert":             {insertHead + insertRow + insertTail, "COVERING INDEX sqlite_autoindex_pawl_done_1 (id=?)"},
		"repeated ids":       {selectInserted, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"recovery":           {recoverJobs, "INTEGER PRIMARY KEY (rowid=?)"},
		"records of crashes": {recordCrashes, "INTEGER PRIMARY KEY (rowid=?)"},
		"makes ready":        {makeReady, "INTEGER PRIMARY KEY (rowid=?)"},
	} {
		steps := plan(t, s, c.query, make([]any, parameters(t, c.query))...)
		checkPlan(t, name, steps, c.has, "SCAN pawl_job", "SCAN j\n", "SCAN j ", "SCAN pawl_done", "SCAN pawl_session\n", "SCAN pawl_key")
	}
}

var numberedParameter = regexp.MustCompile(`\?(\d+)`)

// parameters counts those of a statement: the numbered ones, and the bare ones after them.
func parameters(t *testing.T, query string) (n int) {
	t.Helper()
	for _, found := range numberedParameter.FindAllStringSubmatch(query, -1) {
		number, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		n = max(n, number)
	}
	return n + strings.Count(query, "?") - len(numberedParameter.FindAllString(query, -1))
}
