package journal

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Account answers what the end of a run asks about it, from one pass over the
// records.
type Account struct{ view *view }

// NewAccount reads the records of a run that is coming to its end.
func NewAccount(records []Record) Account { return Account{newView(records)} }

// PlanRun is the public account of the run: {:ok? :telemetry :participants
// :timings}, and :failure/type with :error if it failed. It never holds a value
// of the environment.
func (a Account) PlanRun(err *contract.Error) edn.Value {
	return a.view.summary(edn.Vector(), err == nil, err)
}

// summary counts the nodes below a path.
func (v *view) summary(home edn.Value, ok bool, err *contract.Error) edn.Value {
	var total, skipped, succeeded, failed, retries, hops, calls int64
	var participants, timings []edn.Value
	var failures map[string]int64
	for _, n := range v.nodes {
		if !within(n.path, home) {
			continue
		}
		total++
		switch {
		case n.skipped != nil:
			skipped++
		case n.failed != nil:
			failed++
		case n.committed != nil && len(n.attempts) > 0 && n.committed.FailureType == "":
			succeeded++
		}
		for i, a := range n.attempts {
			calls++
			if i > 0 {
				if n.attempts[i-1].started.CapID == a.started.CapID {
					retries++
				} else {
					hops++
				}
			}
			if _, typ := v.failure(a); typ != "" {
				if failures == nil {
					failures = map[string]int64{}
				}
				failures[typ]++
			}
			participants = addOnce(participants, participant(a))
			timings = append(timings, timing(a))
		}
	}
	var types edn.MapBuilder
	for typ, n := range failures {
		types.Set(keyword(typ), edn.Int(n))
	}
	telemetry := edn.MustMap(
		edn.K("nodes/total"), edn.Int(total),
		edn.K("nodes/skipped"), edn.Int(skipped),
		edn.K("nodes/failed"), edn.Int(failed),
		edn.K("calls/total"), edn.Int(calls),
		edn.K("calls/succeeded"), edn.Int(succeeded),
		edn.K("calls/retries"), edn.Int(retries),
		edn.K("calls/fallback-hops"), edn.Int(hops),
		edn.K("calls/failure-types"), types.Map(),
	)
	var b edn.MapBuilder
	b.Key("ok?", edn.Bool(ok))
	b.Key("telemetry", telemetry)
	b.Key("participants", edn.Vector(participants...))
	b.Key("timings", edn.Vector(timings...))
	if err != nil {
		p := put{&b}
		p.kw("failure/type", err.Type)
		p.err("error", err)
	}
	return b.Map()
}

// participant is [capability model]; the model is nil where there is none.
func participant(a *attemptView) edn.Value {
	model := edn.Nil()
	if a.finished != nil {
		model = a.finished.Meta.Key("model")
	}
	return edn.Vector(keyword(a.started.CapID), model)
}

func timing(a *attemptView) edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	p.str("node", a.node.id)
	b.Key("path", a.node.path)
	p.kw("cap/id", a.started.CapID)
	p.positive("attempt", a.started.Attempt)
	p.kw("enforcement", a.started.Enforcement)
	if a.finished != nil {
		b.Key("latency-ms", edn.Int(millis(a.finished.Latency)))
	}
	return b.Map()
}

// addOnce adds a participant that is not there yet. However long a run is, few
// take part in it.
func addOnce(all []edn.Value, who edn.Value) []edn.Value {
	for _, one := range all {
		if edn.Equal(one, who) {
			return all
		}
	}
	return append(all, who)
}

// ModelsUsed is the distinct [capability model] pairs of the run in first use,
// without those that have no model.
func (a Account) ModelsUsed() edn.Value {
	var out []edn.Value
	for _, at := range a.view.attempts {
		if at.finished != nil && !at.finished.Meta.Key("model").IsNil() {
			out = addOnce(out, participant(at))
		}
	}
	return edn.Vector(out...)
}
