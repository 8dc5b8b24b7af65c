package journal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Comparison is two runs side by side, their nodes aligned by path (JRN-052).
type Comparison struct {
	A, B edn.Value // facts of the runs
	// Differs names the aspects in which the runs differ: request, plan, outcome, value,
	// cost. Differences of nodes are in Nodes.
	Differs []string
	// Values is true if all values were compared. Values of a purged run are not compared,
	// unless another run keeps them.
	Values bool
	Nodes  []NodeComparison // in the order of the plan, each before those within it
}

// NodeComparison is one node in two runs.
type NodeComparison struct {
	Path edn.Value
	A, B edn.Value // facts of the node; nil in a run that did not reach it
	// Differs are the aspects that differ: node if only one run has the node, else
	// plan, candidates, pick, outcome, verdicts, value, cost.
	Differs []string
}

// aspect is a named group of facts by which runs or nodes are compared. Facts that
// belong to no aspect are shown and not compared: ids, times, latencies, the
// configuration.
type aspect struct {
	name  string
	facts []string
}

var (
	runAspects = []aspect{
		{"request", []string{"intent", "operation", "request"}},
		{"plan", []string{"plan"}},
		{"outcome", []string{"status", "failure/type"}},
		{"value", []string{"value"}},
		{"cost", []string{"cost-usd"}},
	}
	nodeAspects = []aspect{
		{"plan", []string{"node", "op", "asked", "plan"}},
		{"candidates", []string{"candidates", "rejected", "policy", "strategy"}},
		{"pick", []string{"cap/id", "cap/version"}},
		{"outcome", []string{"state", "failure/type", "attempts"}},
		{"verdicts", []string{"verdicts", "score"}},
		{"value", []string{"value"}},
		{"cost", []string{"cost-usd"}},
	}
	// ignoredFacts are the facts of attempts and verdicts that are not compared:
	// latency; cost, which is compared per node; the version, which is compared
	// for the accepted answer.
	ignoredFacts = []edn.Value{edn.K("latency-ms"), edn.K("cost-usd"), edn.K("cap/version")}
)

// Compare compares two runs by their records. A fact that is read from a value is
// compared only if both runs still have the value; other facts are compared by name or
// hash. A run that has not finished is compared as far as it is recorded. Swapping the
// arguments swaps A and B in the result.
func Compare(a, b []Record) Comparison {
	x, y := newView(a), newView(b)
	x.past, y.past = NewHistory(a), NewHistory(b)
	c := Comparison{A: x.facts(), B: y.facts()}
	c.Differs = differing(c.A, c.B, runAspects)
	c.Values = hasValue(c.A) && hasValue(c.B)
	for _, n := range x.nodes {
		pair := NodeComparison{Path: n.path, A: x.factsOf(n)}
		if other := y.find(n.path); other != nil {
			pair.B = y.factsOf(other)
		}
		c.Nodes = append(c.Nodes, pair)
	}
	for _, n := range y.nodes {
		if x.find(n.path) == nil {
			c.Nodes = append(c.Nodes, NodeComparison{Path: n.path, B: y.factsOf(n)})
		}
	}
	slices.SortStableFunc(c.Nodes, func(p, q NodeComparison) int { return ComparePaths(p.Path, q.Path) })
	for i := range c.Nodes {
		n := &c.Nodes[i]
		c.Values = c.Values && hasValue(n.A) && hasValue(n.B)
		if n.A.IsNil() || n.B.IsNil() {
			n.Differs = []string{"node"}
		} else {
			n.Differs = differing(n.A, n.B, nodeAspects)
		}
	}
	return c
}

// differing returns the aspects in which two sides differ.
func differing(a, b edn.Value, aspects []aspect) (names []string) {
	for _, by := range aspects {
		if slices.ContainsFunc(by.facts, func(fact string) bool {
			x, y := comparedPart(a.Key(fact)), comparedPart(b.Key(fact))
			unknown := (fact == "value" || fact == "op") && (x.IsNil() || y.IsNil()) // op is read from the plan
			// No gate has judged a value that a decision gave.
			unknown = unknown || by.name == "verdicts" && (a.HasKey("given?") || b.HasKey("given?"))
			return !unknown && !edn.Equal(x, y)
		}) {
			names = append(names, by.name)
		}
	}
	return names
}

// comparedPart returns a fact without ignoredFacts.
func comparedPart(fact edn.Value) edn.Value {
	if !isVector(fact) {
		return fact
	}
	var out []edn.Value
	for v := range fact.Elems() {
		if isMap(v) {
			v = v.Dissoc(ignoredFacts...)
		}
		out = append(out, v)
	}
	return edn.Vector(out...)
}

// Equal reports whether no aspect of the runs or of their nodes differs. Times and
// latencies are not compared.
func (c Comparison) Equal() bool {
	return len(c.Differs) == 0 && !slices.ContainsFunc(c.Nodes, func(n NodeComparison) bool { return len(n.Differs) > 0 })
}

