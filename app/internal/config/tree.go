package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// Origin is where a value comes from.
type Origin struct {
	From string // "default", "program", a file's path, a variable, a flag
	Line int    // of a file; 0: none
	Read string // the file that held a secret
}

// field is one member of a struct of settings.
type field struct {
	name, doc, unit string
	live            bool
	index           int
	kind            reflect.Type
}

// fields are the members of a struct that have keys.
func fields(kind reflect.Type) []field {
	var found []field
	for i := range kind.NumField() {
		member := kind.Field(i)
		if name := member.Tag.Get("key"); name != "" {
			found = append(found, field{
				name: name, doc: member.Tag.Get("doc"), unit: member.Tag.Get("unit"),
				live: member.Tag.Get("live") == "yes", index: i, kind: member.Type,
			})
		}
	}
	return found
}

func fieldOf(kind reflect.Type, name string) (field, bool) {
	all := fields(kind)
	i := slices.IndexFunc(all, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return all[i], true
}

// isEntries reports whether a type is a map of structs, whose entries have keys of their own.
func isEntries(kind reflect.Type) bool {
	return kind.Kind() == reflect.Map && kind.Elem().Kind() == reflect.Struct
}

var secretType = reflect.TypeFor[Secret]()

// entryName is what the entries of maps may be called: names that an environment variable can hold.
var entryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

const entryRule = "must have 1 to 63 letters, digits, hyphens and underscores"

// CheckEntry refuses a name that no entry of a map can have.
func CheckEntry(field, name string) error {
	if !entryName.MatchString(name) {
		return &pawl.FieldError{Field: field, Value: name, Rule: entryRule}
	}
	return nil
}

// set changes the leaf at a path. The path has been found to be one.
func (s *Settings) set(path []string, value reflect.Value, from Origin) {
	setIn(reflect.ValueOf(s).Elem(), path, nil, value)
	s.origins[strings.Join(path, ".")] = from
	holder := strings.Join(path[:len(path)-1], ".")
	if _, stated := s.origins[holder]; !stated && len(path) > 1 && from.From != "default" {
		s.origins[holder] = from
	}
}

func setIn(in reflect.Value, path, pattern []string, value reflect.Value) {
	if len(path) == 0 {
		in.Set(value)
		return
	}
	if in.Kind() == reflect.Struct {
		f, _ := fieldOf(in.Type(), path[0])
		setIn(in.Field(f.index), path[1:], append(pattern, path[0]), value)
		return
	}
	if in.IsNil() {
		in.Set(reflect.MakeMap(in.Type()))
	}
	name, entry := reflect.ValueOf(path[0]), reflect.New(in.Type().Elem()).Elem()
	if was := in.MapIndex(name); was.IsValid() {
		entry.Set(was)
	} else if start, stated := entryDefaults[strings.Join(pattern, ".")]; stated {
		entry.Set(reflect.ValueOf(start))
	}
	setIn(entry, path[1:], pattern, value)
	in.SetMapIndex(name, entry)
}

// has reports whether an entry of a map is there.
func (s *Settings) has(path []string) bool {
	at := reflect.ValueOf(s).Elem()
	for _, name := range path {
		switch at.Kind() {
		case reflect.Struct:
			f, found := fieldOf(at.Type(), name)
			if !found {
				return false
			}
			at = at.Field(f.index)
		case reflect.Map:
			if at = at.MapIndex(reflect.ValueOf(name)); !at.IsValid() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// walk visits every leaf, in the order of the fields and of the entries' names.
func walk(in reflect.Value, path []string, live bool, visit func(path []string, live bool, value reflect.Value)) {
	if isEntries(in.Type()) {
		for _, name := range entryNames(in) {
			walk(in.MapIndex(reflect.ValueOf(name)), append(slices.Clone(path), name), live, visit)
		}
		return
	}
	if in.Kind() != reflect.Struct {
		visit(path, live, in)
		return
	}
	for _, f := range fields(in.Type()) {
		walk(in.Field(f.index), append(slices.Clone(path), f.name), f.live, visit)
	}
}

func entryNames(in reflect.Value) []string {
	var names []string
	for _, key := range in.MapKeys() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

// nearestOrigin is where the value at a path comes from, or else what holds it.
func (s *Settings) nearestOrigin(path string) Origin {
	for {
		if from, known := s.origins[path]; known {
			return from
		}
		cut := strings.LastIndexByte(path, '.')
		if cut < 0 {
			return Origin{From: "default"}
		}
		path = path[:cut]
	}
}
