package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// program is where the settings that the program brings come from.
const program = "program"

// maxFile bounds the files that are read.
const maxFile = 1 << 20

// Sources is where settings come from.
type Sources struct {
	Program []byte   // YAML that the program brings
	File    string   // in YAML; "": none
	Environ []string // NAME=VALUE, as of os.Environ
	Flags   []Flag
	BuiltIn bool // the program has the built-in kinds, so that their settings mean something
}

// Flag is a setting that the command line states.
type Flag struct {
	Name  string // as it was typed: --listen
	Key   string // sinks.email.addr; storeKey for the URL of the connection that is picked
	Value string
}

// StoreKey is the key of a Flag that means the url of the connection that is picked.
const StoreKey = "store"

// Problem is one thing that is wrong.
type Problem struct {
	From Origin
	Key  string // "" where the text says it all
	Text string
}

func (p Problem) String() string {
	text := p.Text
	if p.Key != "" {
		text = short(p.Key) + ": " + text
	}
	switch {
	case p.From.Line > 0:
		return fmt.Sprintf("%s:%d: %s", p.From.From, p.From.Line, text)
	case p.From.From == "" || p.From.From == "default":
		return text
	}
	return p.From.From + ": " + p.Text // a flag, or a variable, which says the key
}

// Problems is all that is wrong with a configuration.
type Problems []Problem

// Error has one line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// InFile reports whether one of them is in a file.
func (p Problems) InFile() bool {
	return slices.ContainsFunc(p, func(one Problem) bool { return one.From.Line > 0 })
}

// sorted has the lines of each file in their order, the files and all else as they came.
func (p Problems) sorted() Problems {
	rank := map[string]int{}
	for i, one := range p {
		if _, seen := rank[one.From.From]; !seen {
			rank[one.From.From] = i
		}
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank[a.From.From], rank[b.From.From]), cmp.Compare(a.From.Line, b.From.Line))
	})
	return p
}

// loader gathers settings and what is wrong with them.
type loader struct {
	*Settings
	problems Problems
	inlined  map[string]bool // secrets that the layer at hand has stated
}

func (l *loader) wrong(from Origin, key, format string, args ...any) {
	l.problems = append(l.problems, Problem{from, key, fmt.Sprintf(format, args...)})
}

// Load reads and checks a configuration. An error is Problems, or says that the file itself cannot be read.
func Load(from Sources) (*Settings, error) {
	l := &loader{Settings: defaults()}
	if len(from.Program) > 0 {
		l.yaml(program, from.Program)
	}
	if from.File != "" {
		text, err := readFile(from.File)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		l.read[from.File] = text
		l.yaml(from.File, text)
	}
	env := l.environment(from.Environ)
	l.flags(from.Flags, env)
	l.fill()
	l.check(from.BuiltIn)
	if len(l.problems) > 0 {
		return l.Settings, l.problems.sorted()
	}
	return l.Settings, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is a folder")}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is no regular file")}
	case info.Size() > maxFile:
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is larger than 1 MiB")}
	}
	return os.ReadFile(path)
}

// flags takes what the command line states, and the picked connection's URL from wherever it is stated.
func (l *loader) flags(flags []Flag, env map[string]string) {
	l.inlined = map[string]bool{}
	pickedByFlag := false
	for _, f := range flags {
		if f.Key == "connection" {
			l.leaf([]string{"connection"}, f.Value, Origin{From: f.Name})
			pickedByFlag = true
		}
	}
	if !entryName.MatchString(l.Connection) {
		l.at("connection", "%q %s", short(l.Connection), entryRule)
		return
	}
	store := []string{"connections", l.Connection, "url"}
	stated := l.has(store[:2])
	if url := env["PAWL_STORE"]; url != "" && !(pickedByFlag && stated) {
		l.leaf(store, url, Origin{From: "PAWL_STORE"})
	}
	for _, f := range flags {
		switch f.Key {
		case "connection":
		case StoreKey:
			l.leaf(store, f.Value, Origin{From: f.Name})
		default:
			l.leaf(strings.Split(f.Key, "."), f.Value, Origin{From: f.Name})
		}
	}
}

