package api

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Fields with the tag path or query travel in the URL. Their types are strings, numbers, booleans, times, what reads and
// writes itself as text, pointers to those where zero is not as good as absent, and lists of those (in the query, by
// repeating the name).

// readParams fills the fields of a struct from a request's path and query. A name that is not known is refused, and one
// that is given twice where one value is expected.
func readParams(r *http.Request, into any) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &pawl.FieldError{Field: "query", Value: r.URL.RawQuery, Rule: "must be well formed: " + err.Error()}
	}
	value := reflect.ValueOf(into).Elem()
	for _, field := range reflect.VisibleFields(value.Type()) {
		at := value.FieldByIndex(field.Index)
		if name := field.Tag.Get("path"); name != "" {
			if err := readParam(name, r.PathValue(name), at); err != nil {
				return err
			}
		}
		name := field.Tag.Get("query")
		texts, given := query[name]
		if name == "" || !given {
			continue
		}
		delete(query, name)
		if err := readTexts(name, texts, at); err != nil {
			return err
		}
	}
	for name := range query {
		return &pawl.FieldError{Field: "name", Value: name, Rule: "is not known here: check how it is spelt"}
	}
	return nil
}

func readTexts(name string, texts []string, into reflect.Value) error {
	if into.Kind() != reflect.Slice {
		if len(texts) > 1 {
			return &pawl.FieldError{Field: spoken(name), Value: texts[1], Rule: "must be given once"}
		}
		if into.Kind() == reflect.Pointer {
			into.Set(reflect.New(into.Type().Elem()))
			into = into.Elem()
		}
		return readParam(name, texts[0], into)
	}
	for _, text := range texts {
		element := reflect.New(into.Type().Elem()).Elem()
		if err := readParam(name, text, element); err != nil {
			return err
		}
		into.Set(reflect.Append(into, element))
	}
	return nil
}

func readParam(name, text string, into reflect.Value) error {
	refused := func(rule string) error { return &pawl.FieldError{Field: spoken(name), Value: text, Rule: rule} }
	switch at := into.Addr().Interface().(type) {
	case *time.Time:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return refused("must be a time such as 2026-01-31T12:00:00Z")
		}
		*at = t
		return nil
	case encoding.TextUnmarshaler:
		err := at.UnmarshalText([]byte(text))
		if field, ok := err.(*pawl.FieldError); ok { //nolint:errorlint // as it comes
			return refused(field.Rule)
		}
		if err != nil {
			return refused("must be a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057")
		}
		return nil
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return refused("must be true or false")
		}
		into.SetBool(value)
	default:
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return refused("must be a whole number")
		}
		into.SetInt(value)
	}
	return nil
}

// writeParams is the other side: the path with its values, and the query.
func writeParams(path string, from any) string {
	value := reflect.ValueOf(from)
	query := url.Values{}
	for _, field := range reflect.VisibleFields(value.Type()) {
		at := value.FieldByIndex(field.Index)
		if name := field.Tag.Get("path"); name != "" {
			path = strings.ReplaceAll(path, "{"+name+"}", escapeSegment(paramText(at)))
		}
		name := field.Tag.Get("query")
		switch {
		case name == "" || at.IsZero():
		case at.Kind() == reflect.Pointer:
			query.Set(name, paramText(at.Elem()))
		case at.Kind() == reflect.Slice:
			for i := range at.Len() {
				query.Add(name, paramText(at.Index(i)))
			}
		default:
			query.Set(name, paramText(at))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func paramText(value reflect.Value) string {
	switch at := value.Interface().(type) {
	case time.Time:
		return at.UTC().Format(time.RFC3339Nano)
	case pawl.ID:
		if at.IsZero() {
			return "00000000-0000-0000-0000-000000000000" // an empty segment would be another path
		}
	case encoding.TextMarshaler:
		text, err := at.MarshalText()
		if err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value.Interface())
}

// escapeSegment is one segment of a path. Those of dots alone, which would lead elsewhere, are escaped too.
func escapeSegment(text string) string {
	if slices.Contains([]string{".", ".."}, text) {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}
