// Package schedule says what a recurring job is: when its ticks are, what becomes of those that were missed, and which
// job a tick makes. The stores do the rest: they keep schedules (pawl.Schedules), and whichever host looks first after
// a tick is due moves the schedule on and stores the job, in one transaction.
//
//	nightly, err := schedule.New(Report, ReportArgs{}, pawl.Schedule{
//		Name: "report.nightly", Spec: "30 2 * * *", Zone: "Europe/Berlin",
//	})
//	h, err := host.New(store, mux, host.Config{Schedules: []pawl.Schedule{nightly}})
//
// # Specs
//
// Five fields, minute, hour, day of month, month and day of week; or six, with the second before them. A field is *, a
// number, a range 1-5, a step */15 or 10-40/10, or a list of these with commas; ranges may go past the end (22-2).
// Months and days of the week have English names of three letters. 0 and 7 are Sunday. In the day of month, L is the
// last day and L-3 the third before it; in the day of week, FRI#2 is the second Friday of the month and FRI#L the
// last. Where both day fields say something, a day that fits either is a day (as in crontab).
//
// @yearly, @monthly, @weekly (Sunday), @daily and @hourly are cron specs under other names. @every 90s, or just 90s, is
// an interval of whole seconds. It is counted from Schedule.From, else from 1970-01-01 00:00 UTC, and not from when a
// host started: however often hosts restart, the ticks stay where they are.
//
// # When clocks change
//
// Two rules, by the hour field.
//
// Where it names hours, a tick is a time on the wall, and happens once: when the clock first shows that time or a later
// one. A time that the clock skips is therefore at the first instant after the gap, and one that it shows twice at the
// first of the two. "30 2 * * *" in America/New_York is at 03:00 on the day on which 02:00 to 03:00 is skipped.
//
// Where the hour is *, ticks follow elapsed time: whenever the clock shows a minute that fits. "15 * * * *" is hourly
// through both changes, at 00:15, 01:15, 01:15 and 02:15 when an hour is repeated, and at 01:15 and 03:15 when one is
// skipped; "*/15 * * * *" is every 15 minutes. (Where clocks change by half an hour, as on Lord Howe Island, "45 * * * *"
// runs at both 01:45 when 01:30 to 02:00 is repeated, half an hour apart.)
//
// docs/schedules.md has more examples.
package schedule
