package build

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// gateRings reports cycles of intents through their gates (HCL-030).
func (b *builder) gateRings() {
	next := map[string][]string{} // intent -> intents that its checks call
	for _, s := range b.All("intent") {
		for _, name := range b.gatesOf(s) {
			if asked := b.asked(name); asked != "" {
				next[s.Label()] = append(next[s.Label()], asked)
			}
		}
		// A judge does not grade its own intent, so this is not a cycle.
		if j, ok := b.judges[s.Block("judge").Text("use")]; ok && j.Flag("enabled") && j.Text("intent") != s.Label() {
			next[s.Label()] = append(next[s.Label()], j.Text("intent"))
		}
	}
	state := map[string]int{}
	var stack []string
	var visit func(name string)
	visit = func(name string) {
		switch state[name] {
		case 2:
			return
		case 1:
			b.ring(append(slices.Clone(stack[slices.Index(stack, name):]), name))
			return
		}
		state[name] = 1
		stack = append(stack, name)
		for _, n := range next[name] {
			visit(n)
		}
		stack = stack[:len(stack)-1]
		state[name] = 2
	}
	for _, s := range b.All("intent") {
		visit(s.Label())
	}
}

// gatesOf returns the checks in an intent and its dispatch.
func (b *builder) gatesOf(s *decode.Section) []string {
	out, _ := s.Texts("checks")
	done := s.Block("done")
	for _, attr := range []string{"must", "should"} {
		names, _ := done.Texts(attr)
		out = append(out, names...)
	}
	if name := s.Text("dispatch"); name != "default" {
		if d, ok := b.dispatch[name]; ok {
			names, _ := d.Texts("checks")
			out = append(out, names...)
		}
	}
	return out
}

// asked returns the intent that a check calls; empty if it calls none.
func (b *builder) asked(check string) string {
	if s, ok := b.checks[check]; ok {
		return s.Text("intent")
	}
	for _, c := range boundChecks {
		if c.name == check {
			return c.intent
		}
	}
	return ""
}

func (b *builder) ring(names []string) {
	first := b.intents[names[0]]
	d := diag.Diagnostic{
		Type:    "config/cycle",
		Message: "the gates of intents call each other: " + strings.Join(names, " -> "),
		Range:   first.At(),
		Path:    first.Node.Path,
		Hint:    "let one of the checks ask an intent without such gates",
	}
	for _, name := range names[1 : len(names)-1] {
		d.Related = append(d.Related, diag.Related{Range: b.intents[name].At(), Message: "is intent " + diag.Quote(name)})
	}
	b.Report.Add(d)
}
