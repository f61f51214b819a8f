package schedule_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

func at(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// Case 31: what was missed while nobody was there.
func TestCase31MissedTicks(t *testing.T) {
	t.Parallel()
	every := func(spec string, change ...func(*pawl.Schedule)) pawl.Schedule {
		s := pawl.Schedule{Name: "s", Spec: spec, Kind: "k.v1"}
		for _, c := range change {
			c(&s)
		}
		return schedule.Complete(s)
	}
	skip := func(s *pawl.Schedule) { s.Missed = pawl.MissedSkip }
	allOf := func(n int) func(s *pawl.Schedule) {
		return func(s *pawl.Schedule) { s.Missed, s.MaxMissed, s.Overlap = pawl.MissedAll, n, pawl.OverlapAllow }
	}
	until := func(text string) func(s *pawl.Schedule) { return func(s *pawl.Schedule) { s.Until = at(text) } }
	for name, row := range map[string]struct {
		s         pawl.Schedule
		next, now string
		fire      []string
		missed    int
		then      string
	}{
		"not due":                   {every("* * * * *"), "2026-01-01 10:00:00", "2026-01-01 09:59:59", nil, 0, "2026-01-01 10:00:00"},
		"due now":                   {every("* * * * *"), "2026-01-01 10:00:00", "2026-01-01 10:00:00", []string{"2026-01-01 10:00:00"}, 0, "2026-01-01 10:01:00"},
		"on time":                   {every("0 * * * *", skip), "2026-01-01 10:00:00", "2026-01-01 10:01:00", []string{"2026-01-01 10:00:00"}, 0, "2026-01-01 11:00:00"},
		"too late to be on time":    {every("0 * * * *", skip), "2026-01-01 10:00:00", "2026-01-01 10:01:01", nil, 1, "2026-01-01 11:00:00"},
		"once, however late":        {every("0 2 * * *"), "2026-01-01 02:00:00", "2026-01-01 21:00:00", []string{"2026-01-01 02:00:00"}, 0, "2026-01-02 02:00:00"},
		"once, for five minutes":    {every("* * * * *"), "2026-01-01 10:00:00", "2026-01-01 10:05:10", []string{"2026-01-01 10:05:00"}, 5, "2026-01-01 10:06:00"},
		"skip, for five minutes":    {every("* * * * *", skip), "2026-01-01 10:00:00", "2026-01-01 10:05:10", []string{"2026-01-01 10:05:00"}, 5, "2026-01-01 10:06:00"},
		"skip, for hours":           {every("0 * * * *", skip), "2026-01-01 10:00:00", "2026-01-01 13:30:00", nil, 4, "2026-01-01 14:00:00"},
		"all, under the cap":        {every("* * * * *", allOf(10)), "2026-01-01 10:00:00", "2026-01-01 10:02:10", []string{"2026-01-01 10:00:00", "2026-01-01 10:01:00", "2026-01-01 10:02:00"}, 0, "2026-01-01 10:03:00"},
		"all, the latest ones":      {every("* * * * *", allOf(2)), "2026-01-01 10:00:00", "2026-01-01 10:05:10", []string{"2026-01-01 10:04:00", "2026-01-01 10:05:00"}, 4, "2026-01-01 10:06:00"},
		"a year of seconds":         {every("* * * * * *"), "2025-01-01 10:00:00", "2026-01-01 10:00:00", []string{"2026-01-01 10:00:00"}, 999, "2026-01-01 10:00:01"},
		"the last one":              {every("0 2 * * *", until("2026-01-02 01:59:59")), "2026-01-01 02:00:00", "2026-01-01 02:00:00", []string{"2026-01-01 02:00:00"}, 0, ""},
		"changed since, but stored": {every("0 5 * * *"), "2026-01-01 02:00:00", "2026-01-01 02:00:10", []string{"2026-01-01 02:00:00"}, 0, "2026-01-01 05:00:00"},
		"once, an interval":         {every("90s"), "2026-01-01 00:00:00", "2026-01-01 00:06:00", []string{"2026-01-01 00:06:00"}, 4, "2026-01-01 00:07:30"},
	} {
		plan, err := schedule.PlanAt(row.s, at(row.next), at(row.next), at(row.now))
		if err != nil {
			t.Fatal(name, err)
		}
		var fire []time.Time
		for _, tick := range row.fire {
			fire = append(fire, at(tick))
		}
		if !slices.EqualFunc(plan.Fire, fire, time.Time.Equal) || plan.Missed != row.missed || !plan.Next.Equal(at(row.then)) || !plan.Due.Equal(at(row.then)) {
			t.Errorf("%s: got %+v", name, plan)
		}
	}
}

// A tick is delayed by less than the jitter, always by the same, and others differ. One that is not due yet is neither
// fired nor missed.
func TestJitter(t *testing.T) {
	t.Parallel()
	s := schedule.Complete(pawl.Schedule{Name: "s", Spec: "*/10 * * * *", Kind: "k.v1", Jitter: 9 * time.Minute})
	if err := schedule.Check(s); err != nil {
		t.Fatal(err)
	}
	waits := map[time.Duration]bool{}
	now := at("2026-01-01 10:00:00")
	for range 100 {
		next, due, err := schedule.First(s, now, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		wait := due.Sub(next)
		if wait < 0 || wait >= s.Jitter {
			t.Fatalf("%s is delayed by %s", next, wait)
		}
		waits[wait] = true
		early, err := schedule.PlanAt(s, next, due, due.Add(-time.Millisecond))
		if err != nil || len(early.Fire)+early.Missed != 0 || !early.Next.Equal(next) || !early.Due.Equal(due) {
			t.Fatalf("early: %+v, %v", early, err)
		}
		plan, err := schedule.PlanAt(s, next, due, due)
		if err != nil || len(plan.Fire) != 1 || !plan.Fire[0].Equal(next) || plan.Missed != 0 || !plan.Next.Equal(next.Add(10*time.Minute)) {
			t.Fatalf("due: %+v, %v", plan, err)
		}
		now = next
	}
	if len(waits) < 90 {
		t.Errorf("only %d waits of 100 differ", len(waits))
	}
}

// Case 33: a weekly schedule in a process that is restarted every day: what is due is a matter of what is stored and of
// the clock alone.
func TestCase33WeeklyWithARestartEveryDay(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"@weekly", "168h", "0 9 * * MON"} {
		s := schedule.Complete(pawl.Schedule{Name: "weekly", Spec: spec, Kind: "k.v1"})
		now := at("2025-12-31 12:00:00")
		next, _, err := schedule.First(s, now, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		fired := 0
		for range 7 * 52 { // a process that lives for an hour each day
			for range 60 {
				plan, err := schedule.PlanAt(s, next, next, now)
				if err != nil {
					t.Fatal(err)
				}
				fired, next = fired+len(plan.Fire), plan.Next
				now = now.Add(time.Minute)
			}
			now = now.Add(23 * time.Hour)
		}
		if fired != 52 {
			t.Errorf("%s has fired %d times in 52 weeks", spec, fired)
		}
	}
}

type reportArgs struct {
	Region string `json:"region"`
}

var report = pawl.NewKind[reportArgs]("report.v1", pawl.Policy{Queue: "3-bulk", MaxTries: 1, Redrive: pawl.RedriveNever, StartsOff: true})

func TestNewAndItsJobs(t *testing.T) {
	t.Parallel()
	s, err := schedule.New(report, reportArgs{"eu"}, pawl.Schedule{Name: "report nightly", Spec: "30 2 * * *", Tags: []string{"eu"}, Policy: pawl.Policy{Queue: "2-default"}})
	if err != nil {
		t.Fatal(err)
	}
	connection := pawl.Connection{Name: "c", Policy: pawl.Policy{Timeout: time.Hour}}
	tick := at("2026-01-01 02:30:00")
	job, err := schedule.JobOf(connection, s, tick)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := schedule.JobOf(connection, s, tick)
	other, _ := schedule.JobOf(connection, s, tick.Add(time.Second))
	elsewhere, _ := schedule.JobOf(pawl.Connection{Name: "d"}, s, tick)
	if job.ID != again.ID || job.ID == other.ID || job.ID == elsewhere.ID {
		t.Errorf("ids %s %s %s %s", job.ID, again.ID, other.ID, elsewhere.ID)
	}
	e, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != "report.v1" || string(e.Args) != `{"region":"eu"}` || e.Policy.Queue != "2-default" || e.Policy.Timeout != time.Hour ||
		e.Policy.MaxTries != 1 || e.Policy.Redrive != pawl.RedriveNever || !e.Policy.StartsOff || !job.StartsOff || !job.Once || e.Tags[0] != "eu" {
		t.Errorf("envelope %+v", e)
	}
	name, when, manual, ok := schedule.Origin(e.Origin)
	if name != "report nightly" || !when.Equal(tick) || manual || !ok {
		t.Errorf("origin %q: %q %s %v %v", e.Origin.Ref, name, when, manual, ok)
	}
	now, err := schedule.JobNow(connection, s, tick)
	if err != nil {
		t.Fatal(err)
	}
	e, _ = pawl.DecodeEnvelope(now.Envelope)
	if name, when, manual, ok = schedule.Origin(e.Origin); name != "report nightly" || !when.Equal(tick) || !manual || !ok || now.ID == job.ID {
		t.Errorf("origin of a run now %q: %q %s %v %v", e.Origin.Ref, name, when, manual, ok)
	}
	for _, origin := range []pawl.Origin{{}, {Source: pawl.OriginSchedule, Ref: "x"}, {Source: pawl.OriginRedrive, Ref: "2026-01-01T00:00:00Z s"}} {
		if _, _, _, ok := schedule.Origin(origin); ok {
			t.Errorf("%+v counts as a schedule's", origin)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(s *pawl.Schedule)
		rule   string
	}{
		"no name":         {func(s *pawl.Schedule) { s.Name = "" }, "invalid schedule name"},
		"spec":            {func(s *pawl.Schedule) { s.Spec = "61 * * * *" }, "invalid spec"},
		"zone":            {func(s *pawl.Schedule) { s.Zone = "Mars/Olympus" }, "invalid zone"},
		"kind":            {func(s *pawl.Schedule) { s.Kind = "" }, "invalid kind"},
		"args":            {func(s *pawl.Schedule) { s.Args = json.RawMessage("{") }, "invalid args"},
		"tags":            {func(s *pawl.Schedule) { s.Tags = []string{""} }, "invalid tag"},
		"policy":          {func(s *pawl.Schedule) { s.Policy.MaxTries = -1 }, "invalid max tries"},
		"missed":          {func(s *pawl.Schedule) { s.Missed = "maybe" }, "invalid missed"},
		"overlap":         {func(s *pawl.Schedule) { s.Overlap = "maybe" }, "invalid overlap"},
		"all and skip":    {func(s *pawl.Schedule) { s.Missed, s.MaxMissed = pawl.MissedAll, 5 }, "unless overlap is allow"},
		"cap without all": {func(s *pawl.Schedule) { s.MaxMissed = 5 }, "unless missed is all"},
		"cap": {func(s *pawl.Schedule) {
			s.Missed, s.MaxMissed, s.Overlap = pawl.MissedAll, 101, pawl.OverlapAllow
		}, "must be from 1 to 100"},
		"jitter":       {func(s *pawl.Schedule) { s.Jitter = -1 }, "invalid jitter"},
		"large jitter": {func(s *pawl.Schedule) { s.Spec, s.Jitter = "*/5 * * * *", 5*time.Minute }, "less than the time between two ticks: 5m0s"},
		"bounds":       {func(s *pawl.Schedule) { s.From, s.Until = at("2027-01-01 00:00:00"), at("2026-01-01 00:00:00") }, "must not be before from"},
		"early":        {func(s *pawl.Schedule) { s.From = at("1969-01-01 00:00:00") }, "must be a time from 1970"},
	} {
		s := schedule.Complete(pawl.Schedule{Name: "nightly", Spec: "30 2 * * *", Kind: "k.v1"})
		if err := schedule.Check(s); err != nil {
			t.Fatal(err)
		}
		row.change(&s)
		if err := schedule.Check(s); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), row.rule) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := schedule.Complete(pawl.Schedule{Name: "past", Spec: "30 2 * * *", Kind: "k.v1", Until: at("2026-01-01 00:00:00")})
	if _, _, err := schedule.First(s, at("2026-01-01 00:00:00"), time.Time{}); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "invalid until") {
		t.Errorf("a bound in the past: %v", err)
	}
	if err := schedule.Check(schedule.Remove("nightly")); err != nil {
		t.Errorf("a removal: %v", err)
	}
}

// What is stored comes back, and a declaration is known again by its fingerprint.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	s := schedule.Complete(pawl.Schedule{
		Name: "n", Spec: "*/5 * * * *", Zone: "Asia/Kathmandu", Kind: "k.v1", Args: json.RawMessage(`{"a": 1}`), Tags: []string{"x"},
		Missed: pawl.MissedAll, MaxMissed: 3, Overlap: pawl.OverlapAllow, Jitter: time.Minute, From: at("2026-01-01 00:00:00"), Until: at("2027-01-01 00:00:00"),
		Policy: pawl.Policy{Queue: "q", MaxTries: 2, Backoff: []time.Duration{1, 2}, Jitter: 0.5, Timeout: 3, RetryFor: 4, Redrive: pawl.RedriveNever, StartsOff: true, Limit: pawl.Limit{Concurrency: 5}},
	})
	for _, value := range []reflect.Value{reflect.ValueOf(s.Policy), reflect.ValueOf(s)} {
		for i := range value.NumField() {
			if name := value.Type().Field(i).Name; value.Field(i).IsZero() && name != "Removed" {
				t.Errorf("this test has not heard of the field %s: is it stored?", name)
			}
		}
	}
	encoded, err := schedule.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	back := pawl.Schedule{Name: s.Name, Kind: s.Kind, Args: s.Args, From: s.From, Until: s.Until}
	if err := schedule.Decode(encoded, &back); err != nil {
		t.Fatal(err)
	}
	first, err := schedule.Fingerprint(s)
	second, err2 := schedule.Fingerprint(back)
	if err != nil || err2 != nil || first != second || !reflect.DeepEqual(back, s) {
		t.Errorf("%s gives %+v (%v, %v)", encoded, back, err, err2)
	}
	for name, change := range map[string]func(s *pawl.Schedule){
		"args": func(s *pawl.Schedule) { s.Args = json.RawMessage(`{"a":1}`) },
		"kind": func(s *pawl.Schedule) { s.Kind = "k.v2" }, "from": func(s *pawl.Schedule) { s.From = time.Time{} },
		"policy": func(s *pawl.Schedule) { s.Policy.StartsOff = false }, "zone": func(s *pawl.Schedule) { s.Zone = "UTC" },
		"removed": func(s *pawl.Schedule) { s.Removed = true },
	} {
		changed := s
		change(&changed)
		if other, _ := schedule.Fingerprint(changed); other == first {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	if err := schedule.Decode("{", &back); err == nil {
		t.Error("damaged text was read")
	}
}
