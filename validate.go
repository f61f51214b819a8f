package pawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Fixed limits of what a job may carry.
const (
	maxName        = 128     // bytes of a kind or queue name
	maxCorrelation = 64      // bytes
	maxKey         = 256     // bytes of a unique or ordering key
	maxTags        = 20      // tags
	maxTag         = 64      // bytes of a tag
	maxArgs        = 1 << 20 // bytes of encoded args
	maxDepth       = 64      // levels of nesting in args
	maxTrace       = 512     // bytes of each trace context header
	maxDelays      = 64      // entries of a backoff
	maxWait        = 10 * 365 * 24 * time.Hour
)

// CheckName refuses names of kinds, queues and hosts that no store would take: they have 1 to 128 bytes of valid UTF-8
// without control characters.
func CheckName(field, name string) error {
	if name == "" || len(name) > maxName {
		return &FieldError{field, name, fmt.Sprintf("must have 1 to %d bytes", maxName)}
	}
	return checkText(field, name, maxName)
}

// checkText takes the empty text.
func checkText(field, text string, limit int) error {
	switch {
	case len(text) > limit:
		return &FieldError{field, text, fmt.Sprintf("must have at most %d bytes", limit)}
	case !utf8.ValidString(text):
		return &FieldError{field, text, "must be valid UTF-8"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &FieldError{field, text, "must have no control characters"}
	}
	return nil
}

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return &FieldError{"tags", len(tags), fmt.Sprintf("must be at most %d", maxTags)}
	}
	for _, tag := range tags {
		if tag == "" {
			return &FieldError{"tag", tag, fmt.Sprintf("must have 1 to %d bytes", maxTag)}
		}
		if err := checkText("tag", tag, maxTag); err != nil {
			return err
		}
	}
	return nil
}

// encodeArgs returns the JSON that is stored. A json.RawMessage is kept byte for byte.
func encodeArgs(args any) ([]byte, error) {
	if raw, ok := args.(json.RawMessage); ok {
		return raw, checkArgs(raw)
	}
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, &FieldError{"args", fmt.Sprintf("%T", args), "must encode to JSON: " + err.Error()}
	}
	return encoded, checkArgs(encoded)
}

func checkArgs(args []byte) error {
	shown := string(args[:min(len(args), 60)])
	switch {
	case len(args) > maxArgs:
		return &FieldError{"args", fmt.Sprintf("%d bytes", len(args)), fmt.Sprintf("must have at most %d bytes", maxArgs)}
	case !utf8.Valid(args):
		return &FieldError{"args", shown, "must be valid UTF-8"}
	}
	if depth(args) > maxDepth {
		return &FieldError{"args", shown, fmt.Sprintf("must nest at most %d levels", maxDepth)}
	}
	if !json.Valid(args) {
		return &FieldError{"args", shown, "must be one valid JSON value"}
	}
	return nil
}

// depth is the deepest nesting of arrays and objects, found without recursion.
func depth(args []byte) int {
	deepest, level := 0, 0
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case '"':
			i = stringEnd(args, i+1)
		case '[', '{':
			level++
			deepest = max(deepest, level)
		case ']', '}':
			level--
		}
	}
	return deepest
}

// stringEnd returns the index of the quote that closes the string whose first byte is at i.
func stringEnd(args []byte, i int) int {
	for ; i < len(args) && args[i] != '"'; i++ {
		if args[i] == '\\' {
			i++
		}
	}
	return i
}

// decodeArgs reads args into v: all of it, and nothing after it.
func decodeArgs(args []byte, v any) error {
	if raw, ok := v.(*json.RawMessage); ok {
		*raw = bytes.Clone(args)
		return nil
	}
	return json.Unmarshal(args, v)
}
