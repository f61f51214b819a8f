package pawl

import (
	"context"
)

type contextKey int

const (
	jobKey contextKey = iota
	correlationKey
	traceKey
)

// FromContext returns the job that this ctx runs, or nil outside an attempt. The operations of a nil *Job return
// ErrNoJob.
func FromContext(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey).(*Job)
	return job
}

// ContextWithJob returns the ctx that a handler is called with. Hosts use it, and tests of handlers.
func ContextWithJob(ctx context.Context, job *Job) context.Context {
	return context.WithValue(ctx, jobKey, job)
}

// ContextWithCorrelationID makes jobs that are enqueued with this ctx carry the id; a request's id, for one.
func ContextWithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey, id)
}

func correlationID(ctx context.Context) string {
	if id, ok := ctx.Value(correlationKey).(string); ok {
		return id
	}
	if job := FromContext(ctx); job != nil {
		return job.CorrelationID
	}
	return ""
}

type traceContext struct{ parent, state string }

// ContextWithTrace makes jobs that are enqueued with this ctx carry a W3C trace context: the values of the headers
// traceparent and tracestate.
func ContextWithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	return context.WithValue(ctx, traceKey, traceContext{traceparent, tracestate})
}

// TraceContext returns the W3C trace context that ctx carries: that of ContextWithTrace, else the running job's.
func TraceContext(ctx context.Context) (traceparent, tracestate string) {
	if trace, ok := ctx.Value(traceKey).(traceContext); ok {
		return trace.parent, trace.state
	}
	if job := FromContext(ctx); job != nil {
		return job.TraceParent, job.TraceState
	}
	return "", ""
}
