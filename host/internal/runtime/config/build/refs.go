package build

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checkRefs returns the names of checks, and reports unknown ones.
func (b *builder) checkRefs(s *decode.Section, attr string) []string {
	var out []string
	v := s.Attrs[attr]
	for _, item := range v.Items {
		name, _ := item.EDN.AsString()
		b.use("check", name)
		if _, ok := b.checks[name]; !ok && !b.isBuiltinCheck(name) {
			b.dangling(s, attr, "check", name, b.checkNames(), item.At)
			continue
		}
		b.boundRef(s, attr, name, item.At)
		out = append(out, name)
	}
	return out
}

// boundRef reports a built-in check whose intent has no capability, because it can never pass.
func (b *builder) boundRef(s *decode.Section, attr, name string, at *diag.Range) {
	intent := b.asked(name)
	if _, rebound := b.checks[name]; rebound || intent == "" || b.intentKnown(intent) {
		return
	}
	d := diag.Diagnostic{
		Type: "config/dangling-reference",
		Message: fmt.Sprintf("%s names check %s, but no plugin serves its intent %s", s.Node.Title(), diag.Quote(name),
			diag.Quote(intent)),
		Range:    at,
		Path:     append(slices.Clone(s.Node.Path), attr),
		Expected: edn.Text("a plugin that serves " + intent),
		Hint:     fmt.Sprintf("add the plugin, or a block check %s that asks another intent", diag.Quote(name)),
	}
	if off := b.disabled(intent, s); off != nil {
		b.blame(off, "check", name, d)
		return
	}
	b.Report.Fold("check "+name, d)
}

func (b *builder) checkNames() []string {
	names := slices.Collect(maps.Keys(b.checks))
	for _, c := range b.builtins.Declarations() {
		names = append(names, c.Name)
	}
	for _, c := range boundChecks {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *builder) isBuiltinCheck(name string) bool {
	_, ok := b.builtins.Check(name)
	return ok || slices.ContainsFunc(boundChecks, func(c boundCheck) bool { return c.name == name })
}

// capabilityRefs returns the ids of capabilities, and reports unknown ones.
func (b *builder) capabilityRefs(s *decode.Section, attr string) []string {
	var out []string
	for _, item := range s.Attrs[attr].Items {
		if id, _ := item.EDN.AsString(); b.isCapability(s, attr, id, item.At) {
			out = append(out, id)
		}
	}
	return out
}

// capabilityRef returns the id of a capability; empty if it is unknown, which is reported.
func (b *builder) capabilityRef(s *decode.Section, attr string) string {
	if id := s.Text(attr); b.isCapability(s, attr, id, s.Attrs[attr].At) {
		return id
	}
	return ""
}

// namedByPlugins reports settings of plugins with an unknown capability (WS-064).
func (b *builder) namedByPlugins() {
	for _, s := range b.All("plugin") {
		p := b.plugins[s.Label()]
		if p == nil || p.Lowered == nil {
			continue
		}
		for _, c := range p.Lowered.Capabilities {
			b.isCapability(s, "config", c.Name, c.At)
		}
	}
}

func (b *builder) isCapability(s *decode.Section, attr, id string, at *diag.Range) bool {
	if b.capNames[id] || b.blind {
		return true
	}
	if r := b.renames[id]; r != nil {
		b.renamed(s, attr, id, r, at)
	} else {
		b.dangling(s, attr, "capability", id, slices.Sorted(maps.Keys(b.capNames)), at)
	}
	return false
}
