package build

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// humans registers the capabilities that people answer (JRN-045). Their schemas are those of their
// intents.
func (b *builder) humans() {
	for _, s := range b.All("human") {
		id := s.Label()
		b.capNames[id] = true
		if first := b.capPlace[id]; first != nil {
			b.Report.Add(diag.Diagnostic{
				Type:    "config/duplicate",
				Message: fmt.Sprintf("capability %s is given by a plugin and by %s", diag.Quote(id), s.Node.Title()),
				Range:   s.At(),
				Path:    s.Node.Path,
				Related: []diag.Related{{Range: first, Message: "gives it first"}},
				Hint:    "rename one of the two",
			})
			continue
		}
		b.capPlace[id] = s.At()
		c := registry.Capability{Where: s.Where(), Human: &registry.Human{
			Deadline:   s.Duration("deadline"),
			OnDeadline: s.Text("on_deadline"),
			Default:    s.Attrs["default"].EDN,
		}}
		c.Capability = contract.Capability{
			ID:         id,
			Kind:       registry.HumanKind,
			Version:    "1.0.0",
			CanProduce: []string{"value"},
			Effects:    []string{registry.NoEffect},
			Cost:       contract.Cost{USD: edn.Int(0)},
			InSchema:   contract.SchemaRef{ByIntent: map[string]string{}},
			OutSchema:  contract.SchemaRef{ByIntent: map[string]string{}},
			Stability:  "stable",
		}
		for _, item := range s.Attrs["intents"].Items {
			name, _ := item.EDN.AsString()
			block := b.intents[name]
			if block == nil {
				b.dangling(s, "intents", "intent", name, slices.Sorted(maps.Keys(b.intents)), item.At)
				continue
			}
			c.Intents = append(c.Intents, name)
			c.InSchema.ByIntent[name], c.OutSchema.ByIntent[name] = block.Text("in"), block.Text("out")
		}
		slices.Sort(c.Intents)
		if len(c.Intents) > 0 { // without any it would serve all
			b.caps = append(b.caps, c)
		}
	}
}

// defaultAnswers checks the settings of human blocks for the deadline.
func (b *builder) defaultAnswers() {
	for _, s := range b.All("human") {
		given, wanted := s.Written("default"), s.Text("on_deadline") == registry.DeadlineDefault
		switch {
		case !s.Written("deadline") && (s.Written("on_deadline") || given):
			b.deadlineProblem(s, "deadline", "config/unused", "has no deadline, so on_deadline and default have no effect")
		case wanted && !given:
			b.deadlineProblem(s, "default", "config/missing", "has on_deadline = \"default\" and no default")
		case given && !wanted:
			b.deadlineProblem(s, "default", "config/unused", "has a default, which is used only with on_deadline = \"default\"")
		case given:
			b.fitsAnswers(s)
		}
	}
}

// escalates warns about people whose questions escalate where no other candidate is tried.
func (b *builder) escalates(intent *decode.Section, l *policy.Layer) {
	if l.FallbackMax.V > 0 || l.Strategy.Or(policy.DefaultStrategy) != policy.Cascade {
		return
	}
	for _, s := range b.All("human") {
		intents, _ := s.Texts("intents")
		if s.Written("deadline") && s.Text("on_deadline") == registry.DeadlineEscalate && slices.Contains(intents, intent.Label()) {
			b.deadlineProblem(s, "on_deadline", "config/unused", "has on_deadline = \"escalate\" and "+intent.Node.Title()+
				" no fallback, so no other candidate is asked; write retry { fallback = 1 } in the dispatch of the intent")
		}
	}
}

// fitsAnswers reports a default answer that an intent of the block would reject.
func (b *builder) fitsAnswers(s *decode.Section) {
	intents, _ := s.Texts("intents")
	for _, name := range intents {
		block := b.intents[name]
		if block == nil {
			continue
		}
		sch, ok := b.compiled.Lookup(block.Text("out"))
		if !ok {
			continue
		}
		if found := sch.Validate(s.Attrs["default"].EDN); len(found) > 0 {
			b.deadlineProblem(s, "default", "config/type",
				fmt.Sprintf("has a default that does not fit %s of intent %s: %s", block.Text("out"), diag.Quote(name), found[0]))
		}
	}
}

func (b *builder) deadlineProblem(s *decode.Section, attr, kind, what string) {
	d := diag.Diagnostic{Type: kind, Message: s.Node.Title() + " " + what, Range: s.At(), Path: s.PathOf(attr)}
	if s.Written(attr) {
		d.Range = s.Attrs[attr].At
	}
	if kind == "config/unused" {
		d.Severity = diag.SeverityWarning
	}
	b.Report.Add(d)
}
