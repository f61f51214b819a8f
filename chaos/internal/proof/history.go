package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// suffix of the files that are histories.
const suffix = ".history"

// Writer appends to the history of one process. A line is one write, so that a killed process leaves whole lines, or
// at worst a torn last one.
type Writer struct {
	now func() int64

	mu   sync.Mutex
	file *os.File
	err  error
}

// Create makes the history of a process in a folder. The clock, in nanoseconds, is one that all processes share.
func Create(folder, process string, now func() int64) (*Writer, error) {
	file, err := os.OpenFile(filepath.Join(folder, process+suffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make history: %w", err)
	}
	return &Writer{file: file, now: now}, nil
}

// Write appends an event with the present time. The first error is kept for Close.
func (w *Writer) Write(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = w.now()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if w.err == nil {
		w.err = err
	}
}

// Close closes the file and reports what went wrong with it.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(w.err, w.file.Close()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Read returns the events of every history in a folder, each process's in the order of its file.
func Read(folder string) (map[string][]Event, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, err
	}
	histories := map[string][]Event{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		process := strings.TrimSuffix(filepath.Base(file), suffix)
		if histories[process], err = parse(text, process); err != nil {
			return nil, fmt.Errorf("read history of %s: %w", process, err)
		}
	}
	return histories, nil
}

// parse reads lines. The last one may be torn: its process was killed in the middle of it.
func parse(text []byte, process string) ([]Event, error) {
	var events []Event
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			break
		}
		text = rest
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		e.Process = process
		events = append(events, e)
	}
	return events, nil
}
