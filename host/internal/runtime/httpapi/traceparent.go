package httpapi

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
)

// traceParentHeader is the request header with the trace context of the caller.
const traceParentHeader = "Traceparent"

// Outcomes of the trace context of a request.
const (
	TraceJoined    = "joined"
	TraceMalformed = "malformed"
	TraceAnonymous = "anonymous" // the caller is not identified
)

// traceParent returns the trace context that the run of the request joins; empty: none (HTTP-011).
// A malformed one, and that of an anonymous caller, is ignored. The outcome is counted once per
// request.
func (x *exchange) traceParent() string {
	all := x.r.Header.Values(traceParentHeader)
	if len(all) == 0 {
		return ""
	}
	outcome, text := TraceJoined, all[0]
	switch _, ok := spans.ParseTraceParent(text); {
	case !ok || len(all) > 1:
		outcome, text = TraceMalformed, ""
	case !x.via.admin && x.who.Type == Anonymous:
		outcome, text = TraceAnonymous, ""
	}
	if !x.traceCounted {
		x.traceCounted = true
		x.api.backend.Traced(outcome)
	}
	return text
}

type traceParentKey struct{}

// traced returns a context with the trace context of the caller.
func (x *exchange) traced(ctx context.Context) context.Context {
	if parent := x.traceParent(); parent != "" {
		return context.WithValue(ctx, traceParentKey{}, parent)
	}
	return ctx
}

// TraceParent returns the trace context of the caller on whose behalf a method of [Control] or
// [Runs] is called; empty if there is none.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceParentKey{}).(string)
	return parent
}
