package schedule_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/schedule"
	"github.com/pawljobs/pawl/sqlite"
)

type beatArgs struct {
	Region string `json:"region"`
}

// A host declares the schedules of its code; a handler knows which tick its job is of.
func Example() {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	kind := pawl.NewKind[beatArgs]("beat.v1", pawl.Policy{Queue: "1-critical"})
	mux := pawl.NewMux()
	pawl.Handle(mux, kind, func(ctx context.Context, args beatArgs) error {
		name, tick, _, _ := schedule.Origin(pawl.FromContext(ctx).Origin)
		fmt.Println(name, args.Region, tick.Nanosecond() == 0)
		stop() // one tick is enough for an example
		return nil
	})
	beat, err := schedule.New(kind, beatArgs{"eu"}, pawl.Schedule{Name: "beat", Spec: "@every 1s", Missed: pawl.MissedSkip})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := host.New(store, mux, host.Config{Schedules: []pawl.Schedule{beat}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := h.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: beat eu true
}

func ExampleParse() {
	t, err := schedule.Parse("30 2 * * *", "America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	dayBefore := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for _, tick := range t.Upcoming(dayBefore, 2) {
		fmt.Println(tick.In(t.Zone()).Format("Mon 2006-01-02 15:04 MST"))
	}
	_, err = schedule.Parse("0 0 30 2 *", "")
	fmt.Println(err)
	// Output:
	// Sun 2026-03-08 03:00 EDT
	// Mon 2026-03-09 02:30 EDT
	// invalid spec "0 0 30 2 *": names no date that ever comes
}
