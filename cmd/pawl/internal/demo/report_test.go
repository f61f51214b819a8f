package demo

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// sound is the evidence of two sign-ups, of which one profile died.
func sound() evidence {
	job := func(kind, signUp string, state pawl.JobState, attempt int) pawl.JobView {
		return pawl.JobView{ID: jobID(kind, signUp), Kind: kind, State: state, Attempt: attempt}
	}
	mail, post := verificationMail.Name(), profilePost.Name()
	letter := pawl.ID{15: 9}
	told := func() alerted { return alerted{letter.String(): true} }
	return evidence{
		signUps: 2,
		jobs: []pawl.JobView{
			job(mail, "a", pawl.JobDone, 1), job(post, "a", pawl.JobDone, 3),
			job(mail, "b", pawl.JobDone, 2), job(post, "b", pawl.JobDead, 1),
		},
		letters:  []pawl.DeadLetter{{ID: letter, JobID: jobID(post, "b"), Class: pawl.DeathPermanent}},
		alerted:  map[string]alerted{"log": told(), "email": told(), "webhook": told()},
		sent:     map[string]bool{mailID("a"): true, mailID("b"): true},
		received: map[string]int{mailID("a"): 1, mailID("b"): 1},
		profiles: map[string]bool{jobID(post, "a").String(): true},
	}
}

func TestReportCounts(t *testing.T) {
	t.Parallel()
	r := sound().report()
	if !r.Reconciled || r.Enqueued != 4 || r.Done != 3 || r.Dead != 1 || r.Retries != 3 {
		t.Errorf("got %+v", r)
	}
	if r.ByClass["permanent"] != 1 || r.ByClass["poison"] != 0 || len(r.ByClass) != 3 {
		t.Errorf("classes %v", r.ByClass)
	}
	if r.Alerts["log"] != 1 || r.Alerts["email"] != 1 || r.Alerts["webhook"] != 1 {
		t.Errorf("alerts %v", r.Alerts)
	}
}

func TestReportCountsRedrives(t *testing.T) {
	t.Parallel()
	e := sound()
	e.letters[0].NewJobID, e.letters[0].Status, e.redrives = pawl.ID{1: 1}, pawl.StatusResolved, 1
	e.jobs = append(e.jobs, pawl.JobView{ID: pawl.ID{1: 1}, Kind: profilePost.Name(), State: pawl.JobDone, Attempt: 1})
	e.profiles[pawl.ID{1: 1}.String()] = true
	if r := e.report(); !r.Reconciled || r.Enqueued != 5 || r.Redriven != 1 || r.Done != 4 || r.Dead != 1 {
		t.Errorf("after a redrive: %+v", r)
	}

	e = sound() // redriven, removed, opened again and redriven once more
	e.letters[0].NewJobID, e.letters[0].Status, e.redrives = pawl.ID{1: 2}, pawl.StatusResolved, 2
	for i, state := range []pawl.JobState{pawl.JobRemoved, pawl.JobDone} {
		e.jobs = append(e.jobs, pawl.JobView{ID: pawl.ID{1: byte(i + 1)}, Kind: profilePost.Name(), State: state, Attempt: i})
	}
	e.profiles[pawl.ID{1: 2}.String()] = true
	if r := e.report(); !r.Reconciled || r.Enqueued != 6 || r.Redriven != 2 || r.Removed != 1 {
		t.Errorf("after two redrives of a letter: %+v", r)
	}

	e = sound() // retried under its own id
	e.letters[0].NewJobID, e.letters[0].Status = e.letters[0].JobID, pawl.StatusResolved
	e.jobs[3].State = pawl.JobDone
	e.profiles[e.jobs[3].ID.String()] = true
	if r := e.report(); !r.Reconciled || r.Enqueued != 4 || r.Redriven != 0 || r.Done != 4 || r.Dead != 0 {
		t.Errorf("after a retry: %+v", r)
	}

	e = sound() // forgotten
	e.letters, e.forgets = nil, 1
	if r := e.report(); !r.Reconciled {
		t.Errorf("after forgetting a letter: %v", r.Problems)
	}
}

func TestReportSeesWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*evidence)
		says  string
	}{
		"job lost":              {func(e *evidence) { e.jobs = e.jobs[1:] }, "4 jobs enqueued"},
		"job doubled":           {func(e *evidence) { e.jobs = append(e.jobs, e.jobs[0]) }, "4 jobs enqueued"},
		"job open":              {func(e *evidence) { e.jobs[0].State = pawl.JobScheduled }, "1 jobs have not ended"},
		"letter missing":        {func(e *evidence) { e.letters = nil }, "1 jobs died, and 0 letters"},
		"letter too many":       {func(e *evidence) { e.letters = append(e.letters, pawl.DeadLetter{ID: pawl.ID{3: 3}}) }, "2 letters"},
		"alert missing":         {func(e *evidence) { e.alerted["email"] = alerted{} }, "no alert at the sink email"},
		"alert of nothing":      {func(e *evidence) { e.alerted["log"]["x"] = true }, "the sink log are about letters"},
		"mail lost":             {func(e *evidence) { delete(e.received, mailID("a")) }, "recorded as sent and have not arrived"},
		"mail not recorded":     {func(e *evidence) { e.received["x"] = 1 }, "not recorded as sent"},
		"done without a mail":   {func(e *evidence) { delete(e.sent, mailID("a")); delete(e.received, mailID("a")) }, "2 mail jobs are done and 1"},
		"done without its post": {func(e *evidence) { e.profiles = nil }, "the downstream has no profile"},
	} {
		e := sound()
		c.spoil(&e)
		r := e.report()
		if r.Reconciled || !strings.Contains(strings.Join(r.Problems, "\n"), c.says) {
			t.Errorf("%s: reconciled %t, problems %q, want %q", name, r.Reconciled, r.Problems, c.says)
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := sound().report().json(&out); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 || !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		t.Errorf("%d lines", n)
	}
	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"alerts", "by_class", "dead", "dir", "done", "enqueued", "mails", "mails_received", "mails_sent", "mails_twice", "next",
		"problems", "profiles", "reconciled", "redriven", "removed", "retries", "seconds", "sign_ups", "store", "unfinished",
	}
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q: docs/cli.md lists them", got, want)
	}
	classes, _ := fields["by_class"].(map[string]any)
	for _, name := range []string{"transient-exhausted", "permanent", "poison"} {
		if _, ok := classes[name]; !ok {
			t.Errorf("no class %s", name)
		}
	}
}

func TestHintsAreCommandLines(t *testing.T) {
	t.Parallel()
	unknown := deadProfile(t, profileArgs{"u-1", "astro'naut"}, pawl.DeathPermanent, "1")
	alike := deadProfile(t, profileArgs{"u-2", "root"}, pawl.DeathPermanent, "1")
	refused := deadProfile(t, profileArgs{"u-3", "viewer"}, pawl.DeathPermanent, "2")
	damaged := pawl.DeadLetter{ID: pawl.ID{1: 4}, Class: pawl.DeathPoison, Fingerprint: "3", Envelope: []byte("x")}
	closed := deadProfile(t, profileArgs{"u-5", "viewer"}, pawl.DeathExhausted, "4")
	closed.Status = pawl.StatusResolved
	letters := []pawl.DeadLetter{unknown, alike, refused, damaged, closed}
	got, err := hints("pawl", "/tmp/it's here", letters, func(id pawl.ID) (pawl.DeadLetter, error) {
		return letters[slices.IndexFunc(letters, func(l pawl.DeadLetter) bool { return l.ID == id })], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const store = ` --store 'sqlite:/tmp/it'\''s here/pawl.db'`
	want := []string{
		"pawl dead list" + store,
		"pawl dead redrive " + unknown.ID.String() + ` --args '{"sign_up":"u-1","role":"viewer"}'` + store,
		"pawl dead redrive " + refused.ID.String() + store,
		"pawl dead discard " + damaged.ID.String() + store,
		`pawl demo --resume --dir '/tmp/it'\''s here'`,
	}
	var commands []string
	for _, h := range got {
		commands = append(commands, h.command)
	}
	if !slices.Equal(commands, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(commands, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasSuffix(got[1].note, "(one of 2)") {
		t.Errorf("note %q", got[1].note)
	}
}

func deadProfile(t *testing.T, args profileArgs, class pawl.DeathClass, group string) pawl.DeadLetter {
	t.Helper()
	job, err := profilePost.New(t.Context(), pawl.Connection{}, args)
	if err != nil {
		t.Fatal(err)
	}
	return pawl.DeadLetter{ID: pawl.NewID(), JobID: job.ID, Envelope: job.Envelope, Class: class, Fingerprint: group}
}
