package journal

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Account computes the summaries for the end of a run in one pass over the
// records.
type Account struct{ view *view }

// NewAccount returns the account of a run from its records so far.
func NewAccount(records []Record) Account { return Account{newView(records)} }

// PlanRun returns the public summary of the run: {:ok? :telemetry :participants
// :timings}, and :failure/type with :error if err is not nil. It contains no input or
// value of a node.
func (a Account) PlanRun(err *contract.Error) edn.Value {
	return a.view.summary(edn.Vector(), err == nil, err)
}

// summary counts the nodes below a path.
func (v *view) summary(home edn.Value, ok bool, err *contract.Error) edn.Value {
	var total, skipped, succeeded, failed, retries, hops, calls int64
	var room [2][4]edn.Value
	participants, timings := room[0][:0], room[1][:0]
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
		types.Set(Keyword(typ), edn.Int(n))
	}
	telemetry := telemetryLayout.Map(edn.Int(total), edn.Int(skipped), edn.Int(failed),
		edn.Int(calls), edn.Int(succeeded), edn.Int(retries), edn.Int(hops), types.Map())
	failure, told := edn.Nil(), edn.Nil()
	if err != nil {
		failure, told = Keyword(err.Type), err.Value()
	}
	return summaryLayout.Present(edn.Bool(ok), telemetry, edn.Vector(participants...), edn.Vector(timings...), failure,
		told)
}

var (
	telemetryLayout = edn.NewLayout("nodes/total", "nodes/skipped", "nodes/failed",
		"calls/total", "calls/succeeded", "calls/retries", "calls/fallback-hops", "calls/failure-types")
	summaryLayout = edn.NewLayout("ok?", "telemetry", "participants", "timings", "failure/type", "error")
	timingLayout  = edn.NewLayout("node", "path", "cap/id", "attempt", "enforcement", "latency-ms")
)

// participant returns [capability model]; the model is nil if there is none.
func participant(a *attemptView) edn.Value {
	model := edn.Nil()
	if a.finished != nil {
		model = a.finished.Meta.Key("model")
	}
	return edn.Vector(Keyword(a.started.CapID), model)
}

func timing(a *attemptView) edn.Value {
	node, attempt, latency := edn.Nil(), edn.Nil(), edn.Nil()
	if a.node.id != "" {
		node = edn.Text(a.node.id)
	}
	if a.started.Attempt > 0 {
		attempt = edn.Int(int64(a.started.Attempt))
	}
	if a.finished != nil {
		latency = edn.Int(millis(a.finished.Latency))
	}
	return timingLayout.Present(node, a.node.path, keywordOrNil(a.started.CapID), attempt,
		keywordOrNil(a.started.Enforcement), latency)
}

func keywordOrNil(name string) edn.Value {
	if name == "" {
		return edn.Nil()
	}
	return Keyword(name)
}

// addOnce adds a missing participant. Their number is small in any run.
func addOnce(all []edn.Value, who edn.Value) []edn.Value {
	for _, one := range all {
		if edn.Equal(one, who) {
			return all
		}
	}
	return append(all, who)
}

// ModelsUsed returns the distinct [capability model] pairs of the run in order
// of first use, without those that have no model.
func (a Account) ModelsUsed() edn.Value {
	var out []edn.Value
	for _, at := range a.view.attempts {
		if at.finished != nil && !at.finished.Meta.Key("model").IsNil() {
			out = addOnce(out, participant(at))
		}
	}
	return edn.Vector(out...)
}
