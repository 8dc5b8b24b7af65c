package journal

import (
	"github.com/fermenthq/ferment/sdk/edn"
)

// Transcript returns a run as a vector with one entry per attempt, in the
// order in which the attempts started. An entry has exactly the keys :op :node
// :path :intent :cap/id :tool/id :as :attempt :candidate-index :input
// :result/type :out :latency-ms :invoke/meta :error :failure/type :findings
// :plan/run, each absent where it does not apply. A remediation of a candidate
// is an entry after the attempt that caused it, with the :op :quality and the
// remediation as :input.
func Transcript(records []Record) edn.Value {
	v := newView(records)
	out := make([]edn.Value, 0, len(v.attempts)+len(v.remediations))
	remediations := v.remediations
	for i, a := range v.attempts {
		out = append(out, v.entry(a))
		for len(remediations) > 0 && remediations[0].after <= i+1 {
			out = append(out, remediations[0].entry())
			remediations = remediations[1:]
		}
	}
	return edn.Vector(out...)
}

// remediation is a restart, swap or quarantine of a candidate, with the number
// of attempts that had started before.
type remediation struct {
	*HostEvent
	after int
}

// opQuality is the :op of the entry of a remediation.
const opQuality = "quality"

func (d remediation) entry() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.kw("op", opQuality)
	for _, key := range []string{"node", "path", "attempt"} {
		p.val(key, d.Details.Key(key))
	}
	p.kw("intent", d.Intent)
	p.kw("cap/id", d.CapID)
	b.Key("input", d.Details.Dissoc(edn.K("node"), edn.K("path"), edn.K("attempt")).AssocKey("event", Keyword(d.Event)))
	return b.Map()
}

func (v *view) entry(a *attemptView) edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	n := a.node
	p.kw("op", n.op)
	p.str("node", n.id)
	b.Key("path", n.path)
	if n.resolved != nil {
		p.kw("intent", n.resolved.Intent)
		p.kw("tool/id", n.resolved.ToolID)
		for i, c := range n.resolved.Candidates {
			if c.CapID == a.started.CapID {
				b.Key("candidate-index", edn.Int(int64(i)))
			}
		}
	}
	p.kw("cap/id", a.started.CapID)
	p.kw("as", v.slot(n))
	p.positive("attempt", a.started.Attempt)
	if input, ok := a.started.Request.Value().Get(edn.K("input")); ok {
		b.Key("input", input)
	}
	if f := a.finished; f != nil {
		p.kw("result/type", f.ResultType)
		if out, ok := f.Result.Value().Key("result").Get(edn.K("out")); ok {
			b.Key("out", out)
		}
		b.Key("latency-ms", edn.Int(millis(f.Latency)))
		p.val("invoke/meta", f.Meta)
	}
	err, typ := v.failure(a)
	p.err("error", err)
	p.kw("failure/type", typ)
	if fs := findings(a.verdicts); fs.Len() > 0 {
		b.Key("findings", fs)
	}
	if !a.child.IsNil() {
		b.Key("plan/run", v.summary(a.child, typ == "", err))
	}
	return b.Map()
}

func findings(verdicts []*GateVerdict) edn.Value {
	var out []edn.Value
	for _, g := range verdicts {
		for f := range g.Findings.Value().Elems() {
			out = append(out, f)
		}
	}
	return edn.Vector(out...)
}
