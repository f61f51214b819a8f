package desktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// letterCase is a filter that the benchmark asks by.
type letterCase struct {
	name   string
	filter pawl.LetterFilter
}

// letterCases are every field of a filter, by what matches many letters and what matches one or none, and fields together.
func letterCases(now time.Time, one pawl.DeadLetter) []letterCase {
	dead, closed := []pawl.Status{pawl.StatusDead}, []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded}
	week, day, month := now.Add(-7*24*time.Hour), now.Add(-24*time.Hour), now.Add(-60*24*time.Hour)
	return []letterCase{
		{"all", pawl.LetterFilter{}},
		{"oldest", pawl.LetterFilter{OldestFirst: true}},
		{"status", pawl.LetterFilter{Status: dead}},
		{"statuses", pawl.LetterFilter{Status: closed}},
		{"rare-status", pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDiscarded}}},
		{"class", pawl.LetterFilter{Class: []pawl.DeathClass{pawl.DeathPermanent, pawl.DeathPoison}, Status: dead}},
		{"rare-class", pawl.LetterFilter{Class: []pawl.DeathClass{pawl.DeathPoison}, Reason: pawl.ReasonCrashLoop, OldestFirst: true}},
		{"reason", pawl.LetterFilter{Reason: pawl.ReasonBudget}},
		{"rare-reason", pawl.LetterFilter{Reason: pawl.ReasonCrashLoop, Status: dead}},
		{"kind", pawl.LetterFilter{Kind: "kind-3.v1", Status: dead}},
		{"rare-kind", pawl.LetterFilter{Kind: "needle.v1"}},
		{"no-kind", pawl.LetterFilter{Kind: "none.v1", OldestFirst: true}},
		{"queue", pawl.LetterFilter{Queue: "2-default", Status: dead}},
		{"rare-queue", pawl.LetterFilter{Queue: "9-needle"}},
		{"connection", pawl.LetterFilter{Connection: "default"}},
		{"rare-connection", pawl.LetterFilter{Connection: "needle", Status: dead}},
		{"group", pawl.LetterFilter{Fingerprint: benchGroup(7), Status: dead}},
		{"rare-group", pawl.LetterFilter{Fingerprint: one.Fingerprint, Kind: "needle.v1"}},
		{"tag", pawl.LetterFilter{Tag: "vip"}},
		{"some-tag", pawl.LetterFilter{Tag: "team-3", Status: dead}},
		{"rare-tag", pawl.LetterFilter{Tag: "needle", Status: dead, OldestFirst: true}},
		{"text", pawl.LetterFilter{Text: "refused"}},
		{"some-text", pawl.LetterFilter{Text: "10.0.0.77:25", Status: dead}},
		{"rare-text", pawl.LetterFilter{Text: "Needle", Status: dead, OldestFirst: true}},
		{"no-text", pawl.LetterFilter{Text: "no such text"}},
		{"correlation", pawl.LetterFilter{CorrelationID: one.CorrelationID, OldestFirst: true}},
		{"job", pawl.LetterFilter{JobID: one.JobID}},
		{"batch", pawl.LetterFilter{Batch: one.Batch, Status: dead}},
		{"rare-in-batch", pawl.LetterFilter{Batch: one.Batch, Kind: "needle.v1", OldestFirst: true}},
		{"text-in-batch", pawl.LetterFilter{Batch: one.Batch, Text: "needle"}},
		{"since", pawl.LetterFilter{Since: day}},
		{"until", pawl.LetterFilter{Until: day, Status: dead}},
		{"between", pawl.LetterFilter{Since: week, Until: day, Status: dead}},
		{"status-before", pawl.LetterFilter{StatusBefore: week, Status: closed}},
		{"dead-before", pawl.LetterFilter{StatusBefore: week, Status: dead, OldestFirst: true}},
		{"rare-before", pawl.LetterFilter{StatusBefore: month}},
		{"regression", pawl.LetterFilter{Regression: true}},
		{"kind-tag-since", pawl.LetterFilter{Kind: "kind-3.v1", Tag: "team-3", Since: week, Status: dead}},
		{"kind-text", pawl.LetterFilter{Kind: "kind-3.v1", Text: "refused", Status: dead}},
		{"contrary", pawl.LetterFilter{Kind: "kind-3.v1", Text: "needle", Tag: "vip", Queue: "2-default", OldestFirst: true}},
		{"all-fields", pawl.LetterFilter{
			Status: dead, Class: []pawl.DeathClass{one.Class}, Reason: one.Reason, Kind: one.Kind, Queue: one.Queue, Connection: one.Connection,
			CorrelationID: one.CorrelationID, Tag: "needle", Since: month, Until: now.Add(time.Hour), StatusBefore: now.Add(time.Hour), Text: "needle",
		}},
	}
}

