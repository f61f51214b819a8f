package desktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// BenchmarkLetters asks a store with 100,000 letters, and reports the slowest hundredth of the answers too.
func BenchmarkLetters(b *testing.B, open Opener) {
	const first, all = 500, 100_000
	d := open(b)
	some := Letters(first, func(l *pawl.DeadLetter) { l.Tags = []string{"vip"} })
	for i := range some {
		some[i].Kind = fmt.Sprintf("kind-%d.v1", i%20)
		some[i].Fingerprint = fmt.Sprintf("1-%d", i%100)
		some[i].Message = fmt.Sprintf("dial tcp 10.0.0.%d:25: connection refused", i)
	}
	d.Record(some...)
	d.Tables.Multiply(d, all/first)
	d.Record(Letter(func(l *pawl.DeadLetter) {
		l.Message, l.Tags, l.Kind, l.CorrelationID = "a needle", []string{"needle"}, "needle.v1", "needle"
	}))
	dead := []pawl.Status{pawl.StatusDead}
	for _, c := range []struct {
		name   string
		filter pawl.LetterFilter
	}{
		{"all", pawl.LetterFilter{}},
		{"status", pawl.LetterFilter{Status: dead}},
		{"group", pawl.LetterFilter{Fingerprint: "1-7", Status: dead}},
		{"kind", pawl.LetterFilter{Kind: "kind-3.v1", Status: dead}},
		{"tag", pawl.LetterFilter{Tag: "vip"}},
		{"text", pawl.LetterFilter{Text: "refused"}},
		{"rare-kind", pawl.LetterFilter{Kind: "needle.v1"}},
		{"rare-tag", pawl.LetterFilter{Tag: "needle", Status: dead, OldestFirst: true}},
		{"rare-text", pawl.LetterFilter{Text: "needle", Status: dead, OldestFirst: true}},
		{"rare-correlation", pawl.LetterFilter{CorrelationID: "needle", OldestFirst: true}},
	} {
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
