package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// description is what the tests read of the OpenAPI description.
type description struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schema }
}

type operation struct {
	OperationID, Summary, Description string
	Parameters                        []struct {
		Name, In, Description string
		Required              bool
		Schema                *schema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *schema }
	}
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema *schema }
	}
}

func (w world) description() description {
	w.Helper()
	answer := w.ask(api.RoleEnqueue, http.MethodGet, "/api/v1/openapi.json", "")
	var d description
	if err := json.Unmarshal(answer.body, &d); err != nil || answer.StatusCode != http.StatusOK {
		w.Fatalf("%s: %v", answer.Status, err)
	}
	return d
}

func (d description) operations() map[string]operation {
	all := map[string]operation{}
	for _, methods := range d.Paths {
		for _, op := range methods {
			all[op.OperationID] = op
		}
	}
	return all
}

// Whatever an operator can do to a store has a route, and so have the acts of a desk.
func TestEveryMethodHasARoute(t *testing.T) {
	t.Parallel()
	routes := setup(t).description().operations()
	var methods []string
	for _, of := range []reflect.Type{reflect.TypeFor[pawl.Operator](), reflect.TypeFor[interface{ Enqueue() }]()} {
		for i := range of.NumMethod() {
			methods = append(methods, of.Method(i).Name)
		}
	}
	methods = append(methods, "Redrive", "RedriveMany", "Retry", "RetryMany", "ResolveMany", "DiscardMany", "ReopenMany", "NoteMany", "ForgetMany")
	methods = append(methods, "Outboxes", "Outbox", "OutboxMessages", "OutboxMessage", "PauseOutbox", "RetryMessages", "PurgeOutbox")
	if n := reflect.TypeFor[pawl.Outbox]().NumMethod(); n != 7 { // PauseOutbox is two of them, Outboxes none
		t.Errorf("an outbox has %d methods, and routes for 7", n)
	}
	for _, method := range methods {
		if _, there := routes[method]; !there {
			t.Errorf("%s has no route", method)
		}
	}
	if extra := len(routes) - len(methods); extra != 5 { // About, Describe, Status, Ticks, EnqueueBatch
		t.Errorf("%d routes are of no method", extra)
	}
}

func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	d := setup(t).description()
	if d.OpenAPI != "3.1.0" || len(d.Paths) < 40 {
		t.Errorf("OpenAPI %s, %d paths", d.OpenAPI, len(d.Paths))
	}
	for path, methods := range d.Paths {
		for method, op := range methods {
			at := method + " " + path
			if op.Summary == "" || !strings.Contains(op.Description, "Role: ") {
				t.Errorf("%s is not described: %q", at, op.Description)
			}
			for _, p := range op.Parameters {
				if p.Description == "" || p.Schema == nil {
					t.Errorf("%s: parameter %s is not described", at, p.Name)
				}
			}
			for _, segment := range strings.Split(path, "/") {
				if name, is := strings.CutPrefix(segment, "{"); is && !slices.ContainsFunc(op.Parameters, func(p struct {
					Name, In, Description string
					Required              bool
					Schema                *schema
				},
				) bool {
					return p.Name+"}" == name && p.In == "path" && p.Required
				}) {
					t.Errorf("%s: the path's %s is no parameter", at, segment)
				}
			}
			if op.Responses["200"].Content["application/json"].Schema == nil || op.Responses["default"].Content["application/problem+json"].Schema == nil {
				t.Errorf("%s has no answers", at)
			}
		}
	}
	for name, s := range d.Components.Schemas {
		for field, property := range s.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s is not described", name, field)
			}
		}
	}
}

// schema is the part of JSON Schema that the description uses.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Description          string
	Format               string
	Enum                 []string
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	AnyOf                []*schema
	AdditionalProperties *schema
}

// check says where a value does not fit. What is not described does not fit either.
func (d description) check(at string, s *schema, value any) []string {
	if s.Ref != "" {
		named, there := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if !there {
			return []string{at + ": no schema " + s.Ref}
		}
		return d.check(at, named, value)
	}
	if s.AnyOf != nil {
		var wrong []string
		for _, one := range s.AnyOf {
			found := d.check(at, one, value)
			if found == nil {
				return nil
			}
			wrong = append(wrong, found...)
		}
		return wrong
	}
	if !s.takes(value) {
		return []string{fmt.Sprintf("%s: %v is no %v", at, value, s.Type)}
	}
	var wrong []string
	switch v := value.(type) {
	case map[string]any:
		wrong = append(wrong, d.checkObject(at, s, v)...)
	case []any:
		for i, element := range v {
			wrong = append(wrong, d.check(fmt.Sprintf("%s[%d]", at, i), s.Items, element)...)
		}
	case string:
		if s.Enum != nil && !slices.Contains(s.Enum, v) {
			wrong = append(wrong, fmt.Sprintf("%s: %q is none of %v", at, v, s.Enum))
		}
		if s.Format == "uuid" {
			if _, err := pawl.ParseID(v); err != nil {
				wrong = append(wrong, at+": "+err.Error())
			}
		}
	}
	return wrong
}

func (d description) checkObject(at string, s *schema, object map[string]any) []string {
	var wrong []string
	for name, value := range object {
		property, there := s.Properties[name]
		switch {
		case there:
			wrong = append(wrong, d.check(at+"."+name, property, value)...)
		case s.AdditionalProperties != nil:
			wrong = append(wrong, d.check(at+"."+name, s.AdditionalProperties, value)...)
		case s.Properties != nil:
			wrong = append(wrong, at+"."+name+" is not described")
		}
	}
	for _, name := range s.Required {
		if _, there := object[name]; !there {
			wrong = append(wrong, at+"."+name+" is missing")
		}
	}
	return wrong
}

func (s *schema) takes(value any) bool {
	kinds, several := s.Type.([]any)
	if !several {
		kinds = []any{s.Type}
	}
	if s.Type == nil {
		return true
	}
	is := "null"
	switch v := value.(type) {
	case map[string]any:
		is = "object"
	case []any:
		is = "array"
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; v == float64(int64(v)) && slices.Contains(kinds, any("integer")) {
			is = "integer"
		}
	}
	return slices.Contains(kinds, any(is))
}

// fits checks an answer against the description of its route.
func (w world) fits(d description, name string, answer reply) {
	w.Helper()
	op, there := d.operations()[name]
	if !there {
		w.Fatalf("there is no route %s", name)
	}
	status, kind := fmt.Sprint(answer.StatusCode), "application/json"
	if answer.StatusCode >= 400 {
		status, kind = "default", "application/problem+json"
	}
	s := op.Responses[status].Content[kind].Schema
	if s == nil {
		w.Fatalf("%s: an answer %s is not described: %s", name, answer.Status, answer.body)
	}
	for _, wrong := range d.check(name, s, any(answer.object(w.T))) {
		w.Error(wrong)
	}
}

// What a route says is the most that it takes is the most that it takes.
func TestCallsAboutManyAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many := strings.Repeat("{},", 1000) + "{}"
	for path, name := range map[string]string{"/dead": "letters", "/dead/moves": "moves"} {
		for _, list := range []string{many, ""} {
			p := w.refused(w.ask(api.RoleAdmin, "POST", "/api/v1"+path, `{"`+name+`":[`+list+`]}`), http.StatusBadRequest, "invalid")
			if p["field"] != name {
				t.Errorf("%s: refused for %v", path, p["field"])
			}
		}
	}
}