// benchGroup is the key of a group.
func benchGroup(n int) string { return pawl.Fingerprint(fmt.Sprintf("kind-%d.v1", n), "", "") }

// BenchmarkLetters asks a store with 100,000 letters of 25 days, and reports the slowest hundredth of the answers too.
func BenchmarkLetters(b *testing.B, open Opener) {
	d := open(b)
	one := manyLetters(d, 100_000)
	for _, c := range letterCases(time.Now(), one) {
		b.Run("list/"+c.name, func(b *testing.B) {
			timeEach(b, func() error {
				_, err := d.Letters(b.Context(), c.filter, pawl.Page{})
				return err
			})
		})
		b.Run("count/"+c.name, func(b *testing.B) {
			timeEach(b, func() error {
				_, err := d.CountLetters(b.Context(), c.filter)
				return err
			})
		})
		b.Run("groups/"+c.name, func(b *testing.B) {
			timeEach(b, func() error {
				_, err := d.LetterGroups(b.Context(), c.filter, 0)
				return err
			})
		})
	}
}

// manyLetters fills a store with about so many letters, of which one in ten is closed, and returns one that is like no other.
func manyLetters(d Desk, all int) pawl.DeadLetter {
	d.Helper()
	const first, groups = 500, 100
	reasons := []pawl.Reason{pawl.ReasonBudget, pawl.ReasonBudget, pawl.ReasonTimeout, pawl.ReasonPermanent}
	some, batch := Letters(first), pawl.NewID()
	for i := range some {
		l := &some[i]
		l.Kind, l.Queue = fmt.Sprintf("kind-%d.v1", i%20), []string{"1-critical", "2-default", "3-bulk"}[i%3]
		l.Fingerprint = benchGroup(i % groups)
		l.Message = fmt.Sprintf("welcome user %d: deliver to relay-%d.mail.example.org: dial tcp 10.0.0.%d:25: connect: connection refused", 7919*i, i%7, i)
		if i%20 == 19 { // what a server has answered with
			for n := range 40 {
				l.Message += fmt.Sprintf("; %d-%d.7.1 policy %d of this relay", 421+i%3, n, i*n)
			}
		}
		l.Reason = reasons[i%4]
		l.Class = map[bool]pawl.DeathClass{true: pawl.DeathPermanent}[l.Reason == pawl.ReasonPermanent]
		if i%10 == 3 {
			l.Batch = batch
		}
		l.Tags, l.CorrelationID = []string{"vip", fmt.Sprintf("team-%d", i%10)}, pawl.NewID().String()
	}
	d.Record(some[:groups]...)
	var moves []pawl.Move
	for i := range groups / 2 {
		moves = append(moves, pawl.Move{Letter: some[2*i].ID, Action: pawl.ActionResolve, By: Ada()})
	}
	_, err := d.MoveLetters(d.Context(), moves)
	d.OK("resolve", err)
	d.Record(some[groups:]...) // half of them in groups that were resolved
	d.Tables.Multiply(d, all/first, 3*time.Hour)
	needle := Letter(func(l *pawl.DeadLetter) {
		l.Kind, l.Queue, l.Connection, l.Fingerprint, l.Message = "needle.v1", "9-needle", "needle", "1-needle", "a needle"
		l.Batch = batch
		l.Class, l.Reason, l.Tags, l.CorrelationID = pawl.DeathPoison, pawl.ReasonCrashLoop, []string{"needle"}, pawl.NewID().String()
	})
	d.Record(needle)
	return needle
}

// timeEach reports the slowest hundredth as well.
func timeEach(b *testing.B, call func() error) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
