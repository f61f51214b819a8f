package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones are there on machines that have none

	"github.com/netresearch/go-cron"
	"github.com/pawljobs/pawl"
)

// Bounds of specs.
const (
	maxSpec  = 256                       // bytes
	maxEvery = 10 * 365 * 24 * time.Hour // of an interval
)

// Timetable is a spec that was read: it knows its ticks. Make one with Parse or Of.
type Timetable struct {
	zone  *time.Location
	every int64 // seconds of an interval; 0: by cron
	cron  fields
	from  int64 // of intervals: a tick to count from

	begin, end time.Time // no tick is before or after; zero: no bound
	jitter     time.Duration
	name       string // of the schedule, for the jitter
}

// macros are specs under other names, as in crontab.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads a spec, to be understood in the zone of this IANA name; "" is UTC. Its error is a *pawl.FieldError that
// names the field.
func Parse(spec, zone string) (Timetable, error) {
	t := Timetable{}
	var err error
	if t.zone, err = loadZone(zone); err != nil {
		return Timetable{}, err
	}
	refuse := func(format string, args ...any) error {
		return &pawl.FieldError{Field: "spec", Value: spec, Rule: fmt.Sprintf(format, args...)}
	}
	trimmed := strings.TrimSpace(spec)
	switch {
	case trimmed == "" || len(spec) > maxSpec:
		return Timetable{}, refuse("must have 1 to %d bytes", maxSpec)
	case strings.HasPrefix(trimmed, "TZ=") || strings.HasPrefix(trimmed, "CRON_TZ="):
		return Timetable{}, refuse("must not name a zone: the schedule's zone is a field of its own")
	}
	if text, ok := strings.CutPrefix(trimmed, "@every "); ok {
		trimmed = strings.TrimSpace(text)
		t.every, err = parseEvery(trimmed)
	} else if cronSpec, ok := macros[strings.ToLower(trimmed)]; ok {
		t.cron, err = parseCron(cronSpec)
	} else if strings.HasPrefix(trimmed, "@") {
		err = fmt.Errorf("must be @every with an interval, @hourly, @daily, @weekly, @monthly or @yearly")
	} else if len(strings.Fields(trimmed)) == 1 {
		t.every, err = parseEvery(trimmed)
	} else {
		t.cron, err = parseCron(trimmed)
	}
	if err != nil {
		return Timetable{}, refuse("%v", err)
	}
	if _, ok := t.cron.next(time.Now().Unix()); t.every == 0 && !ok {
		return Timetable{}, refuse("names no date that ever comes")
	}
	return t, nil
}

// loadZone refuses Local: what that is differs from host to host.
func loadZone(name string) (*time.Location, error) {
	name = cmp.Or(name, "UTC")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &pawl.FieldError{Field: "zone", Value: name, Rule: "must be the name of a time zone, such as Europe/Berlin or UTC"}
	}
	return zone, nil
}

func parseEvery(text string) (int64, error) {
	every, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("must be five or six cron fields, @daily or its like, or an interval such as 90s or 12h")
	}
	if every < time.Second || every > maxEvery || every%time.Second != 0 {
		return 0, fmt.Errorf("an interval must be whole seconds, at least 1s and at most 10 years")
	}
	return int64(every / time.Second), nil
}

// The fields of a cron spec, in order.
var fieldNames = [...]string{"second", "minute", "hour", "day of month", "month", "day of week"}

var parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.DomL | cron.DowNth | cron.DowLast | cron.DowOrDom)

// parseCron reads the fields one by one first, so that an error can name the one that is wrong.
func parseCron(spec string) (fields, error) {
	texts := strings.Fields(spec)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) != len(fieldNames) {
		return fields{}, fmt.Errorf("must have five fields (minute, hour, day of month, month, day of week), or six with the second before them; it has %d", len(texts))
	}
	for i, text := range texts {
		if err := checkField(i, text); err != nil {
			return fields{}, fmt.Errorf("the %s field %q: %w", fieldNames[i], text, err)
		}
	}
	parsed, err := parser.Parse(strings.Join(texts, " "))
	if err != nil {
		return fields{}, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fields{}, fmt.Errorf("is a %T", parsed)
	}
	return newFields(s), nil
}

// checkField reads one field alone.
func checkField(i int, text string) error {
	for _, part := range strings.Split(text, ",") {
		if part == "" {
			return fmt.Errorf("a list must not have empty places")
		}
	}
	alone := [...]string{"*", "*", "*", "*", "*", "*"}
	alone[i] = text
	_, err := parser.Parse(strings.Join(alone[:], " "))
	return err
}
