package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// number writes a value with the digits that mean something.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return thousands(int64(math.Round(v)))
	case size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// shortUnit is the unit without what it is a unit of.
func shortUnit(unit string) string {
	short, _, _ := strings.Cut(unit, " CPU")
	short, _, _ = strings.Cut(short, " of WAL")
	short, _, _ = strings.Cut(short, " of a core")
	return strings.TrimPrefix(strings.TrimPrefix(short, "p50 "), "p99 ")
}

func (f Figure) String() string {
	switch {
	case !f.Known:
		return "-"
	case f.Min == f.Max:
		return number(f.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(f.Median), number(f.Min), number(f.Max))
}

// printTable writes every row.
func printTable(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tunit\tpawl\triver\traw\tpawl/river\ttarget\tmet")
	for _, row := range rows {
		if !row.Ours.Known && !row.Peer.Known {
			continue
		}
		cells := jsonRow(row)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			row.Name, row.Unit, row.Ours, row.Peer, row.Raw, optional(cells.Ratio), row.Target, verdict(cells.Met))
	}
	return w.Flush()
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}

func verdict(met *bool) string {
	switch {
	case met == nil:
		return ""
	case *met:
		return "yes"
	}
	return "NO"
}

// record is a row as it is written to a file. Medians; what was not measured is null.
type record struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	Ours   *float64 `json:"ours"`
	Peer   *float64 `json:"peer"`
	Raw    *float64 `json:"raw"`
	Ratio  *float64 `json:"ratio"` // ours to the peer's
	Target string   `json:"target"`
	Met    *bool    `json:"met"`
	Spread *spread  `json:"spread,omitempty"` // least and greatest of each
}

type spread struct {
	Ours *[2]float64 `json:"ours,omitempty"`
	Peer *[2]float64 `json:"peer,omitempty"`
	Raw  *[2]float64 `json:"raw,omitempty"`
}

func jsonRow(row Row) record {
	out := record{
		Name: row.Name, Unit: row.Unit, Target: row.Target,
		Ours: row.Ours.median(), Peer: row.Peer.median(), Raw: row.Raw.median(),
		Spread: &spread{row.Ours.span(), row.Peer.span(), row.Raw.span()},
	}
	if ratio, known := row.Ratio(); known {
		out.Ratio = &ratio
	}
	if met, known := row.Met(); known {
		out.Met = &met
	}
	return out
}

func (f Figure) median() *float64 {
	if !f.Known {
		return nil
	}
	return &f.Median
}

func (f Figure) span() *[2]float64 {
	if !f.Known {
		return nil
	}
	return &[2]float64{f.Min, f.Max}
}

// writeJSON writes the rows that have a target.
func writeJSON(path string, rows []Row) error {
	records := []record{}
	for _, row := range rows {
		if row.Target != "" {
			records = append(records, jsonRow(row))
		}
	}
	text, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// printMarkdown writes the table of a page from what writeJSON wrote.
func printMarkdown(out io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var records []record
	if err := json.Unmarshal(text, &records); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	fmt.Fprintln(out, "| | unit | Pawl | River | raw | Pawl / River | target | met |")
	fmt.Fprintln(out, "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |")
	for _, r := range records {
		if r.Spread == nil {
			r.Spread = &spread{}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Name, r.Unit, cell(r.Ours, r.Spread.Ours),
			cell(r.Peer, r.Spread.Peer), cell(r.Raw, r.Spread.Raw), optional(r.Ratio), r.Target, strings.ToLower(verdict(r.Met)))
	}
	return nil
}

func cell(median *float64, span *[2]float64) string {
	switch {
	case median == nil:
		return "-"
	case span == nil:
		return number(*median)
	}
	return Figure{*median, span[0], span[1], true}.String()
}
