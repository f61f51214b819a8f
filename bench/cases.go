package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// Names of the cases.
const (
	oldSnapshot   = "old snapshot held, 300k jobs"
	scheduledJobs = "1M scheduled"
	finishedJobs  = "5M finished"
	deadLetters   = "100k dead"
	manyQueues    = "32 queues"
	foreignHead   = "1M rows of a foreign kind at the head"
	fourHosts     = "4 hosts"
	sixteenHosts  = "16 hosts"
	openWriter    = "a writer open beside a held snapshot"
	failingJobs   = "5 % retries"
	dueAtOnce     = "1M due at once"
	uniqueKeys    = "20 % unique keys"
	largePayloads = "10 KB payloads"
	deadHost      = "recovery of a dead host among 5M ready"
)

// cases are what must not slow the store down. The names have the sizes of a full run; a quick one has a tenth.
func cases(b *bench) []Scenario {
	jobs := b.size(300_000, 20_000)
	withTask := func(name string, rounds int, worse func(*child.Task), others ...string) *degradation {
		return degradationOf(b, name, jobs, rounds, worse, others...)
	}
	twice := b.size(2, 1)
	return []Scenario{
		snapshotCase(b),
		withTask(scheduledJobs, 1, func(t *child.Task) { t.Scheduled = b.size(1_000_000, 100_000) }, side.River),
		finishedCase(b, jobs),
		deadCase(b, jobs),
		withTask(manyQueues, twice, func(t *child.Task) { t.Queues = 32 }, side.River),
		withTask(foreignHead, twice, func(t *child.Task) { t.Foreign = b.size(1_000_000, 100_000) }),
		withTask(fourHosts, twice, func(t *child.Task) { t.Hosts = 4 }),
		withTask(sixteenHosts, twice, func(t *child.Task) { t.Hosts = 16 }),
		writerCase(b, jobs),
		withTask(failingJobs, twice, func(t *child.Task) { t.Failing = 0.05 }),
		withTask(dueAtOnce, 1, func(t *child.Task) { t.Jobs, t.DueAtOnce = b.size(1_000_000, 50_000), true }),
		uniqueCase(b, jobs),
		payloadCase(b),
		newRecovery(b),
	}
}

// snapshotCase holds a snapshot from before the first job to after the last, so that nothing dead can be vacuumed away.
func snapshotCase(b *bench) Scenario {
	d := degradationOf(b, oldSnapshot, b.size(300_000, 30_000), b.size(2, 1), nil, side.River)
	d.trouble = func(ctx context.Context, which trouble) (func(), error) { return holdSnapshot(ctx, which.url) }
	return d
}

// finishedCase has finished jobs in the tables: a fifth of them for River, which takes minutes to be given as many.
func finishedCase(b *bench, jobs int) Scenario {
	d := degradationOf(b, finishedJobs, jobs, 1, nil, side.River)
	d.trouble = func(ctx context.Context, which trouble) (func(), error) {
		if which.side == side.River {
			return nil, addFinishedRiver(ctx, which.url, b.size(1_000_000, 100_000))
		}
		return nil, addFinished(ctx, which.url, b.size(5_000_000, 500_000))
	}
	return d
}

func deadCase(b *bench, jobs int) Scenario {
	d := degradationOf(b, deadLetters, jobs, b.size(2, 1), nil)
	d.trouble = func(ctx context.Context, which trouble) (func(), error) {
		return nil, addLetters(ctx, which.url, b.size(100_000, 10_000))
	}
	return d
}

// writerCase has a transaction that draws the first place in the queue and commits when all others have been run. Its
// job has to be found then.
func writerCase(b *bench, jobs int) Scenario {
	d := degradationOf(b, openWriter, jobs, b.size(2, 1), func(t *child.Task) { t.Late = true })
	var commit func(ctx context.Context) error
	d.trouble = func(ctx context.Context, which trouble) (func(), error) {
		end, err := holdSnapshot(ctx, which.url)
		if err != nil {
			return nil, err
		}
		var rollback func()
		commit, rollback, err = openLate(ctx, which.url)
		return func() { rollback(); end() }, err
	}
	d.hooks = func(trouble) child.Hooks {
		return child.Hooks{load.PhaseLate: func(ctx context.Context) error { return commit(ctx) }}
	}
	return d
}

// uniqueCase counts the enqueue too, where keys are looked after.
func uniqueCase(b *bench, jobs int) Scenario {
	d := degradationOf(b, uniqueKeys, jobs, b.size(2, 1), func(t *child.Task) { t.Unique = 0.2 })
	d.perLife = true
	return d
}

// payloadCase counts the enqueue too. The raw limit shows what the bytes themselves cost.
func payloadCase(b *bench) Scenario {
	d := degradationOf(b, largePayloads, b.size(20_000, 3_000), b.size(2, 1), func(t *child.Task) { t.Payload = 10_000 }, side.Raw)
	d.perLife = true
	return d
}

// machine says where a run was made.
func machine(b *bench) string {
	return fmt.Sprintf("PostgreSQL %s, %s, %d cores", b.server.Version(), runtime.Version(), runtime.NumCPU())
}
