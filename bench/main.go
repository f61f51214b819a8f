// Command bench measures Pawl against River on one PostgreSQL, interleaved in one run, with bare statements beside them
// as the limit. It starts the database itself, and each side in a process of its own. It needs Linux.
//
//	go run . [-quick] [-json FILE] [-only REGEXP]
//	go run . -markdown FILE       the table of an earlier run's FILE, for a page
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/server"
)

// How long a run takes: what is repeated ends by then, and on a slow machine the rest some time after.
const (
	fullTime  = 13 * time.Minute
	fullEnd   = 14 * time.Minute
	quickTime = 110 * time.Second
	quickEnd  = 4 * time.Minute
)

type options struct {
	child, quick         bool
	json, markdown, need string
	only                 *regexp.Regexp
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case o.child:
		return load.Main(ctx, os.Stdin, os.Stdout)
	case o.markdown != "":
		return printMarkdown(os.Stdout, o.markdown)
	}
	return measureAll(ctx, o)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.child, "child", false, "do a task from standard input: how bench runs each side (followed by side and load, for those who look at ps)")
	flags.BoolVar(&o.quick, "quick", false, "two minutes instead of fifteen: smaller and fewer measurements")
	flags.StringVar(&o.json, "json", "", "also write the rows that have a target to `FILE`")
	flags.StringVar(&o.markdown, "markdown", "", "only print the table of an earlier run's `FILE`")
	flags.StringVar(&o.need, "need", "../scripts/need", "`PROGRAM` that installs a package, used when there is no PostgreSQL")
	flags.Func("only", "measure only scenarios whose name matches `REGEXP`", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	err = flags.Parse(args)
	return o, err
}

func measureAll(ctx context.Context, o options) error {
	began := time.Now()
	postgres, err := server.Start(ctx, o.need)
	if err != nil {
		return err
	}
	defer postgres.Stop()
	b := &bench{server: postgres, quick: o.quick}
	r := &runner{
		scenarios: scenarios(b), only: o.only, progress: os.Stderr,
		until: began.Add(b.span(fullTime, quickTime)), end: began.Add(b.span(fullEnd, quickEnd)),
	}
	r.run(ctx)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	fmt.Printf("%s; medians (least–greatest)\n\n", machine(b))
	all := rows(r.results)
	if err := printTable(os.Stdout, all); err != nil {
		return err
	}
	fmt.Printf("\nJobs on Redis are not measured: there is no such store yet. The run took %s.\n", time.Since(began).Round(time.Second))
	if o.json != "" {
		if err := writeJSON(o.json, all); err != nil {
			return err
		}
	}
	return errors.Join(r.failed...)
}

// scenarios are all there are, the more important ones first.
func scenarios(b *bench) []Scenario {
	all := []Scenario{newBulk(b)}
	for _, callers := range []int{1, 16, 64} {
		all = append(all, newSingle(b, callers))
	}
	all = append(all, newBurn(b), newDefaultBurn(b), newLatency(b, 100), newLatency(b, 1000), newMemory(b), newSQLiteSingle(b), newSQLiteBurn(b))
	return append(all, cases(b)...)
}
