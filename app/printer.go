package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// mode is the form in which data is printed.
type mode int

const (
	modeTable mode = iota // aligned columns, for people
	modeTabs              // tab-separated values without a heading
	modePlain             // lines of a fixed form where a list has one, else tab-separated values
	modeJSON
)

// assumedWidth is how many characters a line of a terminal has that does not say.
const assumedWidth = 100

// printer writes data to standard output in the form that was asked for, and talk beside it.
type printer struct {
	out   *bufio.Writer
	talk  io.Writer
	mode  mode
	color bool
	width int // characters in a line of the terminal; 0: as long as it takes
}

func newPrinter(p *program) *printer {
	terminal := p.tty(p.out)
	made := &printer{out: bufio.NewWriter(p.out), talk: p.talk}
	switch {
	case p.json:
		made.mode = modeJSON
	case p.plain:
		made.mode = modePlain
	case terminal:
		made.mode = modeTable
	default:
		made.mode = modeTabs
	}
	made.width, _ = strconv.Atoi(p.env("COLUMNS"))
	if file, ok := p.out.(*os.File); ok && terminal && made.width <= 0 {
		made.width = terminalWidth(file)
	}
	if made.width <= 0 && made.mode == modeTable {
		made.width = assumedWidth
	}
	made.color = terminal && made.mode == modeTable && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	return made
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}

