package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// view indexes a run by nodes and attempts, for transcript and report. It is
// built in one pass over the records.
type view struct {
	accepted *RunAccepted
	finished *RunFinished
	// suspended is nil unless the run waits for a decision.
	suspended *RunSuspended
	run       string
	begun     time.Time
	ended     time.Time // of a finished run
	past      *History  // only for a comparison
	route     edn.Value // influence of a router on the plan; nil: no router was called

	nodes        []*nodeView // in the order of their first record
	attempts     []*attemptView
	remediations []remediation
	plans        []planAt
	byPath       map[string]*nodeView // only if there are more nodes than few
	planned      map[string]int       // of plans, by path; built at the first use
	last         *nodeView            // node of the previous record, mostly also of the next

	room viewRoom
}

// viewRoom is preallocated space for a run of one node with one call.
type viewRoom struct {
	plans    [1]planAt
	nodes    [1]*nodeView
	attempts [1]*attemptView
	node     nodeView
	attempt  attemptView
}

type planAt struct {
	plan Ref
	path edn.Value
}

type nodeView struct {
	path      edn.Value
	id        string
	op        string
	resolved  *NodeResolved // the newest
	first     *NodeResolved
	skipped   *NodeSkipped
	committed *NodeCommitted
	failed    *NodeFailed
	attempts  []*attemptView
	verdicts  []*GateVerdict // of a plan's or map's value
	begun     time.Time
	ended     time.Time

	room [1]*attemptView
}

type attemptView struct {
	node     *nodeView
	started  *AttemptStarted
	at       time.Time
	finished *AttemptFinished
	verdicts []*GateVerdict
	child    edn.Value // path of the plan answer of this attempt; nil: none

	room [1]*GateVerdict
}

func newView(records []Record) *view {
	v := &view{}
	v.plans, v.nodes, v.attempts = v.room.plans[:0], v.room.nodes[:0], v.room.attempts[:0]
	for i := range records {
		v.add(&records[i])
	}
	return v
}

func (v *view) newNode(rec *Record) *nodeView {
	n := &v.room.node
	if len(v.nodes) > 0 {
		n = &nodeView{}
	}
	n.path, n.id, n.begun = rec.Path, rec.Node, rec.At
	n.attempts = n.room[:0]
	v.nodes = append(v.nodes, n)
	return n
}

func (v *view) newAttempt(n *nodeView, b *AttemptStarted, at time.Time) {
	a := &v.room.attempt
	if len(v.attempts) > 0 {
		a = &attemptView{}
	}
	a.node, a.started, a.at = n, b, at
	a.verdicts = a.room[:0]
	n.attempts = append(n.attempts, a)
	v.attempts = append(v.attempts, a)
}

func (v *view) add(rec *Record) {
	v.run = rec.Run
	switch b := rec.Body.(type) {
	case *RunAccepted:
		v.accepted, v.begun = b, rec.At
	case *RunSuspended:
		v.suspended = b
	case *RunResumed:
		v.suspended = nil
		if b.Reopens() {
			v.reopen()
		}
	case *RunFinished:
		v.finished, v.ended = b, rec.At
	case *PlanResolved:
		v.plans, v.planned = append(v.plans, planAt{b.Plan, rec.Path}), nil
		if !b.Route.IsNil() {
			v.route = b.Route
		}
		if b.Source == "answer" {
			if n := v.find(parent(rec.Path)); n != nil {
				if a := n.attempt(b.Attempt); a != nil {
					a.child = rec.Path
				}
			}
		}
	case *NodeResolved:
		n := v.node(rec)
		if n.first == nil {
			n.first = b
		}
		n.resolved, n.op = b, b.Op
	case *NodeSkipped:
		n := v.node(rec)
		n.skipped, n.op = b, b.Op
	case *AttemptStarted:
		v.newAttempt(v.node(rec), b, rec.At)
	case *AttemptFinished:
		if a := v.node(rec).attempt(b.Attempt); a != nil {
			a.finished = b
		}
	case *GateVerdict:
		n := v.node(rec)
		if a := n.attempt(b.Attempt); a != nil {
			a.verdicts = append(a.verdicts, b)
		} else {
			n.verdicts = append(n.verdicts, b)
		}
	case *HostEvent:
		v.remediations = append(v.remediations, remediation{b, len(v.attempts)})
	case *NodeCommitted:
		n := v.node(rec)
		n.committed, n.failed, n.ended = b, nil, rec.At
	case *NodeFailed:
		n := v.node(rec)
		n.failed, n.ended = b, rec.At
	}
}

