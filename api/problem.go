package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// What a refusal is called, in the member code of a problem. They are part of the API and never change their meaning.
const (
	codeInvalid      = "invalid"
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeNoRoute      = "no_route"
	codeMethod       = "method_not_allowed"
	codeMediaType    = "media_type"
	codeTooLarge     = "too_large"
	codeThrottled    = "throttled"
	codeTimeout      = "timeout"
	codeFailed       = "failed"
)

// known are the errors of package pawl that pass through unchanged, the closest first.
var known = []struct {
	code   string
	status int
	err    error
}{
	{"confirmation_needed", http.StatusConflict, pawl.ErrConfirm},
	{"already_redriven", http.StatusConflict, pawl.ErrAlreadyRedriven},
	{"redrive_refused", http.StatusConflict, pawl.ErrRedriveRefused},
	{"batch_ended", http.StatusConflict, pawl.ErrBatchEnded},
	{"not_found", http.StatusNotFound, pawl.ErrNotFound},
	{"conflict", http.StatusConflict, pawl.ErrConflict},
	{codeInvalid, http.StatusBadRequest, pawl.ErrInvalid},
	{"lease_lost", http.StatusConflict, pawl.ErrLeaseLost},
	{"session_lost", http.StatusConflict, pawl.ErrSessionLost},
	{"finished", http.StatusConflict, pawl.ErrFinished},
	{"unsupported", http.StatusNotImplemented, pawl.ErrUnsupported},
	{"busy", http.StatusServiceUnavailable, pawl.ErrBusy},
	{"closed", http.StatusServiceUnavailable, pawl.ErrClosed},
	{"schema", http.StatusServiceUnavailable, pawl.ErrSchema},
}

// Error is a refusal as it goes over the wire. On the client's side errors.Is finds the error of package pawl that it was,
// or fs.ErrPermission when the token is not known or may not do this, and errors.As a *pawl.FieldError.
type Error struct {
	Status int    // of HTTP
	Code   string // such as not_found; see docs/api.md
	Detail string // what happened
	JobID  pawl.ID
	field  *pawl.FieldError
	cause  error
	after  time.Duration // when trying again makes sense
}

// Error is what happened, in the words of the server.
func (e *Error) Error() string { return e.Detail }

// Unwrap finds what the refusal stands for.
func (e *Error) Unwrap() []error {
	var causes []error
	if e.field != nil {
		causes = append(causes, e.field)
	}
	if e.cause != nil {
		causes = append(causes, e.cause)
	}
	return causes
}

// problem is the form of an Error: RFC 9457, with members of our own.
type problem struct {
	Type   string `json:"type" doc:"always about:blank: the code says more"`
	Title  string `json:"title" doc:"the meaning of the status"`
	Status int    `json:"status" doc:"of HTTP"`
	Detail string `json:"detail" doc:"what happened"`
	Code   string `json:"code" doc:"what the refusal is called; it never changes its meaning"`
	Field  string `json:"field,omitempty" doc:"with the code invalid: what is wrong"`
	Value  string `json:"value,omitempty" doc:"with field: what was given, cut"`
	Rule   string `json:"rule,omitempty" doc:"with field: what it must be"`
	JobID  ref    `json:"job_id,omitzero" doc:"the job that a letter went on as, though what follows is not known, or has failed"`
}

// maxValue is how much of a refused value is sent back; it is more than FieldError shows.
const maxValue = 200

// asError is the refusal for what went wrong.
func asError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Status: http.StatusInternalServerError, Code: codeFailed, Detail: withoutEcho(err.Error()), cause: err}
	if field := new(pawl.FieldError); errors.As(err, &field) {
		e.field = field
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			e.Code, e.Status = k.code, k.status
			break
		}
	}
	if e.Code == codeFailed && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		e.Status, e.Code = http.StatusServiceUnavailable, codeTimeout
	}
	if e.Status == http.StatusServiceUnavailable {
		e.after = time.Second
	}
	return e
}

// withoutEcho takes the name of an error off the end, where the code says it and the text before it has in better words.
func withoutEcho(text string) string {
	for _, echo := range []error{pawl.ErrConflict, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrBatchEnded} {
		text = strings.TrimSuffix(text, ": "+echo.Error())
	}
	return text
}

func (e *Error) problem() problem {
	p := problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Detail, Code: e.Code, JobID: ref(e.JobID),
	}
	if e.field != nil {
		p.Field, p.Rule = strings.ReplaceAll(e.field.Field, " ", "_"), e.field.Rule
		p.Value = cutText(fmt.Sprint(e.field.Value), maxValue)
	}
	return p
}

// error reads a problem.
func (p problem) error() *Error {
	e := &Error{Status: p.Status, Code: p.Code, Detail: p.Detail, JobID: pawl.ID(p.JobID)}
	if p.Field != "" {
		e.field = &pawl.FieldError{Field: strings.ReplaceAll(p.Field, "_", " "), Value: p.Value, Rule: p.Rule}
	}
	for _, k := range known {
		if k.code == p.Code {
			e.cause = k.err
		}
	}
	switch p.Code {
	case codeTimeout:
		e.cause = context.DeadlineExceeded
	case codeUnauthorized, codeForbidden:
		e.cause = fs.ErrPermission
	}
	return e
}

func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// refusal is a problem inside the answer about many.
func refusal(err error) *problem {
	if err == nil {
		return nil
	}
	p := asError(err).problem()
	return &p
}

func (p *problem) err() error {
	if p == nil {
		return nil
	}
	return p.error()
}
