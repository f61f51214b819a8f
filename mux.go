package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
)

// Handler runs one attempt of any kind.
type Handler func(ctx context.Context, job *Job) error

// Middleware wraps handlers: tracing, error reporting, a tenant's context. The first one that is given is outermost. A
// handler's panic reaches it as a *PanicError that next returns; runtime.Goexit passes through it.
type Middleware func(next Handler) Handler

// Mux finds the handler of a kind by its stored name, and by nothing else. Fill it before it is handed to a host;
// it is not safe to change while jobs run.
type Mux struct {
	handlers   map[string]Handler
	middleware []Middleware
	policies   map[string]Policy
	errs       []error
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{handlers: map[string]Handler{}, policies: map[string]Policy{}} }

// Use wraps every handler, also those registered before, in the middleware.
func (m *Mux) Use(middleware ...Middleware) { m.middleware = append(m.middleware, middleware...) }

// Handle registers the handler of a kind, and of every older kind that it replaces. Its goroutine may run other jobs
// afterwards, so a handler that locks its thread undoes that before it returns, or does such work in a goroutine of its own.
// Mistakes, such as a second
// handler for a kind, are reported by Err, and so by host.New.
func Handle[T any](m *Mux, kind Kind[T], handle func(context.Context, T) error, middleware ...Middleware) {
	if kind.err != nil {
		m.errs = append(m.errs, kind.err)
		return
	}
	if handle == nil {
		m.errs = append(m.errs, fmt.Errorf("kind %s: %w", kind.name, &FieldError{"handler", "nil", "must be a function"}))
		return
	}
	add := func(name string, read func([]byte) (T, error)) {
		m.add(name, wrap(func(ctx context.Context, job *Job) (err error) {
			defer caught(&err)
			args, err := read(job.Args)
			if err != nil {
				return &PoisonError{Reason: ReasonWrongArgs, Err: err}
			}
			return handle(ctx, args)
		}, middleware))
	}
	add(kind.name, kind.read)
	m.policies[kind.name] = kind.policy
	for _, l := range kind.lifts {
		add(l.name, l.read)
	}
}

// caught turns a panic into a *PanicError with the stack of where it happened.
func caught(err *error) {
	if value := recover(); value != nil {
		*err = &PanicError{Value: value, Stack: string(debug.Stack())}
	}
}

func (m *Mux) add(name string, handler Handler) {
	if name == "" {
		m.errs = append(m.errs, &FieldError{"kind", "", "must be made with NewKind"})
		return
	}
	if _, taken := m.handlers[name]; taken {
		m.errs = append(m.errs, &FieldError{"kind", name, "must have one handler; it was registered twice"})
		return
	}
	m.handlers[name] = handler
}

func wrap(handler Handler, middleware []Middleware) Handler {
	for _, wrapper := range slices.Backward(middleware) {
		handler = wrapper(handler)
	}
	return handler
}

// Err is what was wrong with the registrations.
func (m *Mux) Err() error { return errors.Join(m.errs...) }

// Kinds lists the registered kinds in order.
func (m *Mux) Kinds() []string { return slices.Sorted(maps.Keys(m.handlers)) }

// Policy is what a registered kind states itself; the zero Policy for an older kind that another one replaces.
func (m *Mux) Policy(kind string) Policy { return m.policies[kind] }

// Handles reports whether a kind has a handler.
func (m *Mux) Handles(kind string) bool { return m.handlers[kind] != nil }

// Run calls the job's handler in this goroutine and done with its error, exactly once, before it returns or before
// the goroutine ends: a panic becomes a *PanicError with the stack, runtime.Goexit becomes ErrGoexit.
func (m *Mux) Run(ctx context.Context, job *Job, done func(error)) {
	returned := false
	var err error
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: string(debug.Stack())}
		} else if !returned {
			err = ErrGoexit
		}
		done(err)
	}()
	err = m.call(ctx, job)
	returned = true
}

func (m *Mux) call(ctx context.Context, job *Job) error {
	handler, ok := m.handlers[job.Kind]
	if !ok {
		return &PoisonError{Reason: ReasonUnknownKind, Err: fmt.Errorf("no handler is registered for kind %q", job.Kind)}
	}
	return wrap(handler, m.middleware)(ctx, job)
}
