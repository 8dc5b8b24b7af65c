package build

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// breakerRules returns the settings of a breaker block.
func (b *builder) breakerRules(s *decode.Section) registry.Breaker {
	var r registry.Breaker
	in := s.Block("breaker")
	for name, to := range map[string]*int{"window": &r.Window, "min_samples": &r.MinSamples} {
		if in.Written(name) {
			*to = in.Integer(name)
		}
	}
	for name, to := range map[string]*float64{"threshold": &r.Threshold, "factor": &r.Factor} {
		if in.Written(name) {
			*to = in.Number(name)
		}
	}
	for name, to := range map[string]*time.Duration{"base": &r.Base, "ceiling": &r.Ceiling} {
		if in.Written(name) {
			*to = in.Duration(name)
		}
	}
	b.ordered(in, "base", "ceiling", false)
	b.ordered(in, "min_samples", "window", false)
	if in.Written("ramp") {
		r.Ramp = b.ramp(in)
	}
	return r
}

// pluginQuality applies the quality block of a plugin to its capabilities.
func (b *builder) pluginQuality() {
	rules := map[string]registry.Quality{}
	for _, s := range b.All("plugin") {
		rules[s.Label()] = b.qualityRules(s)
	}
	for i := range b.caps {
		b.caps[i].Quality = rules[b.caps[i].Plugin]
	}
}

// qualityRules returns the settings of a quality block.
func (b *builder) qualityRules(s *decode.Section) registry.Quality {
	var q registry.Quality
	in := s.Block("quality")
	for name, to := range map[string]*int{"window": &q.Window, "min_samples": &q.MinSamples} {
		if in.Written(name) {
			*to = in.Integer(name)
		}
	}
	shares := map[string]*registry.Share{
		"min_pass_rate": &q.MinPassRate,
		"hysteresis":    &q.Hysteresis,
		"max_ejected":   &q.MaxEjected,
	}
	for name, to := range shares {
		if in.Written(name) {
			*to = registry.ShareOf(in.Number(name))
		}
	}
	b.ordered(in, "min_samples", "window", false)
	if in.Written("action") {
		q.Action = in.Text("action")
	}
	if in.Written("swap_to") {
		q.SwapTo = b.capabilityRef(in, "swap_to")
		b.swapsAway(s, in, q.SwapTo)
	}
	if v := in.Attrs["swap_to"]; v.Written && in.Text("action") != registry.ActionSwap {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("swap_to in %s has no effect: its action is %s", in.Node.Title(), in.Text("action")),
			Range:    v.At,
			Path:     append(slices.Clone(in.Node.Path), "swap_to"),
		})
	}
	return q
}

// swapsAway reports a swap_to that names the only capability of the plugin or the only candidate of
// the intent.
func (b *builder) swapsAway(s, in *decode.Section, to string) {
	swapped, _ := s.Texts("candidates")
	if s.Node.Spec.Name == "plugin" {
		for _, c := range b.caps {
			if c.Plugin == s.Label() {
				swapped = append(swapped, c.ID)
			}
		}
	}
	if slices.Equal(swapped, []string{to}) {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("swap_to in %s names the only capability that it would replace", in.Node.Title()),
			Range:   in.Attrs["swap_to"].At,
			Path:    append(slices.Clone(in.Node.Path), "swap_to"),
			Found:   edn.Text(to),
			Hint:    "name a capability of another plugin",
		})
	}
}

// ramp returns the ramp of a breaker; nil if it does not rise to 100, which is reported.
func (b *builder) ramp(in *decode.Section) []int {
	v := in.Attrs["ramp"]
	shares := make([]int, 0, len(v.Items))
	for _, item := range v.Items {
		n, _ := item.EDN.AsInt()
		shares = append(shares, int(n))
	}
	if !slices.IsSorted(shares) || len(shares) == 0 || shares[len(shares)-1] != 100 {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("ramp in %s does not rise to 100", in.Node.Title()),
			Range:   v.At,
			Path:    append(slices.Clone(in.Node.Path), "ramp"),
			Hint:    "end it with 100, such as [10, 25, 50, 100]",
		})
		return nil
	}
	return shares
}
