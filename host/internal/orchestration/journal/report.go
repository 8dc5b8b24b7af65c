package journal

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Report is a summary of a run for people: calls, answers, gates, failovers
// and duration.
type Report struct {
	Run     string
	Intent  string
	Status  string // final status; empty while the run has not finished
	Latency time.Duration
	Err     *contract.Error
	Nodes   []NodeReport
}

// NodeReport is one node of the run, nested ones included, in the order in
// which the nodes started.
type NodeReport struct {
	Path     edn.Value
	Node     string
	Op       string
	Asked    string    // intent or tool
	Input    edn.Value // of the first attempt
	Answered string    // capability of the accepted answer
	State    string    // committed, kept (a failure), failed, skipped, running, unfinished (the run ended first)
	Failure  string    // error type of a failed or kept node
	Score    Score
	Attempts []AttemptReport
	Gates    []GateReport // of the accepted answer, else of the last one
	Rejected []Rejection
	Latency  time.Duration
}

// AttemptReport is one call to one capability.
type AttemptReport struct {
	Attempt int
	CapID   string
	Outcome string // empty while it runs
	Failure string
	Message string
	Latency time.Duration
	Usage   edn.Value // nil: none is recorded
	// Enforcement is "port-only" if the network of the process was confined to
	// ports only.
	Enforcement string
}

// GateReport is the verdict of one check.
type GateReport struct {
	Gate       string
	Severity   string
	Pass       bool
	Applicable bool
	By         string // capability, if one judged
	Score      Score  // of a judge
}

// Failed reports whether the attempt failed. An attempt that was canceled because it
// lost a race did not.
func (a AttemptReport) Failed() bool { return a.Failure != "" && a.Failure != "race/lost" }

// FailedOver reports whether the node has an accepted answer and an attempt at another
// candidate failed.
func (n NodeReport) FailedOver() bool {
	for _, a := range n.Attempts {
		if n.Answered != "" && a.CapID != n.Answered && a.Failed() {
			return true
		}
	}
	return false
}

// NewReport returns the report of a run from its records, which may be incomplete.
func NewReport(records []Record) Report {
	v := newView(records)
	r := Report{Run: v.run}
	if v.accepted != nil {
		r.Intent = v.accepted.Intent
	}
	if v.finished != nil {
		r.Status, r.Latency, r.Err = v.finished.Status, v.finished.Latency, v.finished.Err
	}
	for _, n := range v.nodes {
		if n.failed == nil {
			n.op = v.opOf(n)
		}
		r.Nodes = append(r.Nodes, v.report(n))
	}
	return r
}

func (v *view) report(n *nodeView) NodeReport {
	out := NodeReport{Path: n.path, Node: n.id, Op: n.op, State: "running", Latency: n.latency()}
	if n.resolved != nil {
		out.Asked = n.resolved.Intent
		if out.Asked == "" {
			out.Asked = n.resolved.ToolID
		}
		out.Rejected = n.resolved.Rejected
	}
	switch {
	case n.skipped != nil:
		out.State = "skipped"
	case n.failed != nil:
		out.State, out.Failure = "failed", n.failed.Err.Type
	case n.committed != nil && n.committed.FailureType != "":
		out.State, out.Failure = "kept", n.committed.FailureType
	case n.committed != nil:
		out.State, out.Answered, out.Score = "committed", n.committed.CapID, n.committed.Score
	case v.finished != nil: // the run ended before the node
		out.State, out.Latency = "unfinished", max(0, v.ended.Sub(n.begun))
	}
	judged := n.verdicts
	for i, a := range n.attempts {
		if i == 0 {
			out.Input = a.started.Request.Value().Key("input")
		}
		ar := AttemptReport{Attempt: a.started.Attempt, CapID: a.started.CapID, Enforcement: a.started.Enforcement}
		if a.finished != nil {
			ar.Outcome, ar.Latency, ar.Usage = a.finished.Outcome, a.finished.Latency, a.finished.Usage
		}
		var err *contract.Error
		if err, ar.Failure = v.failure(a); err != nil {
			ar.Message = err.Message
		}
		out.Attempts = append(out.Attempts, ar)
		if len(a.verdicts) > 0 {
			judged = a.verdicts
		}
	}
	for _, g := range judged {
		out.Gates = append(out.Gates, GateReport{g.Gate, g.Severity, g.Pass, !g.NotApplicable, g.CapID, g.Score})
	}
	return out
}

// Value returns the node as data. It has no input: that is in the transcript.
func (n NodeReport) Value() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	b.Key("path", n.Path)
	p.str("node", n.Node)
	p.kw("op", n.Op)
	p.kw("asked", n.Asked)
	b.Key("state", edn.K(n.State))
	p.kw("answered", n.Answered)
	p.kw("failure/type", n.Failure)
	p.val("score", n.Score.Value())
	b.Key("latency-ms", edn.Int(millis(n.Latency)))
	attempts, gates := make([]edn.Value, len(n.Attempts)), make([]edn.Value, len(n.Gates))
	for i, a := range n.Attempts {
		attempts[i] = a.Value()
	}
	for i, g := range n.Gates {
		gates[i] = g.Value()
	}
	b.Key("attempts", edn.Vector(attempts...))
	b.Key("gates", edn.Vector(gates...))
	if len(n.Rejected) > 0 {
		b.Key("rejected", RejectionsValue(n.Rejected))
	}
	return b.Map()
}

// Value returns the attempt as data. An attempt without outcome has not finished.
func (a AttemptReport) Value() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	b.Key("attempt", edn.Int(int64(a.Attempt)))
	p.kw("cap/id", a.CapID)
	p.kw("outcome", a.Outcome)
	p.kw("failure/type", a.Failure)
	p.str("message", a.Message)
	if a.Outcome != "" {
		b.Key("latency-ms", edn.Int(millis(a.Latency)))
	}
	p.val("cost-usd", a.Usage.Key("cost-usd"))
	p.kw("enforcement", a.Enforcement)
	return b.Map()
}

// Value returns the verdict as data.
func (g GateReport) Value() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.kw("gate", g.Gate)
	p.kw("severity", g.Severity)
	b.Key("pass", edn.Bool(g.Pass))
	if !g.Applicable {
		b.Key("applicable?", edn.Bool(false))
	}
	p.kw("cap/id", g.By)
	p.val("score", g.Score.Value())
	return b.Map()
}
