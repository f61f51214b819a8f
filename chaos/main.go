//go:build linux

// Command chaos proves what Pawl promises: it runs hosts in processes of their own on PostgreSQL and on one SQLite
// file, lets them work off jobs of every sort, kills, stops and cuts them off by a plan that a seed determines, and
// checks what all of them have written down against what the store contains in the end. See docs/chaos.md.
//
//	go run ./chaos [-minutes N] [-seed N] [-store postgres|sqlite] [-json FILE]
//
// Files in the order of a run: plan.go is what is to happen, arena.go one store with its hosts and links, faults.go
// does what the plan says, rest.go ends it and reads what is left. process.go, proxy.go and database.go are what is
// broken; worker.go, kinds.go, recorder.go and producer.go are the processes. Package proof decides.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	minutes float64
	seed    uint64
	json    string
	store   string
	need    string
	check   string
}

func main() {
	if text := os.Getenv(taskVariable); text != "" {
		os.Exit(runTask(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	status, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	os.Exit(status)
}

// Exit statuses: the promises held, they did not, the run could not be made.
const (
	exitHeld     = 0
	exitBroken   = 1
	exitNoResult = 2
)

func run(ctx context.Context, args []string) (status int, err error) {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitHeld, nil
	case err != nil:
		return exitNoResult, err
	}
	if o.check != "" {
		report, err := checkAgain(o.check)
		if err != nil {
			return exitNoResult, err
		}
		report.Print(os.Stdout)
		return verdict(report), nil
	}
	stores := []string{postgresStore, sqliteStore}
	if o.store != "" {
		stores = []string{o.store}
	}
	span := time.Duration(o.minutes * float64(time.Minute) / float64(len(stores)))
	var reports []Report
	for _, store := range stores {
		plan := NewPlan(store, o.seed, span)
		fmt.Printf("%s: seed %d, %d faults in %s, plan %s\n", store, plan.Seed, len(plan.Steps), span, plan.Digest())
		report, err := Play(ctx, plan, demands(span), o.need)
		if err != nil {
			return exitNoResult, fmt.Errorf("%s: %w", store, err)
		}
		report.Print(os.Stdout)
		reports = append(reports, report)
	}
	if err := writeJSON(o.json, reports); err != nil {
		return exitNoResult, err
	}
	return verdict(reports...), nil
}

// verdict is the exit status of a run that could be made.
func verdict(reports ...Report) int {
	for _, report := range reports {
		if len(report.Findings) > 0 {
			return exitBroken
		}
	}
	return exitHeld
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Float64Var(&o.minutes, "minutes", 2, "how long there are faults, in all")
	flags.Uint64Var(&o.seed, "seed", 0, "of the plan; 0 draws one")
	flags.StringVar(&o.json, "json", "", "also write the figures to `FILE`")
	flags.StringVar(&o.store, "store", "", "only `postgres or sqlite`")
	flags.StringVar(&o.need, "need", "scripts/need", "`PROGRAM` that installs a package, used when there is no PostgreSQL")
	flags.StringVar(&o.check, "check", "", "only look again at the `FOLDER` that an earlier run has kept")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.store != "" && o.store != postgresStore && o.store != sqliteStore:
		return o, fmt.Errorf("store %q: must be postgres or sqlite", o.store)
	case !(o.minutes >= 0.2 && o.minutes <= 24*60): // nor NaN
		return o, fmt.Errorf("%g minutes: must be from 0.2 to 1440", o.minutes)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	return o, nil
}
