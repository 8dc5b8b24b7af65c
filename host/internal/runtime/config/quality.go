package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// breakerRules returns the settings of a breaker block.
func (b *builder) breakerRules(s *section) registry.Breaker {
	var r registry.Breaker
	in := s.block("breaker")
	for name, to := range map[string]*int{"window": &r.Window, "min_samples": &r.MinSamples} {
		if in.written(name) {
			*to = in.integer(name)
		}
	}
	for name, to := range map[string]*float64{"threshold": &r.Threshold, "factor": &r.Factor} {
		if in.written(name) {
			*to = in.number(name)
		}
	}
	for name, to := range map[string]*time.Duration{"base": &r.Base, "ceiling": &r.Ceiling} {
		if in.written(name) {
			*to = in.duration(name)
		}
	}
	b.ordered(in, "base", "ceiling", false)
	b.ordered(in, "min_samples", "window", false)
	if in.written("ramp") {
		r.Ramp = b.ramp(in)
	}
	return r
}

// pluginQuality applies the quality block of a plugin to its capabilities.
func (b *builder) pluginQuality() {
	rules := map[string]registry.Quality{}
	for _, s := range b.all("plugin") {
		rules[s.label()] = b.qualityRules(s)
	}
	for i := range b.caps {
		b.caps[i].Quality = rules[b.caps[i].Plugin]
	}
}

// qualityRules returns the settings of a quality block.
func (b *builder) qualityRules(s *section) registry.Quality {
	var q registry.Quality
	in := s.block("quality")
	for name, to := range map[string]*int{"window": &q.Window, "min_samples": &q.MinSamples} {
		if in.written(name) {
			*to = in.integer(name)
		}
	}
	shares := map[string]*registry.Share{
		"min_pass_rate": &q.MinPassRate,
		"hysteresis":    &q.Hysteresis,
		"max_ejected":   &q.MaxEjected,
	}
	for name, to := range shares {
		if in.written(name) {
			*to = registry.ShareOf(in.number(name))
		}
	}
	b.ordered(in, "min_samples", "window", false)
	if in.written("action") {
		q.Action = in.text("action")
	}
	if in.written("swap_to") {
		q.SwapTo = b.capabilityRef(in, "swap_to")
		b.swapsAway(s, in, q.SwapTo)
	}
	if v := in.attrs["swap_to"]; v.written && in.text("action") != registry.ActionSwap {
		b.report.add(Diagnostic{
			Type:     "config/unused",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("swap_to in %s has no effect: its action is %s", in.node.title(), in.text("action")),
			Range:    v.rng,
			Path:     append(slices.Clone(in.node.path), "swap_to"),
		})
	}
	return q
}

// swapsAway rejects swap_to if it names the only capability of the plugin or the only candidate of the intent.
func (b *builder) swapsAway(s, in *section, to string) {
	swapped, _ := s.texts("candidates")
	if s.node.spec.Name == "plugin" {
		for _, c := range b.caps {
			if c.Plugin == s.label() {
				swapped = append(swapped, c.ID)
			}
		}
	}
	if slices.Equal(swapped, []string{to}) {
		b.report.add(Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("swap_to in %s names what it would replace", in.node.title()),
			Range:   in.attrs["swap_to"].rng,
			Path:    append(slices.Clone(in.node.path), "swap_to"),
			Found:   edn.Text(to),
			Hint:    "name a capability of another plugin",
		})
	}
}

// ramp returns the ramp of a breaker and checks that it rises to 100.
func (b *builder) ramp(in *section) []int {
	v := in.attrs["ramp"]
	shares := make([]int, 0, len(v.items))
	for _, item := range v.items {
		n, _ := item.v.AsInt()
		shares = append(shares, int(n))
	}
	if !slices.IsSorted(shares) || len(shares) == 0 || shares[len(shares)-1] != 100 {
		b.report.add(Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("ramp in %s does not rise to 100", in.node.title()),
			Range:   v.rng,
			Path:    append(slices.Clone(in.node.path), "ramp"),
			Hint:    "end it with 100, such as [10, 25, 50, 100]",
		})
		return nil
	}
	return shares
}
