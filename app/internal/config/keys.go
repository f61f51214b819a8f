package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// entryMark stands for the name of an entry in a key.
const entryMark = "NAME"

// Key is a setting, for the page that lists them.
type Key struct {
	Path    string // servers.NAME.workers
	Type    string
	Default string
	Live    bool
	Secret  bool
	Doc     string
	kind    reflect.Type
}

// Keys lists every setting that there is.
func Keys() []Key {
	start := defaults()
	return keysBelow(reflect.ValueOf(start).Elem(), nil, nil)
}

func keysBelow(at reflect.Value, path []string, all []Key) []Key {
	for _, f := range fields(at.Type()) {
		below := append(append([]string{}, path...), f.name)
		value := at.Field(f.index)
		switch {
		case f.kind.Kind() == reflect.Struct:
			all = keysBelow(value, below, all)
		case isEntries(f.kind):
			entry := reflect.New(f.kind.Elem()).Elem()
			if preset, stated := entryDefaults[strings.Join(below, ".")]; stated {
				entry.Set(reflect.ValueOf(preset))
			}
			all = keysBelow(entry, append(below, entryMark), all)
		default:
			all = append(all, Key{
				Path: strings.Join(below, "."), Type: typeName(f), Default: show(value), Live: f.live,
				Secret: f.kind == secretType, Doc: f.doc, kind: f.kind,
			})
		}
	}
	return all
}

func typeName(f field) string {
	if f.unit != "" {
		return f.unit
	}
	switch f.kind {
	case secretType:
		return "secret"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	}
	switch f.kind.Kind() {
	case reflect.Slice:
		return "list of " + typeName(field{kind: f.kind.Elem()}) + "s"
	case reflect.Map:
		return "names with " + typeName(field{kind: f.kind.Elem()}) + "s"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	case reflect.Float64:
		return "fraction"
	case reflect.String:
		return "text"
	}
	return fmt.Sprint(f.kind)
}
