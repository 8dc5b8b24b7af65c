package policy

import (
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Row is one value of an effective policy with its origin.
type Row struct {
	// Field is the plan key, such as ":switch-on", with the member's key
	// behind it for maps (":constraints :language").
	Field  string
	Value  edn.Value
	Origin Origin
}

// Explain lists every written value with its layer, in a fixed order. Members
// of lists that several layers add to have a row each.
func (p *Policy) Explain() []Row {
	l := &p.Layer
	var rows explained
	rows.val(":candidates", keywordsVal(l.Candidates))
	rows.names(":fallback", l.Fallbacks)
	rows.names(":exclude", l.Exclude)
	rows.val(":retry :same-cap-max", intVal(l.SameCapMax))
	rows.val(":retry :fallback-max", intVal(l.FallbackMax))
	rows.val(":retry :backoff", msVal(l.Backoff))
	rows.val(":retry :max-backoff", msVal(l.MaxBackoff))
	rows.val(":max-attempts", intVal(l.InvalidRetryMax))
	rows.additive(":switch-on", l.SwitchOn)
	rows.names(":must", l.Must)
	rows.additive(":checks", l.Checks)
	rows.names(":should", l.Should)
	rows.names(":checks/soft", l.Soft)
	rows.val(":score-min", l.ScoreMin)
	rows.val(":judge :use", mapVal(l.Judge, edn.Text))
	rows.val(":judge :severity", keywordVal(l.JudgeSeverity))
	rows.val(":policy", keywordVal(l.Ordering))
	rows.val(":strategy", keywordVal(l.Strategy))
	rows.val(":stream", keywordVal(l.Stream))
	rows.val(":repair :max", intVal(l.RepairMax))
	rows.val(":race :width", intVal(l.RaceWidth))
	rows.val(":tournament :width", intVal(l.TournamentWidth))
	rows.val(":hedge :max", intVal(l.HedgeMax))
	rows.val(":hedge :after-ms", msVal(l.HedgeAfter))
	rows.val(":role", keywordVal(l.Role))
	rows.val(":model", l.Model)
	rows.val(":temperature", l.Temperature)
	rows.fields(":context", l.Context)
	rows.fields(":constraints", l.Constraints)
	rows.fields(":budget", l.Budget)
	rows.val(":effects :allowed", keywordsVal(l.Effects))
	for _, s := range l.Scopes {
		rows = append(rows, Row{Field: ":effects :scope " + edn.K(s.Effect).String(), Value: s.Scope.Value(s.Effect),
			Origin: l.Effects.Origin})
	}
	rows.val(":requires :in-schema", keywordVal(l.Requires.InSchema))
	rows.val(":requires :out-schema", keywordVal(l.Requires.OutSchema))
	rows.val(":requires :result/type", keywordVal(l.Requires.ResultType))
	rows.val(":requires :cap/kind", keywordVal(l.Requires.CapKind))
	rows.val(":requires :cap/tags", keywordsVal(l.Requires.CapTags))
	rows.val(":requires :effects/allowed", keywordsVal(l.Requires.Effects))
	rows.val(":deadline-ms", msVal(l.Deadline))
	rows.val(":timeout :extend-ms", msVal(l.Extend))
	return rows
}

type explained []Row

func (e *explained) val(field string, v Val[edn.Value]) {
	if v.Set {
		*e = append(*e, Row{Field: field, Value: v.V, Origin: v.Origin})
	}
}

func (e *explained) names(field string, list Names) {
	for _, n := range list {
		*e = append(*e, Row{Field: field, Value: edn.K(n.Name), Origin: n.Origin})
	}
}

// additive lists the members. A set that is written and empty has a row too,
// because it changes the behavior.
func (e *explained) additive(field string, a Additive) {
	members := a.Names()
	if len(members) == 0 && a.Written() {
		from := a.Base.Origin
		if !a.Base.Set {
			from = a.Add.Origin
		}
		*e = append(*e, Row{Field: field, Value: edn.SetOf(), Origin: from})
	}
	e.names(field, members)
}

func (e *explained) fields(field string, list Fields) {
	for _, f := range list {
		*e = append(*e, Row{Field: field + " " + f.Key.String(), Value: f.Value, Origin: f.Origin})
	}
}

func mapVal[T any](v Val[T], f func(T) edn.Value) Val[edn.Value] {
	if !v.Set {
		return Val[edn.Value]{}
	}
	return Of(f(v.V), v.Origin)
}

func intVal(v Val[int]) Val[edn.Value] {
	return mapVal(v, func(n int) edn.Value { return edn.Int(int64(n)) })
}

func msVal(v Val[time.Duration]) Val[edn.Value] {
	return mapVal(v, func(d time.Duration) edn.Value { return edn.Int(d.Milliseconds()) })
}

func keywordVal(v Val[string]) Val[edn.Value] { return mapVal(v, edn.K) }

func keywordsVal(v Val[[]string]) Val[edn.Value] {
	return mapVal(v, func(list []string) edn.Value {
		vs := make([]edn.Value, len(list))
		for i := range list {
			vs[i] = edn.K(list[i])
		}
		return edn.Vector(vs...)
	})
}
