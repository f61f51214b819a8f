package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Secret is a value that is not shown, and that no configuration file holds: it comes from a file of its own, named by
// the key with _file at its end, or from the environment.
type Secret string

// short is what is shown of a text that somebody has given: 80 bytes at most, as of a pawl.FieldError's value.
func short(text string) string { return cut(text, 80) }

// shortPath is short for a path, which may well be longer.
func shortPath(path string) string { return cut(path, 400) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// hidden is what stands in the place of a secret.
const hidden = "(not shown)"

// String does not show the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString does not show it either.
func (s Secret) GoString() string { return s.String() }

// Size is a number of bytes, written as 65536, 64KiB or 1MiB.
type Size int64

func (s Size) String() string {
	switch {
	case s != 0 && s%(1<<20) == 0:
		return strconv.FormatInt(int64(s>>20), 10) + "MiB"
	case s != 0 && s%(1<<10) == 0:
		return strconv.FormatInt(int64(s>>10), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10)
}

const maxSize = 1 << 30

func parseSize(text string) (Size, error) {
	number, factor := text, int64(1)
	for suffix, f := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if before, found := strings.CutSuffix(text, suffix); found {
			number, factor = strings.TrimSpace(before), f
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > maxSize/factor {
		return 0, fmt.Errorf("%q is no size such as 65536, 64KiB or 1MiB, of at most 1024MiB", short(text))
	}
	return Size(n * factor), nil
}

// ParseDuration reads 90s, 1h30m or 7d.
func ParseDuration(text string) (time.Duration, error) {
	refused := fmt.Errorf("%q is no duration such as 90s, 1h30m or 7d", short(text))
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		number, rest = "0", text
	}
	const day = 24 * time.Hour
	days, err := strconv.ParseUint(number, 10, 63)
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, refused
	}
	if rest == "" && hasDays {
		return time.Duration(days) * day, nil
	}
	span, err := time.ParseDuration(rest)
	if err != nil || hasDays && span < 0 || span > math.MaxInt64-time.Duration(days)*day {
		return 0, refused
	}
	return time.Duration(days)*day + span, nil
}

// parse reads one value of a type from its text.
func parse(kind reflect.Type, text string) (reflect.Value, error) {
	var value any
	var err error
	switch reflect.Zero(kind).Interface().(type) {
	case string:
		value, err = text, printable(text)
	case Secret:
		value, err = Secret(text), printable(text)
	case bool:
		if value = text == "true"; text != "true" && text != "false" {
			err = fmt.Errorf("%q is no true or false", short(text))
		}
	case int:
		if value, err = strconv.Atoi(text); err != nil {
			err = fmt.Errorf("%q is no whole number", short(text))
		}
	case float64:
		f, failed := strconv.ParseFloat(text, 64)
		if value = f; failed != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			err = fmt.Errorf("%q is no number", short(text))
		}
	case time.Duration:
		value, err = ParseDuration(text)
	case Size:
		value, err = parseSize(text)
	default:
		err = fmt.Errorf("no value can be read as %s", kind)
	}
	return reflect.ValueOf(value), err
}

// printable refuses what hides in a line.
func printable(text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("a value must be valid UTF-8 without NUL")
	}
	return nil
}

// parseList reads values that commas divide, as the environment and flags have them.
func parseList(kind reflect.Type, text string) (reflect.Value, error) {
	list := reflect.MakeSlice(kind, 0, 0)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		value, err := parse(kind.Elem(), part)
		if err != nil {
			return list, err
		}
		list = reflect.Append(list, value)
	}
	return list, nil
}

// parsePairs reads NAME=VALUE that commas divide.
func parsePairs(kind reflect.Type, text string) (reflect.Value, error) {
	pairs := reflect.MakeMap(kind)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, rest, found := strings.Cut(part, "=")
		if !found || name == "" {
			return pairs, fmt.Errorf("%q is no NAME=VALUE", short(part))
		}
		value, err := parse(kind.Elem(), rest)
		if err != nil {
			return pairs, fmt.Errorf("%s: %w", short(name), err)
		}
		pairs.SetMapIndex(reflect.ValueOf(name), value)
	}
	return pairs, nil
}

// parseText reads any leaf from one text.
func parseText(kind reflect.Type, text string) (reflect.Value, error) {
	switch kind.Kind() {
	case reflect.Slice:
		return parseList(kind, text)
	case reflect.Map:
		return parsePairs(kind, text)
	}
	return parse(kind, text)
}
