package config

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yaml takes the settings of a file. Of its text, errors show keys and never what stands behind them.
func (l *loader) yaml(name string, text []byte) {
	l.inlined = map[string]bool{}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // as editors on Windows put it
	if line := invalidLine(text); line > 0 {
		l.wrong(Origin{From: name, Line: line}, "", "it is no valid UTF-8")
		return
	}
	if tooDeep(text) {
		l.wrong(Origin{From: name, Line: 1}, "", "it is nested too deeply to be a configuration")
		return
	}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		l.wrong(syntax(name, err))
		return
	}
	for i, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case i > 0:
			l.wrong(Origin{From: name, Line: line(doc.Body)}, "", "a second document: a configuration is one")
			return
		default:
			l.node(reflect.TypeFor[Settings](), nil, doc.Body, name)
		}
	}
}

// invalidLine is the first line that is no UTF-8, counted from 1; 0: none.
func invalidLine(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if n++; !utf8.Valid(line) {
			return n
		}
	}
	return 0
}

// mostDepth of brackets, and of list items that begin in one line. The parser needs memory that grows with its square.
const mostDepth = 50

var manyItems = regexp.MustCompile(`(?:[-?:][ \t]+){50}`)

// tooDeep looks at brackets wherever they stand: a text in quotes that has so many of them open is no setting either.
func tooDeep(text []byte) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > mostDepth {
			return true
		}
	}
	return manyItems.Match(text)
}

// syntax is where a text is no YAML, and why.
func syntax(name string, err error) (from Origin, key, format string) {
	var at *yaml.SyntaxError
	if !errors.As(err, &at) {
		return Origin{From: name, Line: 1}, "", "it is no YAML"
	}
	from = Origin{From: name, Line: 1}
	if at.Token != nil && at.Token.Position != nil {
		from.Line = at.Token.Position.Line
	}
	return from, "", "it is no YAML: " + strings.ReplaceAll(at.Message, "%", "%%")
}

