package spans

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Run converts the records of one run to spans. The zero value has read no record.
// Content selects how much of requests and answers spans contain; empty: nothing.
type Run struct {
	Content journal.Content

	accepted   *journal.RunAccepted
	epoch      int
	root       *Span // open; nil between epochs
	before     Context
	route      *Span // open while a router is called
	operations map[string]*operation
	order      []*operation      // in the order of their begin
	earlier    map[place]Context // attempts of epochs that have ended
	last       time.Time
	to         Sink
}

// place identifies an attempt in a run.
type place struct {
	path    string
	attempt int
}

// routePath is the path of the call of a router.
var routePath = edn.Vector(edn.Text("route")).String()

// Reads reports whether a Run uses records of this kind. Add ignores all others.
func Reads(rec journal.Record) bool {
	switch rec.Body.(type) {
	case *journal.RunAccepted, *journal.RunResumed, *journal.RunSuspended, *journal.RunFinished, *journal.PlanResolved,
		*journal.NodeResolved, *journal.AttemptStarted, *journal.AttemptFinished, *journal.GateVerdict,
		*journal.NodeCommitted, *journal.NodeFailed:
		return true
	}
	return false
}

// Add reads the next record of the run and passes the spans and events that are complete
// with it to to.
func (r *Run) Add(rec journal.Record, to Sink) {
	if !Reads(rec) {
		return
	}
	rec.At = rec.At.Truncate(time.Millisecond)
	r.to = to
	switch b := rec.Body.(type) {
	case *journal.RunAccepted:
		r.accepted = b
		r.begin(rec)
	case *journal.RunResumed:
		r.resume(rec, b)
	case *journal.RunSuspended:
		r.close(rec.At, statusSuspended, nil)
	case *journal.RunFinished:
		if r.root != nil && b.Cache != "" {
			r.root.add(attrCache, b.Cache)
		}
		r.close(rec.At, b.Status, b.Err)
	case *journal.PlanResolved:
		r.plan(rec, b)
	default:
		if r.root != nil {
			r.addToNode(rec)
		}
	}
	r.last = rec.At
}

// begin opens the span of an epoch.
func (r *Run) begin(rec journal.Record) {
	r.epoch = rec.Epoch
	s := &Span{
		Context: RunContext(rec.Run, rec.Epoch),
		Name:    operationWorkflow + " " + r.accepted.Intent,
		Start:   rec.At,
	}
	if p, ok := ParentOf(r.accepted.Trace); ok && rec.Epoch == 1 {
		s.Trace, s.Parent = p.Trace, p.Span
	}
	s.add(attrOperationName, operationWorkflow)
	s.text(attrWorkflow, r.accepted.Intent)
	s.text(attrConversation, r.accepted.SessionID)
	s.add(attrRun, rec.Run)
	s.add(attrEpoch, int64(rec.Epoch))
	s.text(attrClass, r.accepted.Class)
	s.add(attrConventions, Conventions)
	r.content(s, attrRequestHash, attrRequest, r.accepted.Request)
	r.root = s
}

// resume opens the next epoch. Spans that the epoch before left open end as interrupted
// at the time of its last record.
func (r *Run) resume(rec journal.Record, b *journal.RunResumed) {
	if r.accepted == nil {
		return
	}
	r.close(r.last, statusInterrupted, nil)
	before := r.before
	r.begin(rec)
	r.root.add(attrResumed, b.Why)
	if before != (Context{}) {
		r.root.Links = append(r.root.Links, before)
	}
	if p, ok := ParseTraceParent(b.TraceParent); ok {
		r.root.Links = append(r.root.Links, p.Context)
	}
}

// close ends the epoch and all its open spans.
func (r *Run) close(at time.Time, status string, err *contract.Error) {
	if r.root == nil {
		return
	}
	left := outcomeCanceled
	if status == statusInterrupted {
		left = statusInterrupted
	}
	for _, o := range slices.Backward(r.order) {
		r.abandon(o, at, left)
	}
	r.endRoute(at, "")
	s := r.root
	s.End = at
	s.add(attrStatus, status)
	switch {
	case status == statusInterrupted:
		s.fail(statusInterrupted)
	case err != nil && status != journal.StatusCanceled:
		s.fail(err.Type)
	case err != nil:
		s.text(AttrError, err.Type)
	}
	r.before = s.Context
	r.to.Span(s)
	r.root, r.operations, r.order = nil, nil, nil
}

// abandon closes an operation with its attempts. Their contexts are kept in earlier,
// because gates may judge the attempts in the next epoch.
func (r *Run) abandon(o *operation, at time.Time, left string) {
	for _, a := range o.attempts {
		r.endAttempt(a, at, left)
		if !o.closed {
			if r.earlier == nil {
				r.earlier = map[place]Context{}
			}
			r.earlier[place{o.path, a.began.Attempt}] = a.Context
		}
	}
	r.end(o, at, left, "")
	for _, a := range o.attempts {
		r.give(o, a)
	}
}

// plan opens the span of the call of a router, or ends it when the plan of the run is
// resolved.
func (r *Run) plan(rec journal.Record, b *journal.PlanResolved) {
	switch {
	case r.root == nil:
	case rec.Path.Len() == 0:
		outcome, _ := b.Route.Key("outcome").AsKeyword()
		r.endRoute(rec.At, outcome)
	case r.route == nil && rec.Path.String() == routePath:
		r.route = r.open(operationPlan, spanOf("route", rec.Run, r.epoch, "", 0), r.root.Span, rec.At)
		r.route.add(attrOperationName, operationPlan)
	}
}

func (r *Run) endRoute(at time.Time, outcome string) {
	if r.route == nil {
		return
	}
	r.route.text(attrRoute, outcome)
	r.route.End = at
	r.to.Span(r.route)
	r.route = nil
}

// open returns a new span in the trace of the epoch.
func (r *Run) open(name string, id, parent [8]byte, at time.Time) *Span {
	return &Span{Context: Context{r.root.Trace, id}, Parent: parent, Name: name, Start: at}
}

// around returns the id of the span that encloses a path: the attempt or operation at
// the longest prefix of the path, the call of a router, or the run.
func (r *Run) around(path edn.Value) [8]byte {
	elements := slices.Collect(path.Elems())
	for n := len(elements) - 1; n > 0; n-- {
		key := edn.Vector(elements[:n]...).String()
		if o := r.operations[key]; o != nil && !o.closed {
			return o.inner()
		}
		if key == routePath && r.route != nil {
			return r.route.Span
		}
	}
	return r.root.Span
}
