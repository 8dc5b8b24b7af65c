package build

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// capabilities registers the advertised capabilities, as renamed and restricted by the capability
// blocks.
func (b *builder) capabilities() {
	blocks := b.All("capability")
	claimed := map[[2]string]*decode.Section{} // plugin, advertised id
	for _, s := range blocks {
		b.claim(s, claimed)
	}
	for i := range b.Plugins {
		p := &b.Plugins[i]
		if !p.Enabled || !p.Described {
			continue
		}
		for _, c := range p.Description.Capabilities {
			b.register(p, c, claimed[[2]string{p.Name, c.ID}])
		}
	}
	b.humans()
	b.notGiven = b.absences(claimed)
}

// claim records that a capability block refers to an advertised capability.
func (b *builder) claim(s *decode.Section, claimed map[[2]string]*decode.Section) {
	b.capNames[s.Label()] = true // even if no plugin serves it, which is reported there
	name := s.Text("plugin")
	if name == "" {
		return
	}
	p, ok := b.plugins[name]
	if !ok {
		b.dangling(s, "plugin", "plugin", name, slices.Sorted(maps.Keys(b.plugins)), s.Attrs["plugin"].At)
		return
	}
	advertised := s.Text("provides")
	at := s.Attrs["provides"].At
	if advertised == "" {
		advertised, at = s.Label(), s.At()
	}
	key := [2]string{name, advertised}
	if first := claimed[key]; first != nil {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/duplicate",
			Message: fmt.Sprintf("two blocks configure capability %s of plugin %s", diag.Quote(advertised), diag.Quote(name)),
			Range:   s.At(),
			Path:    s.Node.Path,
			Related: []diag.Related{{Range: first.At(), Message: "is the first one"}},
			Hint:    "keep one of the two",
		})
		return
	}
	claimed[key] = s
	if advertised != s.Label() && s.Flag("enabled") && b.renames[advertised] == nil {
		b.renames[advertised] = s
	}
	if !p.Described || !p.Enabled || s.Node.Damaged {
		return // a reference to an absent optional plugin is valid
	}
	ids := make([]string, len(p.Description.Capabilities))
	for i, c := range p.Description.Capabilities {
		ids[i] = c.ID
	}
	if !slices.Contains(ids, advertised) {
		d := diag.Diagnostic{
			Type:     "config/dangling-reference",
			Message:  fmt.Sprintf("plugin %s advertises no capability %s", diag.Quote(name), diag.Quote(advertised)),
			Range:    at,
			Path:     append(slices.Clone(s.Node.Path), "provides"),
			Expected: diag.Words(ids),
			Found:    edn.Text(advertised),
			Nearest:  diag.Nearest(advertised, ids),
			Related:  []diag.Related{{Range: b.place("plugin", name), Message: "declares plugin " + diag.Quote(name)}},
		}
		if advertised == s.Label() && d.Nearest == "" {
			d = b.Decoder.Root.Misnamed(s.Node, d)
		}
		b.Report.Add(d)
	}
}

func (b *builder) register(p *plugins.Plugin, advertised contract.Capability, s *decode.Section) {
	c := registry.Capability{Capability: advertised, Plugin: p.Name, Advertised: advertised.ID, Operations: p.Operations}
	if tool, ok := effects.ToolNamed(advertised.ID); ok && tool.ID == advertised.ID {
		c.Confines = p.Description.Name == tool.Plugin
	}
	at := b.place("plugin", p.Name)
	if s != nil {
		at = s.At()
		c.ID, c.Where = s.Label(), s.Where()
		if !s.Flag("enabled") {
			return
		}
		b.narrow(&c, s)
	}
	if c.Stability == "deprecated" {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/deprecated",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("capability %s of plugin %s is deprecated by its author", diag.Quote(c.ID),
				diag.Quote(p.Name)),
			Range: at,
			Path:  []string{"plugin", p.Name},
		})
	}
	if c.Stability == "experimental" && b.settings.MinStability == "stable" {
		return
	}
	if first := b.capPlace[c.ID]; first != nil {
		if b.Report.Doubtful("capability") {
			return // the block that renames it may be the broken one
		}
		other := ""
		for _, x := range b.caps {
			if x.ID == c.ID {
				other = x.Plugin
			}
		}
		b.Report.Gather("plugins "+other+" "+p.Name, diag.Diagnostic{
			Type: "config/duplicate",
			Message: fmt.Sprintf("capability %s is given by plugin %s and by plugin %s", diag.Quote(c.ID), diag.Quote(other),
				diag.Quote(p.Name)),
			Range:   at,
			Path:    []string{"capability", c.ID},
			Related: []diag.Related{{Range: first, Message: "gives it first"}},
			Hint: fmt.Sprintf("rename one by a block: capability \"NS/NAME\" with plugin = %q and provides = %q",
				p.Name, c.Advertised),
		}, diag.Related{Range: at, Message: fmt.Sprintf("gives capability %s as well", diag.Quote(c.ID))})
		return
	}
	b.capPlace[c.ID] = at
	b.capNames[c.ID] = true
	b.caps = append(b.caps, c)
}

// narrow applies a capability block, which can only lower limits and remove effects.
func (b *builder) narrow(c *registry.Capability, s *decode.Section) {
	if tags, ok := s.Texts("tags"); ok {
		c.Tags = slices.Sorted(slices.Values(tags))
	}
	if effects, ok := s.Texts("effects"); ok {
		for i, e := range effects {
			if e != registry.NoEffect && !slices.Contains(c.Effects, e) {
				b.Report.Add(diag.Diagnostic{
					Type: "config/range",
					Message: fmt.Sprintf("capability %s does not have the effect %s: a block can only restrict effects",
						diag.Quote(c.ID), diag.Quote(e)),
					Range:    s.Attrs["effects"].Items[i].At,
					Path:     append(slices.Clone(s.Node.Path), "effects"),
					Expected: diag.Words(c.Effects),
					Found:    edn.Text(e),
				})
			}
		}
		c.Effects = slices.Sorted(slices.Values(effects))
	}
	if s.Written("role") {
		c.Role = s.Text("role")
	}
	c.ModelKey = b.modelKey(s)
	c.Breaker = b.breakerRules(s)
	cost, limits := s.Block("cost"), s.Block("limits")
	if cost.Written("latency") {
		c.Cost.Latency, c.Cost.HasLatency = cost.Duration("latency"), true
	}
	if cost.Written("usd") {
		c.Cost.USD = cost.Attrs["usd"].EDN
	}
	if limits.Written("timeout") {
		b.lower(limits, "timeout", c.Limits.Timeout > 0 && limits.Duration("timeout") > c.Limits.Timeout,
			language.FormatDuration(c.Limits.Timeout.Milliseconds()))
		c.Limits.Timeout = limits.Duration("timeout")
	}
	if limits.Written("max_in_flight") {
		b.lower(limits, "max_in_flight", c.Limits.MaxInFlight > 0 &&
			limits.Integer("max_in_flight") > c.Limits.MaxInFlight, fmt.Sprint(c.Limits.MaxInFlight))
		c.Limits.MaxInFlight = limits.Integer("max_in_flight")
	}
}

func (b *builder) lower(s *decode.Section, name string, raised bool, limit string) {
	if raised {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("%s in %s exceeds the limit that the plugin advertises", name, s.Node.Title()),
			Range:    s.Attrs[name].At,
			Path:     append(slices.Clone(s.Node.Path), name),
			Expected: edn.Text("at most " + limit),
			Found:    edn.Text(shownAs(s, name)),
		})
	}
}
