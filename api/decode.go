package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// decodeBody reads one JSON object into a struct. Unlike package encoding/json it takes names as they are written only,
// each once, and refuses those that it does not know; its errors name the place. What is kept raw is kept byte for byte.
func decodeBody(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) {
		return bodyError(json.Unmarshal(body, new(json.RawMessage)))
	}
	return decodeObject("", body, reflect.ValueOf(into).Elem())
}

func bodyError(err error) error {
	return &pawl.FieldError{Field: "body", Value: fmt.Sprint(err), Rule: "must be one JSON object"}
}

var (
	ownJSON = reflect.TypeFor[json.Unmarshaler]()
	ownText = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawJSON = reflect.TypeFor[json.RawMessage]()
	bytesOf = reflect.TypeFor[byte]()
)

// decodeValue reads valid JSON.
func decodeValue(place string, raw []byte, into reflect.Value) error {
	kind := into.Type()
	switch pointer := reflect.PointerTo(kind); {
	case kind == rawJSON:
		into.SetBytes(bytes.Clone(raw))
		return nil
	case pointer.Implements(ownJSON) || pointer.Implements(ownText):
		return decodeLeaf(place, raw, into)
	}
	null := string(raw) == "null"
	switch kind.Kind() {
	case reflect.Pointer:
		if null {
			return nil
		}
		into.Set(reflect.New(kind.Elem()))
		return decodeValue(place, raw, into.Elem())
	case reflect.Struct:
		return decodeObject(place, raw, into)
	case reflect.Slice:
		if kind.Elem() == bytesOf || null {
			return decodeLeaf(place, raw, into)
		}
		return decodeArray(place, raw, into)
	}
	if null {
		return mustBe(place, raw, kind)
	}
	return decodeLeaf(place, raw, into)
}

func decodeLeaf(place string, raw []byte, into reflect.Value) error {
	if !utf8.Valid(raw) { // package encoding/json would make other text of it
		return &pawl.FieldError{Field: spoken(place), Value: cutText(string(raw), maxValue), Rule: "must be valid UTF-8"}
	}
	if loneSurrogate(raw) {
		return &pawl.FieldError{Field: spoken(place), Value: cutText(string(raw), maxValue), Rule: "must be valid Unicode: it has one half of a surrogate pair"}
	}
	err := json.Unmarshal(raw, into.Addr().Interface())
	if err == nil {
		return nil
	}
	if field := new(pawl.FieldError); errors.As(err, &field) {
		return &pawl.FieldError{Field: place, Value: field.Value, Rule: field.Rule}
	}
	return mustBe(place, raw, into.Type())
}

// loneSurrogate reports that JSON has an escape of one half of a surrogate pair, of which package encoding/json would make
// another character.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		high := escaped(raw, i)
		if !utf16.IsSurrogate(high) {
			continue
		}
		if i+5 >= len(raw) || raw[i+5] != '\\' || utf16.DecodeRune(high, escaped(raw, i+6)) == unicode.ReplacementChar {
			return true
		}
		i += 10
	}
	return false
}

// escaped is the character of the escape whose u is at i; 0 when there is none.
func escaped(raw []byte, i int) rune {
	if i+4 >= len(raw) || raw[i] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

func mustBe(place string, raw []byte, kind reflect.Type) error {
	what := "of another form"
	switch kind.Kind() {
	case reflect.String:
		what = "a string"
	case reflect.Bool:
		what = "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint8:
		what = "a whole number"
	case reflect.Float64:
		what = "a number"
	case reflect.Slice:
		what = "a list"
		if kind.Elem() == bytesOf {
			what = "a string of base64"
		}
	case reflect.Struct, reflect.Map:
		what = "an object"
	}
	if form, ok := forms[kind]; ok {
		what = form.what
	}
	return &pawl.FieldError{Field: spoken(place), Value: cutText(string(raw), maxValue), Rule: "must be " + what}
}

// spoken is a place as package pawl would name it: the last name, where it is not one of several.
func spoken(place string) string {
	if place == "" {
		return "body"
	}
	return strings.ReplaceAll(place, "_", " ")
}

func decodeArray(place string, raw []byte, into reflect.Value) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := decoder.Token(); first != json.Delim('[') {
		return mustBe(place, raw, into.Type())
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, 0))
	for i := 0; decoder.More(); i++ {
		var element json.RawMessage
		if err := decoder.Decode(&element); err != nil {
			return bodyError(err)
		}
		value := reflect.New(into.Type().Elem()).Elem()
		if err := decodeValue(fmt.Sprintf("%s[%d]", place, i), element, value); err != nil {
			return err
		}
		into.Set(reflect.Append(into, value))
	}
	return nil
}

func decodeObject(place string, raw []byte, into reflect.Value) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := decoder.Token(); first != json.Delim('{') {
		return mustBe(place, raw, into.Type())
	}
	fields := map[string]reflect.StructField{}
	for _, field := range bodyFields(into.Type()) {
		fields[nameOf(field)] = field
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		name, _ := token.(string)
		if err != nil {
			return bodyError(err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil && err != io.EOF {
			return bodyError(err)
		}
		field, is := fields[name]
		at := name
		if place != "" {
			at = place + "." + name
		}
		switch {
		case !is:
			return &pawl.FieldError{Field: "name", Value: at, Rule: "is not known here: check how it is spelt"}
		case seen[name]:
			return &pawl.FieldError{Field: "name", Value: at, Rule: "must be given once"}
		}
		seen[name] = true
		if err := decodeValue(at, value, into.FieldByIndex(field.Index)); err != nil {
			return err
		}
	}
	return nil
}

// bodyFields are the fields of a struct that stand in JSON, those of embedded structs among them.
func bodyFields(of reflect.Type) (fields []reflect.StructField) {
	for _, field := range reflect.VisibleFields(of) {
		if name := nameOf(field); !field.Anonymous && name != "" && name != "-" {
			fields = append(fields, field)
		}
	}
	return fields
}

// nameOf is a field's name in JSON.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