// line is where a node begins. The token of a mapping is the colon of its first key.
func line(node ast.Node) int {
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

// node takes what stands at a path.
func (l *loader) node(kind reflect.Type, path []string, node ast.Node, name string) {
	from := Origin{From: name, Line: line(node)}
	key := strings.Join(path, ".")
	switch node := node.(type) {
	case *ast.MappingNode:
		l.mapping(kind, path, node, name)
		return
	case *ast.NullNode:
		if len(path) > 0 {
			l.wrong(from, key, "it has no value: leave the key out for the default")
		}
		return
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		l.wrong(from, key, "anchors, aliases and tags are not taken: write the value out")
		return
	}
	switch {
	case kind == reflect.TypeFor[Connection](): // a URL alone
		l.url(append(slices.Clone(path), "url"), node, from)
	case kind == reflect.TypeFor[Outbox](): // a connection's name alone
		l.scalar(kind, append(slices.Clone(path), "connection"), node, from)
	case kind.Kind() == reflect.Struct || isEntries(kind):
		l.wrong(from, key, "must have keys of its own")
	case kind.Kind() == reflect.Map:
		l.wrong(from, key, "must have names, each with a value")
	case kind.Kind() == reflect.Slice:
		l.sequence(kind, path, node, from)
	default:
		l.scalar(kind, path, node, from)
	}
}

func (l *loader) mapping(kind reflect.Type, path []string, node *ast.MappingNode, name string) {
	key := strings.Join(path, ".")
	from := Origin{From: name, Line: line(node)}
	switch {
	case kind.Kind() == reflect.Struct || isEntries(kind):
		for _, pair := range node.Values {
			l.pair(kind, path, pair, name)
		}
	case kind.Kind() == reflect.Map:
		l.pairs(kind, path, node, from)
	default:
		l.wrong(from, key, "must be a value, not keys of its own")
	}
}

// pair takes one key of a struct, or one entry of a map.
func (l *loader) pair(kind reflect.Type, path []string, pair *ast.MappingValueNode, name string) {
	stated, from, ok := l.keyOf(pair, name)
	if !ok {
		return
	}
	below := append(slices.Clone(path), stated)
	key := strings.Join(below, ".")
	if isEntries(kind) {
		if !entryName.MatchString(stated) {
			l.wrong(from, strings.Join(path, "."), "the name %q %s", short(stated), entryRule)
			return
		}
		l.origins[key] = from
		if empty, ok := pair.Value.(*ast.MappingNode); !ok || len(empty.Values) > 0 {
			l.node(kind.Elem(), below, pair.Value, name)
		} else if kind.Elem() == reflect.TypeFor[Outbox]() { // all of it is at its default
			l.leaf(append(below, "connection"), stated, from)
		} else {
			l.wrong(from, key, "it has no keys: state one, or leave it out")
		}
		return
	}
	f, found := fieldOf(kind, stated)
	if !found {
		if base, isFile := secretFile(below); isFile {
			if file, ok := scalarText(pair.Value); ok {
				l.secretFrom(base, file, from)
			} else {
				l.wrong(from, key, "must be the path of a file")
			}
			return
		}
		l.wrong(from, "", "unknown key %s%s", short(key), l.near(kind, stated))
		return
	}
	l.origins[key] = from
	switch {
	case f.kind == secretType:
		l.wrong(from, key, "a secret must not stand in the configuration: name its file with %s_file, or set %s", stated, variable(below))
	case kind == reflect.TypeFor[Connection]() && stated == "url":
		l.url(below, pair.Value, from)
	default:
		l.node(f.kind, below, pair.Value, name)
	}
}

// near names the key that may have been meant.
func (l *loader) near(kind reflect.Type, stated string) string {
	var names []string
	for _, f := range fields(kind) {
		names = append(names, f.name)
		if f.kind == secretType {
			names = append(names, f.name+"_file")
		}
	}
	if best := nearest(stated, names); best != "" {
		return ": did you mean " + best + "?"
	}
	return ": known here are " + strings.Join(names, ", ")
}

func (l *loader) keyOf(pair *ast.MappingValueNode, name string) (stated string, from Origin, ok bool) {
	from = Origin{From: name, Line: line(pair.Key)}
	switch key := pair.Key.(type) {
	case *ast.MergeKeyNode, *ast.MappingKeyNode:
	case ast.ScalarNode:
		return key.GetToken().Value, from, true
	}
	l.wrong(from, "", "a key must be a plain name")
	return "", from, false
}

// url takes the URL of a store, which must not have a password here.
func (l *loader) url(path []string, node ast.Node, from Origin) {
	text, ok := scalarText(node)
	key := strings.Join(path, ".")
	switch {
	case !ok:
		l.wrong(from, key, "must be a URL such as %s", DefaultStore)
	case HasPassword(text):
		l.wrong(from, key, "a password must not stand in the configuration: name its file with password_file, or set %s",
			variable(append(slices.Clone(path[:len(path)-1]), "password")))
	default:
		l.leaf(path, besideFile(text, from), from)
	}
}

// besideFile makes the path of an SQLite file that a configuration states one of the configuration's own folder, as all
// of its paths are.
func besideFile(text string, from Origin) string {
	t, err := ParseTarget(text)
	if err != nil || t.Engine != SQLite || filepath.IsAbs(t.At) || from.From == program {
		return text
	}
	return Target{SQLite, filepath.Join(filepath.Dir(from.From), t.At)}.String()
}

func (l *loader) sequence(kind reflect.Type, path []string, node ast.Node, from Origin) {
	key := strings.Join(path, ".")
	list := reflect.MakeSlice(kind, 0, 0)
	values := []ast.Node{node} // one alone needs no brackets
	if sequence, ok := node.(*ast.SequenceNode); ok {
		values = sequence.Values
	}
	for _, item := range values {
		text, ok := scalarText(item)
		if !ok {
			l.wrong(Origin{From: from.From, Line: line(item)}, key, "must be a list of plain values")
			return
		}
		value, err := parse(kind.Elem(), text)
		if err != nil {
			l.wrong(Origin{From: from.From, Line: line(item)}, key, "%s", err)
			return
		}
		list = reflect.Append(list, value)
	}
	l.set(path, list, from)
}

func (l *loader) pairs(kind reflect.Type, path []string, node *ast.MappingNode, from Origin) {
	key := strings.Join(path, ".")
	pairs := reflect.MakeMap(kind)
	for _, pair := range node.Values {
		stated, at, ok := l.keyOf(pair, from.From)
		if !ok {
			return
		}
		text, ok := scalarText(pair.Value)
		if !ok {
			l.wrong(at, key+"."+stated, "must be a plain value")
			return
		}
		value, err := parse(kind.Elem(), text)
		if err != nil {
			l.wrong(at, key+"."+stated, "%s", err)
			return
		}
		pairs.SetMapIndex(reflect.ValueOf(stated), value)
	}
	l.set(path, pairs, from)
}

func (l *loader) scalar(_ reflect.Type, path []string, node ast.Node, from Origin) {
	text, ok := scalarText(node)
	if !ok {
		l.wrong(from, strings.Join(path, "."), "must be one value, not a list")
		return
	}
	l.leaf(path, text, from)
}

// scalarText is a plain value as it was written.
func scalarText(node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.LiteralNode:
		return strings.TrimRight(node.Value.Value, "\n"), true
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return "", false
}
