package build

import (
	"fmt"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// learnedLayer returns the settings of learned dispatch in a block; nil if there are none.
func (b *builder) learnedLayer(s *decode.Section, origin func(decode.Value) policy.Origin) *policy.LearnedLayer {
	var l policy.LearnedLayer
	switch v := s.Attrs["prior"]; {
	case !v.Written:
	case v.EDN.Kind() != edn.KindMap:
		l.Prior = policy.Of(priorOf(v), origin(v))
	default:
		l.Priors = map[string]policy.Prior{}
		for i, id := range v.Keys {
			if b.isCapability(s, "prior", id, v.Items[i].At) {
				l.Priors[id] = priorOf(v.Items[i])
			}
		}
	}
	for name, to := range map[string]*policy.Val[float64]{
		"explore": &l.Explore, "cost_weight": &l.CostWeight, "latency_weight": &l.LatencyWeight,
	} {
		if v := s.Attrs[name]; v.Written {
			*to = policy.Of(s.Number(name), origin(v))
		}
	}
	if v := s.Attrs["half_life"]; v.Written {
		l.HalfLife = policy.Of(s.Duration("half_life"), origin(v))
	}
	if v := s.Attrs["bucket"]; v.Written {
		l.Bucket = policy.Of(s.Text("bucket"), origin(v))
	}
	for _, v := range s.Attrs {
		if v.Written {
			return &l
		}
	}
	return nil
}

func priorOf(v decode.Value) policy.Prior {
	var of [2]float64
	for i := range min(2, len(v.Items)) {
		if r, ok := v.Items[i].EDN.AsNumber(); ok {
			of[i], _ = r.Float64()
		}
	}
	return policy.Prior{Passes: of[0], Fails: of[1]}
}

// learns warns about an intent with the policy learned that has no objective results to learn from
// (LRN-007), or never tries another candidate.
func (b *builder) learns(s *decode.Section, l *policy.Layer) {
	if l.Ordering.V != policy.Learning {
		return
	}
	if !l.HasMustBesides(quality.SchemaValid) {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf(
				"%s has policy = \"learned\" and no must check besides schema-valid: it learns only from a judge, "+
					"or that every answer passes", s.Node.Title()),
			Range: s.At(),
			Path:  s.Node.Path,
			Hint:  "name a check in done { must = [..] } that tells a right answer from a wrong one, or give the intent another policy",
		})
	}
	strategy := l.Strategy.Or(policy.DefaultStrategy)
	switch {
	case strategy != policy.Cascade:
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("%s has policy = \"learned\" and strategy = %q, so it learns nothing: "+
				"attempts that run beside others are not counted", s.Node.Title(), strategy),
			Range: s.At(),
			Path:  s.Node.Path,
			Hint:  "use strategy = \"cascade\" with retry { fallback = 1 } or more, or give the intent another policy",
		})
	case l.FallbackMax.V == 0:
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("%s has policy = \"learned\" and no fallback, so it never tries a candidate to learn about it",
				s.Node.Title()),
			Range: s.At(),
			Path:  s.Node.Path,
			Hint:  "write retry { fallback = 1 } or more in the dispatch of the intent",
		})
	}
}
