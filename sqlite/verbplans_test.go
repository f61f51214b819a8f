package sqlite

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// Statements that run all the time take a few steps of an index, however many rows there are beside theirs, and whether
// or not somebody has let SQLite gather statistics.
func TestVerbPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkVerbPlans(t, s)
	var jobs []pawl.NewJob
	for n := range 2000 {
		jobs = append(jobs, newJob(t, s, [][]pawl.Option{nil, {pawl.Delay(time.Hour)}}[n%2]...))
	}
	if _, err := s.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	request := pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{writerKind.Name()}, Max: 300}
	claimed, err := s.Claim(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var settlements []pawl.Settlement
	for _, job := range claimed.Jobs[:200] {
		settlements = append(settlements, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}})
	}
	if _, err := s.Settle(t.Context(), session, settlements); err != nil {
		t.Fatal(err)
	}
	err = s.write(t.Context(), func(ctx context.Context, w *writer) error { return w.exec(ctx, "analyze") })
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), s.path, Config{}) // connections read statistics when they open
	if err != nil {
		t.Fatal(err)
	}
	checkVerbPlans(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkVerbPlans(t *testing.T, s *Store) {
	t.Helper()
	const ready, held = "pawl_job_ready (queue=? AND kind=? AND lane=?)", "pawl_job_held (session=? AND token=?)"
	for name, c := range map[string]struct {
		query string
		has   string
	}{
		"kinds of a queue":   {selectFronts, "pawl_job_ready (queue=? AND kind>?)"},
		"lanes of a kind":    {selectFronts, "pawl_job_ready (queue=? AND kind=? AND lane>?)"},
		"job of a kind":      {selectFronts, "SEARCH j USING INTEGER PRIMARY KEY"},
		"some kinds":         {selectFrontsOf, ready},
		"many kinds":         {selectFirst, "pawl_job_ready (queue=? AND kind=? AND lane=? AND rowid<?)"},
		"claim":              {takeHead + numbered(merged([]string{takeLane})) + takeTail, ready},
		"claim of kinds":     {takeHead + numbered(merged([]string{takeLane, takeLane, takeOne})) + takeTail, ready},
		"read of a claim":    {selectTaken, "pawl_job_held (session=? AND token>?)"},
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
		"cancelled":          {selectCancelled, held},
		"cancelled, held":    {selectCancelledHeld, "pawl_job_held (session=?)"},
		"to be cancelled":    {selectToCancel, "pawl_job_1 (id=?)"},
		"ended, by id":       {selectDoneState, "pawl_done_1 (id=?)"},
		"dead sessions":      {selectDead, "pawl_session_dead"},
		"their jobs":         {selectDeadJobs, "COVERING INDEX pawl_job_held (session=?)"},
		"due":                {selectDue, "COVERING INDEX pawl_job_due (run_at>? AND run_at<?)"},
		"next due":           {selectNext, "COVERING INDEX pawl_job_due (run_at>? AND run_at<?)"},
		"due in line":        {selectDueLined, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"head of a line":     {firstOfOrder, "pawl_turn_order (okey=? AND stage=?)"},
		"busy line":          {firstOfOrder, "pawl_turn_order (okey=? AND stage>?)"},
		"first of a key":     {firstOfKey, "pawl_turn_key (lkey=? AND stage=? AND pending=?)"},
		"first of a kind":    {firstOfKind, "pawl_turn_kind (kind=? AND stage=? AND pending=?)"},
		"taken of a key":     {countKey, "COVERING INDEX pawl_turn_key (lkey=? AND stage>?)"},
		"taken of a kind":    {countKind, "COVERING INDEX pawl_turn_kind (kind=? AND stage=?)"},
		"not started":        {countPile, "COVERING INDEX pawl_turn_kind (kind=? AND stage=? AND pending=?)"},
		"tokens due":         {selectRatesDue, "pawl_rate_next (next_at>? AND next_at<?)"},
		"over age":           {purgeDone, "COVERING INDEX pawl_done_finished (finished_at<?)"},
		"records over age":   {purgeAttempts, "pawl_done_finished (finished_at<?)"},
		"periods over age":   {purgePeriods, "pawl_key_until (until>? AND until<?)"},
		"sessions over age":  {selectOldSessions, "pawl_session_ended (ended_at<?)"},
		"history over age":   {stripDone, "pawl_done_finished (finished_at>? AND finished_at<?)"},
		"known ids":          {selectKnown, "pawl_job_1 (id=?)"},
		"known ids, ended":   {selectKnown, "pawl_done_1 (id=?)"},
		"holders of keys":    {selectHolders, "PRIMARY KEY (key=?)"},
		"insert":             {insertHead + insertRow + insertTail, "COVERING INDEX sqlite_autoindex_pawl_done_1 (id=?)"},
		"repeated ids":       {selectInserted, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"insert of members":  {insertMembers + insertMember + insertTail, "COVERING INDEX sqlite_autoindex_pawl_done_1 (id=?)"},
		"open batch":         {selectOpenBatch, "sqlite_autoindex_pawl_batch_1 (id=?)"},
		"joins batch":        {joinBatch, "sqlite_autoindex_pawl_batch_1 (id=?)"},
		"members ended":      {countEnds, "sqlite_autoindex_pawl_batch_1 (id=?)"},
		"members removed":    {countRemoved, "INTEGER PRIMARY KEY (rowid=?)"},
		"batches over":       {selectOver, "USING INDEX pawl_batch_over"},
		"batches over age":   {purgeBatches, "pawl_batch_ended (ended_at<?)"},
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
