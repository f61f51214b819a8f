package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const prefix = "PAWL_"

// foreign are variables with our prefix that are not ours to refuse: what Kubernetes and Docker set for a service that
// is called pawl, what a command run by command.run.v1 is told, and what Pawl's own tests go by.
var foreign = regexp.MustCompile(`^PAWL_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|JOB_ID|JOB_ATTEMPT|TEST_.*)$`)

// Variables that are no settings by themselves: the file, the URL of the picked connection, and the token for the API of a
// server.
var others = []string{"PAWL_CONFIG", "PAWL_STORE", "PAWL_TOKEN"}

// variable is the one that states the setting at a path.
func variable(path []string) string {
	return prefix + strings.ToUpper(strings.NewReplacer("-", "_").Replace(strings.Join(path, "_")))
}

// environment takes the settings that variables state, and returns the others. An empty variable states nothing.
func (l *loader) environment(environ []string) map[string]string {
	l.inlined = map[string]bool{}
	rest := map[string]string{}
	environ = slices.Clone(environ)
	slices.Sort(environ)
	for _, one := range environ {
		name, text, found := strings.Cut(one, "=")
		if !found || !strings.HasPrefix(name, prefix) || foreign.MatchString(name) {
			continue
		}
		if slices.Contains(others, name) {
			rest[name] = text
			continue
		}
		path := l.variablePath(name)
		switch {
		case path == nil:
			l.wrong(Origin{}, "", "unknown variable %s%s", short(name), l.nearVariable(name))
		case text != "":
			l.leaf(path, text, Origin{From: name})
		}
	}
	return rest
}

// variablePath finds the setting that a variable states; nil if none. Of a new entry in a map, the variable says the
// name: PAWL_SINKS_CHAT_URL is the url of the sink chat.
func (l *loader) variablePath(name string) []string {
	return l.pathBelow(reflect.TypeFor[Settings](), nil, strings.TrimPrefix(name, prefix))
}

func (l *loader) pathBelow(kind reflect.Type, path []string, rest string) []string {
	if isEntries(kind) {
		return l.entryBelow(kind, path, rest)
	}
	for _, f := range fields(kind) {
		upper := strings.ToUpper(f.name)
		below := append(slices.Clone(path), f.name)
		nested := f.kind.Kind() == reflect.Struct || isEntries(f.kind)
		switch after, deeper := strings.CutPrefix(rest, upper+"_"); {
		case rest == upper && !nested:
			return below
		case deeper && after == "FILE" && f.kind == secretType:
			return append(slices.Clone(path), f.name+"_file")
		case deeper && nested:
			if found := l.pathBelow(f.kind, below, after); found != nil {
				return found
			}
		}
	}
	return nil
}

// entryBelow tries every way to divide what is left into a name and a key, the shortest name first; an entry that is
// there goes first.
func (l *loader) entryBelow(kind reflect.Type, path []string, rest string) []string {
	at := reflect.ValueOf(l.Settings).Elem()
	for _, step := range path {
		f, _ := fieldOf(at.Type(), step)
		at = at.Field(f.index)
	}
	for _, name := range entryNames(at) {
		upper := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if after, ok := strings.CutPrefix(rest, upper+"_"); ok {
			if found := l.pathBelow(kind.Elem(), append(slices.Clone(path), name), after); found != nil {
				return found
			}
		}
	}
	for i, c := range rest {
		if c != '_' {
			continue
		}
		name := strings.ToLower(rest[:i])
		if !entryName.MatchString(name) {
			continue
		}
		if found := l.pathBelow(kind.Elem(), append(slices.Clone(path), name), rest[i+1:]); found != nil {
			return found
		}
	}
	return nil
}

// nearVariable names the known variable that may have been meant.
func (l *loader) nearVariable(name string) string {
	known := slices.Clone(others)
	for _, key := range Keys() {
		path := strings.Split(key.Path, ".")
		if i := slices.Index(path, entryMark); i >= 0 {
			known = append(known, l.entryVariables(path, i, name)...)
			continue
		}
		known = append(known, variable(path))
		if key.kind == secretType {
			known = append(known, variable(path)+"_FILE")
		}
	}
	if best := nearest(name, known); best != "" {
		return ": did you mean " + best + "?"
	}
	return ": docs/config.md lists the known ones"
}

// entryVariables are the variables of a key of entries, with every name that the mistaken one may have in it.
func (l *loader) entryVariables(path []string, mark int, name string) []string {
	before := variable(path[:mark]) + "_"
	after, ok := strings.CutPrefix(name, before)
	if !ok {
		return nil
	}
	var known []string
	words := strings.Split(after, "_")
	for i := 1; i < len(words); i++ {
		known = append(known, before+strings.Join(words[:i], "_")+"_"+strings.TrimPrefix(variable(path[mark+1:]), prefix))
	}
	return known
}

// nearest is the one of some names that differs least from another, unless all differ by too much.
func nearest(name string, known []string) string {
	const longest = 256 // the work grows with it
	if len(name) > longest {
		return ""
	}
	best, least := "", len(name)/3+1
	for _, one := range known {
		if d := distance(name, one); d < least {
			best, least = one, d
		}
	}
	return best
}

// distance counts the characters to add, drop or replace (Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
