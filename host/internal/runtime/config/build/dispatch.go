package build

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// dispatchLayer returns the policy layer of a dispatch block.
func (b *builder) dispatchLayer(s *decode.Section, source policy.Source) policy.Layer {
	var l policy.Layer
	origin := func(v decode.Value) policy.Origin { return policy.Origin{Source: source, Where: v.At.String()} }
	if v := s.Attrs["policy"]; v.Written {
		l.Ordering = policy.Of(s.Text("policy"), origin(v))
	}
	if v := s.Attrs["strategy"]; v.Written {
		l.Strategy = policy.Of(s.Text("strategy"), origin(v))
	}
	if v := s.Attrs["deadline"]; v.Written {
		l.Deadline = policy.Of(s.Duration("deadline"), origin(v))
	}
	if members, ok := s.Texts("switch_on"); ok {
		from := origin(s.Attrs["switch_on"])
		l.SwitchOn.Add = policy.Of(policy.NamesOf(from, members...), from)
	}
	if members, ok := s.Texts("switch_on_replace"); ok {
		from := origin(s.Attrs["switch_on_replace"])
		l.SwitchOn.Base = policy.Of(policy.NamesOf(from, members...), from)
	}
	b.idleSwitches(s)
	if v := s.Attrs["fallback_to"]; v.Written {
		l.Fallbacks = policy.NamesOf(origin(v), b.capabilityRefs(s, "fallback_to")...)
	}
	b.checksOf(&l, s, source)
	r := s.Block("retry")
	for name, to := range map[string]*policy.Val[int]{"same_capability": &l.SameCapMax, "fallback": &l.FallbackMax} {
		if v := r.Attrs[name]; v.Written {
			*to = policy.Of(r.Integer(name), origin(v))
		}
	}
	for name, to := range map[string]*policy.Val[time.Duration]{"backoff": &l.Backoff, "max_backoff": &l.MaxBackoff} {
		if v := r.Attrs[name]; v.Written {
			*to = policy.Of(r.Duration(name), origin(v))
		}
	}
	b.ordered(r, "backoff", "max_backoff", false)
	for _, side := range []struct {
		block, attr string
		to          *policy.Val[int]
	}{{"repair", "max", &l.RepairMax}, {"race", "width", &l.RaceWidth}, {"tournament", "width", &l.TournamentWidth},
		{"hedge", "max", &l.HedgeMax}} {
		if in := s.Block(side.block); in.Attrs[side.attr].Written {
			*side.to = policy.Of(in.Integer(side.attr), origin(in.Attrs[side.attr]))
		}
	}
	l.Breaker = b.breakerRules(s)
	l.Learned = b.learnedLayer(s.Block("learned"), origin)
	if hedge := s.Block("hedge"); hedge.Attrs["after"].Written {
		l.HedgeAfter = policy.Of(hedge.Duration("after"), origin(hedge.Attrs["after"]))
	}
	return l
}

// idleDispatch checks the dispatch blocks that have no reference, because the validity of a block
// does not depend on its use.
func (b *builder) idleDispatch() {
	for _, s := range b.All("dispatch") {
		if !b.used["dispatch"][s.Label()] {
			b.dispatchLayer(s, policy.SourceIntent)
		}
	}
}

// idleSwitches warns about elements that no failure can match.
func (b *builder) idleSwitches(s *decode.Section) {
	for _, name := range []string{"switch_on", "switch_on_replace"} {
		members, _ := s.Texts(name)
		for i, m := range members {
			set, err := policy.ParseSwitchSet([]string{m})
			if err == nil && len(set.Idle()) > 0 {
				b.Report.Add(diag.Diagnostic{
					Type:     "config/unused",
					Severity: diag.SeverityWarning,
					Message: fmt.Sprintf("%s in %s never leads to another attempt: an error of that type ends the call",
						diag.Quote(m), s.Node.Title()),
					Range: s.Attrs[name].Items[i].At,
					Path:  append(slices.Clone(s.Node.Path), name),
				})
			}
		}
	}
}

func (b *builder) checksOf(l *policy.Layer, s *decode.Section, source policy.Source) {
	if v := s.Attrs["checks"]; v.Written {
		from := policy.Origin{Source: source, Where: v.At.String()}
		l.Checks.Add = policy.Of(policy.NamesOf(from, b.checkRefs(s, "checks")...), from)
	}
}