// leaf sets the value at a path from text. Secrets come from anywhere but the text of a file.
func (l *loader) leaf(path []string, text string, from Origin) {
	key := strings.Join(path, ".")
	kind, _, found := leafOf(path)
	if base, isFile := secretFile(path); !found && isFile {
		l.secretFrom(base, text, from)
		return
	}
	if !found {
		l.wrong(from, key, "there is no such setting")
		return
	}
	if kind == secretType {
		if l.inlined[key] {
			l.wrong(from, key, "it is stated twice, with and without _file")
			return
		}
		l.inlined[key] = true
	}
	value, err := parseText(kind, text)
	if err != nil {
		l.wrong(from, key, "%s", hideIn(kind, err))
		return
	}
	l.set(path, value, from)
}

// hideIn says what is wrong with a value; of a secret it shows nothing.
func hideIn(kind reflect.Type, err error) string {
	if kind == secretType {
		return "must be valid UTF-8 without NUL"
	}
	return err.Error()
}

// secretFrom reads a secret from the file that a key names. Relative paths are of the configuration's own folder.
func (l *loader) secretFrom(path []string, file string, from Origin) {
	key := strings.Join(path, ".")
	if l.inlined[key] {
		l.wrong(from, key+"_file", "it is stated twice, with and without _file")
		return
	}
	l.inlined[key] = true
	if from.Line > 0 && from.From != program && !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(from.From), file)
	}
	text, err := readFile(file)
	if err != nil {
		l.missing = append(l.missing, file)
		var at *fs.PathError
		if errors.As(err, &at) {
			err = &fs.PathError{Op: at.Op, Path: shortPath(at.Path), Err: at.Err}
		}
		l.wrong(from, key+"_file", "%v", err)
		return
	}
	l.read[file] = text
	secret := strings.TrimRight(string(text), "\r\n")
	if err := printable(secret); err != nil || secret == "" {
		l.wrong(from, key+"_file", "%s holds no secret: one line of valid UTF-8", shortPath(file))
		return
	}
	from.Read = file
	l.set(path, reflect.ValueOf(Secret(secret)), from)
}

// leafOf finds the type of the leaf at a path.
func leafOf(path []string) (kind reflect.Type, f field, found bool) {
	at := reflect.TypeFor[Settings]()
	for _, name := range path {
		switch {
		case at.Kind() == reflect.Struct:
			if f, found = fieldOf(at, name); !found {
				return nil, f, false
			}
			at = f.kind
		case isEntries(at) && entryName.MatchString(name):
			at = at.Elem()
		default:
			return nil, f, false
		}
	}
	return at, f, at.Kind() != reflect.Struct && !isEntries(at)
}

// secretFile finds the secret that a key such as password_file is about.
func secretFile(path []string) (base []string, ok bool) {
	last, ok := strings.CutSuffix(path[len(path)-1], "_file")
	if !ok {
		return nil, false
	}
	base = append(slices.Clone(path[:len(path)-1]), last)
	kind, _, found := leafOf(base)
	return base, found && kind == secretType
}

// drainStep is between the rungs of a shutdown that are not stated.
const drainStep = 15 * time.Second

// fill states what nothing else has.
func (l *loader) fill() {
	if len(l.Connections) == 0 {
		l.set([]string{"connections", l.Connection, "url"}, reflect.ValueOf(DefaultStore), Origin{From: "default"})
	}
	if _, stated := l.origins["drain.server"]; !stated {
		l.Drain.Server = l.Drain.Handler + drainStep
	}
	if _, stated := l.origins["drain.host"]; !stated {
		l.Drain.Host = l.Drain.Server + drainStep
	}
	if len(l.Servers) == 0 {
		l.Servers = defaultServers()
	}
}
