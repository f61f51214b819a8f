package api

import (
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

// The description (OpenAPI 3.1) is made from the table of routes and the types that they take and answer, so that it
// cannot say something else than what is served.

// schema is a JSON Schema.
type schema map[string]any

// form is how a type that writes itself stands in JSON.
type form struct {
	what   string // in an error
	schema schema
}

func text(more ...string) schema {
	s := schema{"type": "string"}
	for i := 0; i+1 < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

func orNull(s schema) schema {
	if kind, ok := s["type"].(string); ok {
		out := schema{}
		for key, value := range s {
			out[key] = value
		}
		out["type"] = []string{kind, "null"}
		return out
	}
	return schema{"anyOf": []schema{s, {"type": "null"}}}
}

func oneOf[T encoding.TextMarshaler](values ...T) schema {
	var names []string
	for _, value := range values {
		name, err := value.MarshalText()
		if err == nil {
			names = append(names, string(name))
		}
	}
	return schema{"type": "string", "enum": names}
}

var forms = map[reflect.Type]form{
	reflect.TypeFor[wire.Stamp](): {"a time such as \"2026-01-31T12:00:00Z\"", orNull(text("format", "date-time"))},
	reflect.TypeFor[time.Time]():  {"a time such as \"2026-01-31T12:00:00Z\"", text("format", "date-time")},
	reflect.TypeFor[wire.Ref]():   {"a UUID such as \"01890a5d-ac96-774b-bcce-b302099a8057\"", orNull(text("format", "uuid"))},
	reflect.TypeFor[pawl.ID]():    {"a UUID such as \"01890a5d-ac96-774b-bcce-b302099a8057\"", text("format", "uuid")},
	reflect.TypeFor[wire.Text]():  {"a string", orNull(text())},
	reflect.TypeFor[pawl.DeathClass](): {
		"transient-exhausted, permanent or poison", oneOf(pawl.DeathExhausted, pawl.DeathPermanent, pawl.DeathPoison),
	},
	reflect.TypeFor[pawl.Status](): {
		"dead, redriven, resolved or discarded", oneOf(pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved, pawl.StatusDiscarded),
	},
	reflect.TypeFor[pageSize](): {"from 1 to 1000", schema{"type": "integer", "minimum": 1, "maximum": 1000}},
	rawJSON:                     {"a JSON value", schema{}},
	reflect.TypeFor[document](): {"a JSON value", schema{"type": "object"}},
	reflect.TypeFor[[]byte]():   {"a string of base64", text("contentEncoding", "base64")},
}

// schemas gathers the types of a description.
type schemas struct {
	made  map[string]any
	names map[reflect.Type]string
}

func (s schemas) of(t reflect.Type) schema {
	if known, ok := forms[t]; ok {
		return known.schema
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(s.of(t.Elem()))
	case reflect.Slice:
		return schema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return text()
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Struct:
		return s.named(t)
	}
	return schema{"type": "integer"}
}

// named is a reference to a struct, which is described beside it.
func (s schemas) named(t reflect.Type) schema {
	name, there := s.names[t]
	if !there {
		name = strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, taken := s.made[name]; taken {
			name += "Answer"
		}
		s.names[t], s.made[name] = name, nil // it may contain itself
	}
	at := schema{"$ref": "#/components/schemas/" + name}
	if there {
		return at
	}
	properties, required := schema{}, []string{}
	for _, field := range bodyFields(t) {
		property := schema{"description": field.Tag.Get("doc")}
		for key, value := range s.of(field.Type) {
			property[key] = value
		}
		properties[nameOf(field)] = property
		if !strings.Contains(field.Tag.Get("json"), ",omit") && !behindPointer(t, field) {
			required = append(required, nameOf(field))
		}
	}
	made := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		made["required"] = required
	}
	s.made[name] = made
	return at
}

// behindPointer reports that a field is in an embedded struct that may be missing.
func behindPointer(t reflect.Type, field reflect.StructField) bool {
	for _, i := range field.Index[:len(field.Index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

func (s schemas) parameters(in reflect.Type) []schema {
	var all []schema
	for _, field := range reflect.VisibleFields(in) {
		for _, where := range []string{"path", "query"} {
			if name := field.Tag.Get(where); name != "" {
				all = append(all, schema{
					"name": name, "in": where, "required": where == "path", "description": field.Tag.Get("doc"), "schema": s.of(field.Type),
				})
			}
		}
	}
	return all
}

func (s schemas) operation(r route) schema {
	role := string(r.needs)
	switch {
	case r.enqueues && r.needs == RoleViewer:
		role = "any"
	case r.enqueues:
		role = string(RoleEnqueue) + " or " + role
	}
	summary, _, _ := strings.Cut(r.doc, ".")
	op := schema{"operationId": r.name, "summary": summary, "description": r.doc + "\n\nRole: " + role + "."}
	var parameters []schema
	if r.method == http.MethodGet {
		parameters = s.parameters(r.in)
	} else {
		for _, p := range s.parameters(r.in) {
			if p["in"] == "path" {
				parameters = append(parameters, p)
			}
		}
		if len(bodyFields(r.in)) > 0 {
			op["requestBody"] = schema{"required": true, "content": schema{"application/json": schema{"schema": s.named(r.in)}}}
		}
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	answer := func(what string) schema {
		return schema{"description": what, "content": schema{"application/json": schema{"schema": s.of(r.out)}}}
	}
	answers := schema{
		"default": schema{
			"description": "A refusal (RFC 9457).",
			"content":     schema{"application/problem+json": schema{"schema": s.named(reflect.TypeFor[problem]())}},
		},
		strconv.Itoa(http.StatusOK): answer("Done."),
	}
	if r.creates {
		answers[strconv.Itoa(http.StatusOK)] = answer("Nothing new was stored.")
		answers[strconv.Itoa(http.StatusCreated)] = answer("Stored.")
	}
	op["responses"] = answers
	return op
}

const about31 = `Every operation on a Pawl store, and enqueue, over HTTP. Times are RFC 3339 in UTC with milliseconds, durations whole
milliseconds. In an answer every key is always there, null where there is no value; keys are only ever added. Names that are
not known are refused, in the query and in the body. Lists go on at ?after=NEXT.`

// describe makes the description of what is served.
func describe(table []served) (document, error) {
	all, paths := schemas{map[string]any{}, map[reflect.Type]string{}}, schema{}
	for _, r := range table {
		path, _ := paths["/"+strings.TrimPrefix(r.path, "/")].(schema)
		if path == nil {
			path = schema{}
			paths["/"+strings.TrimPrefix(r.path, "/")] = path
		}
		path[strings.ToLower(r.method)] = all.operation(r.route)
	}
	encoded, err := json.MarshalIndent(schema{
		"openapi":  "3.1.0",
		"info":     schema{"title": "Pawl", "version": Version, "description": about31},
		"servers":  []schema{{"url": prefix}},
		"security": []schema{{"token": []string{}}},
		"paths":    paths,
		"components": schema{
			"securitySchemes": schema{"token": schema{"type": "http", "scheme": "bearer"}},
			"schemas":         all.made,
		},
	}, "", " ")
	return encoded, err
}
