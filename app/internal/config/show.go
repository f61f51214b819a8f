package config

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Entry is one setting with its effective value, as it may be shown.
type Entry struct {
	Key   string
	Value string
	From  string // default, program, FILE:LINE, a variable, a flag
	value any
	live  bool
}

// Entries lists every setting.
func (s *Settings) Entries() []Entry {
	var all []Entry
	walk(reflect.ValueOf(s).Elem(), nil, false, func(path []string, live bool, value reflect.Value) {
		key := strings.Join(path, ".")
		from, stated := s.origins[key]
		if !stated {
			from = Origin{From: "default"}
		}
		all = append(all, Entry{Key: key, Value: show(value), From: from.String(), value: value.Interface(), live: live})
	})
	return all
}

func (o Origin) String() string {
	text := o.From
	if o.Line > 0 {
		text = fmt.Sprintf("%s:%d", o.From, o.Line)
	}
	if o.Read != "" {
		text += " (" + o.Read + ")"
	}
	return text
}

// show is a value as text; a URL has no password in it.
func show(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case string:
		if strings.Contains(v, "://") {
			return Redacted(v)
		}
		return v
	case time.Duration:
		return ShowDuration(v)
	case Environment:
		names := slices.Sorted(maps.Keys(v))
		for i, name := range names {
			names[i] = name + ": " + hidden
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	switch value.Kind() {
	case reflect.Slice:
		items := make([]string, value.Len())
		for i := range items {
			items[i] = show(value.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		items := make([]string, 0, value.Len())
		for _, name := range entryNames(value) {
			items = append(items, name+": "+show(value.MapIndex(reflect.ValueOf(name))))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(value.Interface())
}

// ShowDuration writes a duration without the zeros at its end: 2m, not 2m0s.
func ShowDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Redacted is a URL without its passwords.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		scheme, _, _ := strings.Cut(text, ":")
		return scheme + ":…"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // what cannot be read may be a password
		u.RawQuery = "…"
		return u.Redacted()
	}
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// HasPassword reports whether a URL carries one, or may.
func HasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	if _, has := u.User.Password(); has {
		return true
	}
	query, err := url.ParseQuery(u.RawQuery)
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			return true
		}
	}
	return err != nil
}

// Changes says what differs from another configuration: what takes effect at once, and what needs a restart, both as
// the names of sections such as listen and servers.
func (s *Settings) Changes(next *Settings) (live, restart []string) {
	was, is := map[string]Entry{}, map[string]Entry{}
	for _, e := range s.Entries() {
		was[e.Key] = e
	}
	for _, e := range next.Entries() {
		is[e.Key] = e
	}
	sections := map[bool]map[string]bool{true: {}, false: {}}
	for key := range maps.Keys(both(was, is)) {
		a, before := was[key]
		b, after := is[key]
		if before && after && reflect.DeepEqual(a.value, b.value) {
			continue
		}
		section, _, _ := strings.Cut(key, ".")
		sections[s.livens(a, b, before, after)][section] = true
	}
	return slices.Sorted(maps.Keys(sections[true])), slices.Sorted(maps.Keys(sections[false]))
}

func both(a, b map[string]Entry) map[string]Entry {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// livens reports whether a change takes effect at once. Sinks that come or go have to be registered by a start.
func (s *Settings) livens(a, b Entry, before, after bool) bool {
	if before != after && strings.HasPrefix(a.Key+b.Key, "sinks.") {
		return false
	}
	return a.live || b.live
}

// Stale reports whether a file that the settings came from says something else by now, or one that could not be read can be.
func (s *Settings) Stale() bool {
	for _, file := range s.missing {
		if _, err := readFile(file); err == nil {
			return true
		}
	}
	for file, was := range s.read {
		is, err := readFile(file)
		if err != nil || !bytes.Equal(was, is) {
			return true
		}
	}
	return false
}