// reopen resets the end of the run, and the failures of nodes that are not within a
// committed node: they are executed again.
func (v *view) reopen() {
	v.finished = nil
	for _, n := range v.nodes {
		if n.failed != nil && !v.within(n.path) {
			n.failed, n.ended = nil, time.Time{}
		}
	}
}

// within reports whether a path is part of a committed node.
func (v *view) within(path edn.Value) bool {
	for path.Len() > 0 {
		path = parent(path)
		if n := v.find(path); n != nil && n.committed != nil {
			return true
		}
	}
	return false
}

func (v *view) node(rec *Record) *nodeView {
	n := v.find(rec.Path)
	if n == nil {
		n = v.newNode(rec)
		if len(v.nodes) > few {
			v.index()
		}
	}
	v.last = n
	return n
}

// few is the number of nodes up to which a linear search is faster than an index.
const few = 8

// find returns the node at a path, nil if there is no record of it.
func (v *view) find(path edn.Value) *nodeView {
	switch {
	case v.last != nil && edn.Equal(v.last.path, path):
		return v.last
	case v.byPath != nil:
		return v.byPath[path.String()]
	}
	for _, n := range v.nodes {
		if edn.Equal(n.path, path) {
			return n
		}
	}
	return nil
}

// index adds the last node to the index, all of them if there is none yet.
func (v *view) index() {
	if v.byPath == nil {
		v.byPath = make(map[string]*nodeView, 2*few)
		for _, n := range v.nodes {
			v.byPath[n.path.String()] = n
		}
		return
	}
	n := v.nodes[len(v.nodes)-1]
	v.byPath[n.path.String()] = n
}

// planAt returns the newest plan recorded at a path, nil without one.
func (v *view) planAt(path edn.Value) *planAt {
	if v.planned == nil {
		v.planned = make(map[string]int, len(v.plans))
		for i := range v.plans {
			v.planned[v.plans[i].path.String()] = i
		}
	}
	i, ok := v.planned[path.String()]
	if !ok {
		return nil
	}
	return &v.plans[i]
}

// attempt returns the newest attempt with this number: an equal plan answer
// runs its nodes again at the same paths.
func (n *nodeView) attempt(number int) *attemptView {
	for _, a := range slices.Backward(n.attempts) {
		if a.started.Attempt == number {
			return a
		}
	}
	return nil
}

// spec returns the node at a path as written in the recorded plan; nil if no recorded
// plan has it.
func (v *view) spec(path edn.Value) edn.Value {
	last, ok := path.Nth(path.Len() - 1)
	if !ok {
		return edn.Nil()
	}
	index, ok := last.AsInt()
	if !ok {
		return edn.Nil()
	}
	home := parent(path)
	plan := v.planAt(home)
	for plan == nil && isItem(home) {
		home = parent(home)
		plan = v.planAt(home)
	}
	if plan == nil {
		return edn.Nil()
	}
	node, _ := nodesOf(plan.plan.Value()).Nth(int(index))
	return node
}

// nodesOf returns the nodes of a recorded plan; the body of a map is recorded
// as nodes.
func nodesOf(plan edn.Value) edn.Value {
	if plan.IsMap() {
		return plan.Key("nodes")
	}
	return plan
}

