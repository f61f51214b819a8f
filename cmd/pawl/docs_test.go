//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// notTyped are command lines of the docs that need more than a folder, or that other tests run.
var notTyped = []string{
	"go run ./cmd/pawl demo ", // has tests of its own
	"make test ",
	"curl https://pawl.example.org/",                                                     // a server of somebody's
	"pawl migrate up     --store postgres://", "pawl migrate grants --store postgres://", // principals of a database; app tests them
	"pawl service ", // a service manager
	"pawl batch ",   // a batch that is open; scripts of app have some
	"PAWL_TEST_DEPLOY=",
}

// typedPages are in the order in which somebody new reads.
var typedPages = []string{"README.md", "docs/schedules.md", "docs/cli.md", "docs/config.md", "docs/ordering-and-limits.md", "docs/api.md"}

// Somebody who types what the pages say, in their order and in a fresh folder, meets no error.
func TestDocsTypedInOrder(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	typed, left := 0, slices.Clone(notTyped)
	for _, page := range r.pages() {
		for _, line := range commandsIn(t, filepath.Join(r.root, page)) {
			i := slices.IndexFunc(notTyped, func(one string) bool { return strings.HasPrefix(line, one) })
			switch {
			case i >= 0:
				left = slices.DeleteFunc(left, func(one string) bool { return one == notTyped[i] })
			case !slices.Contains(typedPages, page):
				t.Errorf("%s: nobody types %s", page, line)
			default:
				r.types(page, line)
				typed++
			}
		}
	}
	if len(left) > 0 || typed < 20 {
		t.Errorf("typed %d; not found: %q: does the test still see the commands?", typed, left)
	}
}

// reader is somebody in a fresh folder.
type reader struct {
	*testing.T
	root, folder string
	last         string // what was printed last
}

func newReader(t *testing.T) *reader {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, root: root, folder: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(r.folder, "service"), "./examples/service")
	build.Dir = root
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return r
}

// pages are those that are typed, in their order, and then all others.
func (r *reader) pages() []string {
	found, err := filepath.Glob(filepath.Join(r.root, "docs", "*.md"))
	if err != nil {
		r.Fatal(err)
	}
	all := slices.Clone(typedPages)
	for _, path := range found {
		if page := "docs/" + filepath.Base(path); !slices.Contains(all, page) {
			all = append(all, page)
		}
	}
	return all
}

var (
	shellBlock = regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$")
	indented   = regexp.MustCompile(`(?m)^    ((?:pawl|PAWL_\S+) .*)$`)
	idShown    = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// commandsIn are the command lines of a page: the lines of sh blocks, those behind a $ of console blocks, and indented ones.
func commandsIn(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		console, open := strings.HasPrefix(block[1], "$ "), false
		for line := range strings.Lines(block[1]) {
			command, prompted := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			switch last := len(lines) - 1; {
			case open: // it goes on from the line before
				lines[last] += "\n" + command
			case command != "" && prompted == console:
				lines = append(lines, command)
			default:
				continue
			}
			last, _, _ := strings.Cut(lines[len(lines)-1], "  #")
			open = strings.HasSuffix(last, `\`) || strings.Count(last, "'")%2 == 1
		}
	}
	for _, line := range indented.FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, line[1])
	}
	return lines
}

// types one line; an ID is the first one that was printed last. What ends with & goes on until the test ends.
func (r *reader) types(page, line string) {
	r.Helper()
	line = strings.ReplaceAll(line, "go run ./examples/service", "./service")
	if strings.Contains(line, " ID ") {
		id := idShown.FindString(r.last)
		if id == "" {
			r.Fatalf("%s: %s: no id was printed before", page, line)
		}
		line = strings.ReplaceAll(line, " ID ", " "+id+" ")
	}
	command, _, _ := strings.Cut(line, "    #")
	if beside, found := strings.CutSuffix(strings.TrimSpace(command), "&"); found {
		r.begins(page, beside)
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), time.Minute)
	defer stop()
	said, err := r.command(ctx, command).CombinedOutput()
	if err != nil {
		r.Errorf("%s: %s: %v\n%s", page, line, err, said)
	}
	if idShown.Match(said) {
		r.last = string(said)
	}
}

func (r *reader) command(ctx context.Context, line string) *exec.Cmd {
	command := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	command.Dir = r.folder
	command.Env = slices.DeleteFunc(os.Environ(), func(one string) bool { return strings.HasPrefix(one, "PAWL_") })
	// A port of its own, and nobody is called.
	command.Env = append(command.Env, "USER=kim", "GORACE=atexit_sleep_ms=0", "PAWL_LISTEN=127.0.0.1:0", "PAWL_KINDS_OFF=http.request.v1")
	return command
}

// begins a host, and waits until it has said what it runs.
func (r *reader) begins(page, line string) {
	r.Helper()
	var said bytes.Buffer
	host := r.command(r.Context(), line)
	host.Stderr = &said
	if err := host.Start(); err != nil {
		r.Fatalf("%s: %s: %v", page, line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Wait() }()
	r.Cleanup(func() {
		_ = host.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		kinds, err := r.command(r.Context(), "pawl kind list").CombinedOutput()
		if err == nil && bytes.Contains(kinds, []byte("http.request.v1")) {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			r.Fatalf("%s: %s: %v\n%s", page, line, err, said.String())
		default:
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s: %s: no kind is registered: %s", page, line, kinds)
		}
	}
}
