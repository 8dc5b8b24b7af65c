package build

import (
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// unusedBlocks warns about blocks without a reference.
func (b *builder) unusedBlocks() {
	for _, c := range b.caps {
		for _, ref := range []interface{ For(string) string }{c.InSchema, c.OutSchema} {
			b.use("schema", ref.For(""))
			for _, in := range c.Intents {
				b.use("schema", ref.For(in))
			}
		}
	}
	for _, spec := range b.schemas {
		b.referred(spec)
	}
	for _, block := range []string{"dispatch", "check", "schema", "judge"} {
		for _, s := range b.All(block) {
			if !b.used[block][s.Label()] {
				hint := "remove it, or name it where it should apply"
				if block == "dispatch" && b.dispatch["default"] == nil &&
					diag.Nearest(s.Label(), []string{"default"}) != "" {
					hint = "did you mean \"default\", which applies to all intents?"
				}
				b.Report.Add(b.Decoder.Root.Misnamed(s.Node, diag.Diagnostic{
					Type:     "config/unused",
					Severity: diag.SeverityWarning,
					Message:  s.Node.Title() + " is not used",
					Range:    s.At(),
					Path:     s.Node.Path,
					Hint:     hint,
				}))
			}
		}
	}
}

// referred marks the schemas that a form refers to as used.
func (b *builder) referred(form edn.Value) {
	if form.Kind() != edn.KindVector {
		return
	}
	if head, _ := form.Nth(0); head.Kind() == edn.KindKeyword {
		if word, _ := head.AsKeyword(); word == "ref" {
			for x := range form.Elems() {
				if name, ok := x.AsKeyword(); ok {
					b.use("schema", name)
				}
			}
		}
	}
	for x := range form.Elems() {
		b.referred(x)
	}
}