func (v *view) slot(n *nodeView) string {
	if n.committed != nil && n.committed.As != "" {
		return n.committed.As
	}
	as, _ := v.spec(n.path).Key("as").AsKeyword()
	return as
}

// opOf returns the operation of a node, "" if it is not known.
func (v *view) opOf(n *nodeView) string {
	if n.op != "" {
		return n.op
	}
	op, _ := v.spec(n.path).Key("op").AsKeyword()
	return op
}

func parent(path edn.Value) edn.Value {
	elems := slices.Collect(path.Elems())
	if len(elems) == 0 {
		return path
	}
	return edn.Vector(elems[:len(elems)-1]...)
}

// isItem reports whether the last element of a path is an item of a map.
func isItem(path edn.Value) bool {
	last, ok := path.Nth(path.Len() - 1)
	if !ok {
		return false
	}
	s, ok := last.AsString()
	return ok && strings.HasPrefix(s, "i")
}

// Below returns the records with a path strictly below home, in their order.
func Below(records []Record, home edn.Value) []Record {
	var out []Record
	for _, r := range records {
		if r.Path.Kind() == edn.KindVector && within(r.Path, home) {
			out = append(out, r)
		}
	}
	return out
}

func within(path, prefix edn.Value) bool {
	if path.Len() <= prefix.Len() {
		return false
	}
	for i := range prefix.Len() {
		want, _ := prefix.Nth(i)
		got, _ := path.Nth(i)
		if !edn.Equal(got, want) {
			return false
		}
	}
	return true
}

// outscored reports whether the answer passed its gates in a tournament and a better
// answer won.
func (a *attemptView) outscored() bool {
	c := a.node.committed
	return c != nil && slices.Contains(c.Outscored, a.started.Attempt)
}

// failure returns the error of an attempt and its type; nil and "" for an accepted,
// outscored or unfinished attempt. If a gate rejected the answer, the type is set and
// the error is nil. If the answer was a plan that failed, both are those of the failed
// node.
func (v *view) failure(a *attemptView) (*contract.Error, string) {
	if a.finished == nil {
		return nil, ""
	}
	if a.finished.Err != nil {
		return a.finished.Err, a.finished.Err.Type
	}
	if c := a.node.committed; c != nil && c.FailureType == "" && (c.Attempt == a.started.Attempt || a.outscored()) {
		return nil, ""
	}
	if !a.child.IsNil() {
		if e := v.childFailure(a.child); e != nil {
			return e, e.Type
		}
	}
	failed, schemaFailed := false, false
	for _, g := range a.verdicts {
		if g.Severity == "must" && !g.Pass {
			if g.Tier == tierJudge && g.Err != nil {
				return nil, "judge/failed"
			}
			failed = true
			schemaFailed = schemaFailed || g.Gate == "schema-valid"
		}
	}
	switch {
	case schemaFailed:
		return nil, "schema/invalid"
	case failed:
		return nil, "eval/must-failed"
	case a.node.committed == nil && a.node.failed == nil && a == a.node.attempts[len(a.node.attempts)-1]:
		return nil, "" // its gates did not finish: the run was cut short
	default:
		return nil, "eval/low-score"
	}
}

// childFailure returns the first error in program order among the nodes of the
// plan at a path.
func (v *view) childFailure(home edn.Value) *contract.Error {
	var first *nodeView
	for _, n := range v.nodes {
		if n.failed != nil && within(n.path, home) && n.path.Len() == home.Len()+1 {
			if first == nil || edn.Compare(n.path, first.path) < 0 {
				first = n
			}
		}
	}
	if first == nil {
		return nil
	}
	return first.failed.Err
}

// latency returns the time from the first to the last record of a node.
func (n *nodeView) latency() time.Duration {
	if n.ended.IsZero() {
		return 0
	}
	return max(0, n.ended.Sub(n.begun))
}