// Value returns the comparison as data.
func (c Comparison) Value() edn.Value {
	nodes := make([]edn.Value, len(c.Nodes))
	for i, n := range c.Nodes {
		var b edn.MapBuilder
		p := put{&b}
		b.Key("path", n.Path)
		b.Key("differs", keywordsOf(n.Differs))
		p.val("a", n.A)
		p.val("b", n.B)
		nodes[i] = b.Map()
	}
	return edn.MustMap(
		edn.K("equal?"), edn.Bool(c.Equal()),
		edn.K("values?"), edn.Bool(c.Values),
		edn.K("differs"), keywordsOf(c.Differs),
		edn.K("a"), c.A,
		edn.K("b"), c.B,
		edn.K("nodes"), edn.Vector(nodes...),
	)
}

// keywordsOf returns names as keywords, in their order.
func keywordsOf(names []string) edn.Value {
	out := make([]edn.Value, len(names))
	for i, name := range names {
		out[i] = Keyword(name)
	}
	return edn.Vector(out...)
}

// hasValue reports whether the value of a completed run or a committed node is known;
// true for others, which have no value.
func hasValue(facts edn.Value) bool {
	ended := edn.Equal(facts.Key("state"), edn.K("committed")) || edn.Equal(facts.Key("status"), edn.K(StatusCompleted))
	return !ended || facts.HasKey("value")
}

// facts returns the facts of the run, as a map.
func (v *view) facts() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.str("run", v.run)
	if a := v.accepted; a != nil {
		p.kw("intent", a.Intent)
		p.kw("operation", a.Operation)
		p.str("request", a.Fingerprint.Hash())
		p.str("config", a.Config)
		b.Key("accepted-at", Instant(v.begun))
	}
	if plan := v.planAt(edn.Vector()); plan != nil {
		p.str("plan", plan.plan.Hash())
	}
	var usages []edn.Value
	for _, n := range v.nodes {
		usages = v.usages(n, usages)
	}
	p.val("cost-usd", SumUsage(usages...).Key("cost-usd"))
	f := v.finished
	switch {
	case f == nil && v.suspended != nil:
		p.kw("status", "suspended")
		p.kw("failure/type", v.suspended.Why)
		return b.Map()
	case f == nil:
		p.kw("status", "open")
		return b.Map()
	}
	p.kw("status", f.Status)
	b.Key("latency-ms", edn.Int(millis(f.Latency)))
	if f.Err != nil {
		p.kw("failure/type", f.Err.Type)
	}
	if result := f.Response.Value().Key("result"); !result.IsNil() {
		if out, ok := result.Get(edn.K("out")); ok { // the older spelling has none
			result = out
		}
		p.str("value", edn.Hash(result))
	}
	return b.Map()
}

// factsOf returns the facts of a node, as a map.
func (v *view) factsOf(n *nodeView) edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	op := v.opOf(n)
	p.str("node", n.id)
	p.kw("op", op)
	if plan := v.planAt(n.path); plan != nil {
		p.str("plan", plan.plan.Hash())
	}
	r := n.resolved
	if slices.ContainsFunc(n.attempts, func(a *attemptView) bool { _, again := v.decided(a); return again }) {
		r = n.first // the newest candidates are those of a call that is made again
	}
	if r != nil {
		p.kw("asked", cmp.Or(r.Intent, r.ToolID))
		ids := make([]string, len(r.Candidates))
		for i, c := range r.Candidates {
			ids[i] = c.CapID
		}
		b.Key("candidates", keywordsOf(ids))
		rejected := make([]Rejection, len(r.Rejected))
		for i, one := range r.Rejected {
			one.Figures = edn.Nil()
			rejected[i] = one
		}
		b.Key("rejected", RejectionsValue(rejected))
		p.kw("policy", r.Policy)
		p.kw("strategy", r.Strategy)
	}
	v.endOf(n, op, p)
	b.Key("latency-ms", edn.Int(millis(n.latency())))
	if n.resolved == nil && len(n.verdicts) == 0 {
		return b.Map()
	}
	attempts, verdicts := []edn.Value{}, []edn.Value{}
	judged := func(list []*GateVerdict, attempt int) {
		for _, g := range list {
			verdicts = append(verdicts, g.fact(attempt))
		}
	}
	for _, a := range n.attempts {
		how, again := v.decided(a)
		if again {
			continue
		}
		attempts = append(attempts, v.factOf(a, how))
		judged(a.verdicts, len(attempts))
		if how != nil && how.Choice == DecisionDone {
			b.Key("given?", edn.Bool(true))
		}
	}
	judged(n.verdicts, 0)
	b.Key("attempts", edn.Vector(attempts...))
	b.Key("verdicts", edn.Vector(verdicts...))
	p.val("cost-usd", SumUsage(v.usages(n, nil)...).Key("cost-usd"))
	return b.Map()
}

