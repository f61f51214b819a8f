package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func known(v float64) Figure { return Figure{v, v, v, true} }

func TestTargets(t *testing.T) {
	t.Parallel()
	plain := func(ours, peer Figure) Row { return Row{Unit: jobsPerSecond, Ours: ours, Peer: peer} }
	for name, c := range map[string]struct {
		row        Row
		met, known bool
	}{
		"as many times":         {plain(known(50), known(10)).timesPeer(5), true, true},
		"not as many times":     {plain(known(49), known(10)).timesPeer(5), false, true},
		"nothing to compare to": {plain(known(50), Figure{}).timesPeer(5), false, false},
		"not measured":          {plain(Figure{}, known(10)).atLeast(5), false, false},
		"enough, no peer":       {plain(known(5), Figure{}).atLeast(5), true, true},
		"too few":               {plain(known(4.9), known(10)).atLeast(5), false, true},
		"little enough":         {plain(known(5), Figure{}).atMost(5), true, true},
		"too much":              {plain(known(5.1), Figure{}).atMost(5), false, true},
		"no target":             {plain(known(5), known(1)), false, false},
	} {
		if met, known := c.row.Met(); met != c.met || known != c.known {
			t.Errorf("%s: met %v, known %v", name, met, known)
		}
	}
}

// Every row of the targets is written, measured or not.
func TestFileAndTable(t *testing.T) {
	t.Parallel()
	r := results{}
	r.add(bulkEnqueue, "pawl", Sample{jobsPerSecond: 120_000, totalMicros: 11})
	r.add(bulkEnqueue, "river", Sample{jobsPerSecond: 40_000, totalMicros: 20})
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := writeJSON(path, rows(r)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var records []map[string]any
	if err := json.Unmarshal(text, &records); err != nil {
		t.Fatal(err)
	}
	if len(records) != 31 {
		t.Errorf("%d records", len(records))
	}
	first, second := records[0], records[2]
	if first["name"] != bulkEnqueue || first["ratio"] != 3.0 || first["met"] != true || first["raw"] != nil {
		t.Errorf("measured: %v", first)
	}
	if second["ours"] != nil || second["met"] != nil || second["target"] != "≥ 1.5x River" {
		t.Errorf("not measured: %v", second)
	}
	var page bytes.Buffer
	if err := printMarkdown(&page, path); err != nil {
		t.Fatal(err)
	}
	if want := "| bulk enqueue | jobs/s | 120,000 | 40,000 | - | 3.00 | ≥ 2.5x River | yes |"; !strings.Contains(page.String(), want) {
		t.Errorf("no %q in\n%s", want, page.String())
	}
}