func (p *printer) flush() error {
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// say prints talk: one line to standard error, behind the data that came before it. A failure to write that data stays
// with it until the end.
func (p *printer) say(format string, args ...any) {
	_ = p.out.Flush()
	fmt.Fprintln(p.talk, escapeLines(fmt.Sprintf(format, args...)))
}

// line prints one line of data. Its text has to be safe already.
func (p *printer) line(parts ...string) { fmt.Fprintln(p.out, strings.Join(parts, "")) }

// object prints one JSON value a line.
func (p *printer) object(value any) error {
	encoded, err := encodeJSON(value)
	if err != nil {
		return err
	}
	_, err = p.out.Write(encoded)
	return err
}

const (
	styleBold = "\x1b[1m"
	styleDim  = "\x1b[2m"
	styleRed  = "\x1b[1;31m"
	styleEnd  = "\x1b[0m"
)

func (p *printer) style(style, text string) string {
	if !p.color || style == "" || text == "" {
		return text
	}
	return style + text + styleEnd
}

// column is one property of a list's rows.
type column[T any] struct {
	head string
	cell func(T) string
	// width cuts the cell on a terminal, and further where the line has no room for the table; 0 leaves it whole.
	width int
	// spare columns are left out of a table for which the line has no room.
	spare bool
	// piped leaves the column out of tables on a terminal, where room is short; seen leaves it out of pipes.
	piped, seen bool
}

// listing says how a list is printed.
type listing[T any] struct {
	columns []column[T]
	view    func(T) any    // as JSON
	plain   func(T) string // one line for --plain; nil: tab-separated values
	none    string         // what to say where there are no rows
	answer  bool           // none is data in plain form, not talk
}

// printList prints rows as they come; only a table holds them back, to align its columns. It returns how many it was.
func printList[T any](p *printer, l listing[T], rows iter.Seq2[T, error]) (int, error) {
	var table [][]string
	count := 0
	for row, err := range rows {
		if err != nil {
			return count, errors.Join(err, p.flush())
		}
		count++
		switch {
		case p.mode == modeTable:
			table = append(table, l.cells(row, true))
		case p.mode == modeJSON:
			if err := p.object(l.view(row)); err != nil {
				return count, err
			}
		case p.mode == modePlain && l.plain != nil:
			p.line(l.plain(row))
		default:
			p.line(strings.Join(l.cells(row, false), "\t"))
		}
	}
	switch {
	case count == 0 && l.answer && p.mode == modePlain:
		p.line(l.none)
	case count == 0 && l.none != "":
		p.say("%s", l.none)
	case p.mode == modeTable:
		p.table(l.shown(), table)
	}
	return count, nil
}

// shown are the columns of a table.
func (l listing[T]) shown() []tableColumn {
	var shown []tableColumn
	for _, c := range l.columns {
		if !c.piped {
			shown = append(shown, tableColumn{head: c.head, flexible: c.width > 0, spare: c.spare})
		}
	}
	return shown
}

func (l listing[T]) cells(row T, terminal bool) []string {
	var cells []string
	for _, c := range l.columns {
		if terminal && c.piped || !terminal && c.seen {
			continue
		}
		text := escape(c.cell(row))
		if terminal && c.width > 0 {
			text = cut(text, c.width)
		}
		cells = append(cells, text)
	}
	return cells
}

// tableColumn is a column of a table, and what may be done to it where the line has no room.
type tableColumn struct {
	head            string
	width           int
	flexible, spare bool
}

const (
	narrowest = 24 // the least room that a table's last column is given
	squeezed  = 10 // and that a column before it is cut to
)

// table prints aligned columns, the last one cut to what is left of the line. Widths are counted in characters.
func (p *printer) table(columns []tableColumn, rows [][]string) {
	columns, rows = p.fit(columns, rows)
	last := len(columns) - 1
	print := func(row []string, style string) {
		var b strings.Builder
		for i, cell := range row {
			cell = cut(cell, columns[i].width)
			b.WriteString(cell)
			if i < last {
				b.WriteString(strings.Repeat(" ", columns[i].width-utf8.RuneCountInString(cell)+2))
			}
		}
		p.line(p.style(style, strings.TrimRight(b.String(), " ")))
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	print(heads, styleBold)
	for _, row := range rows {
		print(row, "")
	}
}

// fit says how wide columns are: as their cells, unless the line is too short for that. Then spare ones are left out, and the widest
// of those that may be cut lose a character each until the last one has enough.
func (p *printer) fit(columns []tableColumn, rows [][]string) ([]tableColumn, [][]string) {
	for i := range columns {
		columns[i].width = utf8.RuneCountInString(columns[i].head)
		for _, row := range rows {
			columns[i].width = max(columns[i].width, utf8.RuneCountInString(row[i]))
		}
	}
	if p.width <= 0 {
		return columns, rows
	}
	for i := 0; i < len(columns)-1; i++ {
		if columns[i].spare && p.missing(columns) > 0 {
			columns = slices.Delete(columns, i, i+1)
			for n := range rows {
				rows[n] = slices.Delete(rows[n], i, i+1)
			}
			i--
		}
	}
	last := len(columns) - 1
	for p.missing(columns) > 0 {
		widest := -1
		for i, c := range columns[:last] {
			if c.flexible && c.width > squeezed && (widest < 0 || c.width > columns[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		columns[widest].width--
	}
	columns[last].width = min(columns[last].width, max(p.room(columns), narrowest))
	return columns, rows
}

// room is what is left of the line for the last column.
func (p *printer) room(columns []tableColumn) int {
	room := p.width
	for _, c := range columns[:len(columns)-1] {
		room -= c.width + 2
	}
	return room
}

// missing is how much room the last column lacks.
func (p *printer) missing(columns []tableColumn) int {
	return min(columns[len(columns)-1].width, narrowest) - p.room(columns)
}

// field prints "Name   value" in a column of its own; further lines of the value are indented to it. An empty value
// prints nothing.
func (p *printer) field(name, value string) {
	if value == "" {
		return
	}
	const width = 13
	for i, line := range strings.Split(escapeLines(value), "\n") {
		if i > 0 {
			name = ""
		}
		p.line(p.style(styleBold, name), strings.Repeat(" ", max(width-len(name), 1)), line)
	}
}

// block prints a headed text, indented so that nothing in it can pass for a line of ours.
func (p *printer) block(head, text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	p.line()
	p.line(p.style(styleBold, head))
	for line := range strings.SplitSeq(text, "\n") {
		p.line("    ", escape(strings.ReplaceAll(line, "\t", "    ")))
	}
}