// usages appends to out the usages of the attempts and verdicts of a node. Attempts that
// were made again are left out, because a replay does not have them.
func (v *view) usages(n *nodeView, out []edn.Value) []edn.Value {
	judged := func(list []*GateVerdict) {
		for _, g := range list {
			if g.Called() {
				out = append(out, g.Usage)
			}
		}
	}
	for _, a := range n.attempts {
		if _, again := v.decided(a); again {
			continue
		}
		if a.finished != nil {
			out = append(out, a.finished.Usage)
		}
		judged(a.verdicts)
	}
	judged(n.verdicts)
	return out
}

// endOf adds the state of the node with its accepted answer or failure.
func (v *view) endOf(n *nodeView, op string, p put) {
	c := n.committed
	switch {
	case n.skipped != nil:
		p.kw("state", "skipped")
	case n.failed != nil:
		p.kw("state", "failed")
		p.kw("failure/type", n.failed.Err.Type)
	case c == nil:
		p.kw("state", "unfinished")
	case c.FailureType != "":
		p.kw("state", "kept")
		p.kw("failure/type", c.FailureType)
	default:
		p.kw("state", "committed")
		p.kw("cap/id", c.CapID)
		if a := n.attempt(c.Attempt); a != nil {
			p.str("cap/version", a.started.CapVersion)
		}
		p.val("score", c.Score.Value())
		if value := c.Value.Value(); op != "" && (!value.IsNil() || c.Value.Hash() == edn.Hash(edn.Nil())) {
			if out, ok := value.Get(edn.K("out")); ok && op != "let" && op != "emit" {
				value = out // the other keys, such as capability and latency, differ in each execution
			}
			p.str("value", edn.Hash(value))
		}
	}
}

// decided returns the decision about an attempt, nil if there is none, and reports
// whether the call was made again: by a decision, or because its run was reopened. Such
// an attempt is not compared; the attempt that replaced it is.
func (v *view) decided(a *attemptView) (how *Decided, again bool) {
	place := v.past.At(a.node.path)
	if place == nil {
		return nil, false
	}
	t := place.Attempt(a.started.Attempt)
	if t == nil || t.Started != a.started {
		return nil, false
	}
	return t.Decided, t.Forgotten && t.Decided == nil || t.Decided != nil && t.Decided.Choice == DecisionRetry
}

// factOf returns the facts of an attempt, as a map. The outcome is that of the decision
// how if the decision is done or fail, else the recorded one.
func (v *view) factOf(a *attemptView, how *Decided) edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.kw("cap/id", a.started.CapID)
	p.str("cap/version", a.started.CapVersion)
	p.positive("round", a.started.Round)
	p.kw("entrant", a.started.Entrant)
	if plan := v.planAt(a.child); !a.child.IsNil() && plan != nil {
		p.str("plan", plan.plan.Hash())
	}
	switch f := a.finished; {
	case how != nil && how.Choice == DecisionDone:
		p.kw("outcome", OutcomeOK)
		return b.Map()
	case how != nil && how.Choice == DecisionFail:
		p.kw("outcome", OutcomeUnknown)
		p.kw("failure/type", "effects/outcome-unknown")
		return b.Map()
	case f != nil:
		p.kw("outcome", f.Outcome)
		b.Key("latency-ms", edn.Int(millis(f.Latency)))
		p.val("cost-usd", f.Usage.Key("cost-usd"))
	}
	_, failure := v.failure(a)
	p.kw("failure/type", failure)
	return b.Map()
}

// fact returns the facts of a verdict, as a map. attempt is the number of its attempt
// among the compared ones, from 1; 0 for a verdict on the value of a plan.
func (g *GateVerdict) fact(attempt int) edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.positive("attempt", attempt)
	p.kw("gate", g.Gate)
	p.kw("severity", g.Severity)
	b.Key("pass", edn.Bool(g.Pass))
	if g.NotApplicable {
		b.Key("applicable?", edn.Bool(false))
	}
	p.val("score", g.Score.Value())
	p.str("findings", g.Findings.Hash())
	p.kw("cap/id", g.CapID)
	if g.Err != nil {
		p.kw("failure/type", g.Err.Type)
	}
	p.val("cost-usd", g.Usage.Key("cost-usd"))
	return b.Map()
}

// ComparePaths compares the paths of two nodes for sorting in the order of their plan:
// a node sorts before those within it. The result is negative, 0 or positive.
func ComparePaths(a, b edn.Value) int {
	for i := range min(a.Len(), b.Len()) {
		x, _ := a.Nth(i)
		y, _ := b.Nth(i)
		// Items are strings with a number, such as "i10".
		if c := cmp.Or(cmp.Compare(len(element(x)), len(element(y))), strings.Compare(element(x), element(y))); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Len(), b.Len())
}

// element returns an element of a path as text.
func element(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	return v.String()
}
