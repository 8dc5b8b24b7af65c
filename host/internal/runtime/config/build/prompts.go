package build

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// writer compiles the layers of a configuration and records the used fragments.
type writer struct {
	*builder
	fragments map[string]decode.Value
	used      map[string]bool
	meant     map[string]bool // fragments with a misspelled reference
	open      []string        // fragments being expanded, innermost last
}

// prompts compiles the layers and checks their names against roles, intents and fragments
// (PRM-007).
func (b *builder) prompts() *prompt.Book {
	s := b.Root.Block("prompts")
	book := &prompt.Book{
		Roles: map[string]*prompt.Layer{}, Intents: map[string]*prompt.Layer{}, System: map[string]*prompt.Layer{},
		Addenda: map[string]*prompt.Layer{}, Allowed: map[string][]string{}, Languages: b.languages,
	}
	w := &writer{
		builder:   b,
		fragments: entriesIn(s.Attrs["fragments"]),
		used:      map[string]bool{},
		meant:     map[string]bool{},
	}
	if v := s.Attrs["default"]; v.Written {
		book.Default = w.layer("prompts.default", []string{"prompts", "default"}, v)
	}
	for role, v := range entriesIn(s.Attrs["roles"]) {
		if !language.IsIdentLabel(role) {
			b.protocol(v.Key, []string{"prompts", "roles", role}, fmt.Sprintf("%s is not a role name", diag.Quote(role)), "",
				"write lower-case letters, such as voice")
		}
		book.Roles[role] = w.layer("prompts.roles."+role, []string{"prompts", "roles", role}, v)
	}
	for intent, v := range entriesIn(s.Attrs["intents"]) {
		book.Intents[intent] = w.layer("prompts.intents."+intent, []string{"prompts", "intents", intent}, v)
	}
	for role, v := range entriesIn(s.Attrs["allowed"]) {
		book.Allowed[role] = textsOf(v)
	}
	for _, in := range b.All("intent") {
		w.intent(in, book)
	}
	b.promptless(s, book)
	w.unused(s)
	return book
}

// entriesIn returns the entries of a map by key.
func entriesIn(v decode.Value) map[string]decode.Value {
	out := make(map[string]decode.Value, len(v.Keys))
	for i, k := range v.Keys {
		out[k] = v.Items[i]
	}
	return out
}

func textsOf(v decode.Value) []string {
	out := make([]string, 0, v.EDN.Len())
	for x := range v.EDN.Elems() {
		text, _ := x.AsString()
		out = append(out, text)
	}
	return out
}

// intent compiles the layers of an intent block.
func (w *writer) intent(in *decode.Section, book *prompt.Book) {
	p := in.Block("prompt")
	id := in.Label()
	path := append(slices.Clone(in.Node.Path), "prompt")
	system, addendum := p.Attrs["system"], p.Attrs["addendum"]
	if addendum.Written {
		book.Addenda[id] = w.layer("intent."+id+".prompt.addendum", append(slices.Clone(path), "addendum"), addendum)
	}
	if !system.Written {
		return
	}
	book.System[id] = w.layer("intent."+id+".prompt.system", append(slices.Clone(path), "system"), system)
	over := []diag.Related{{Range: system.At, Message: "replaces all other layers"}}
	if addendum.Written {
		w.Report.Add(diag.Diagnostic{
			Type:    "protocol/invalid",
			Message: "addendum in " + in.Node.Title() + " is never used: its prompt has a system of its own",
			Range:   addendum.At,
			Path:    append(slices.Clone(path), "addendum"),
			Related: over,
			Hint:    "put it into system",
		})
	}
	if own, ok := entriesIn(w.Root.Block("prompts").Attrs["intents"])[id]; ok {
		w.Report.Add(diag.Diagnostic{
			Type: "protocol/invalid",
			Message: fmt.Sprintf("the layer of intent %s in prompts is never used: the intent has a system of its own",
				diag.Quote(id)),
			Range:   own.At,
			Path:    []string{"prompts", "intents", id},
			Related: over,
			Hint:    "keep one of the two",
		})
	}
}

// layer compiles a layer. Errors are reported, and the layer has the remaining parts.
func (w *writer) layer(name string, path []string, v decode.Value) *prompt.Layer {
	pieces := w.pieces(path, v)
	texts := make([]string, len(pieces))
	for i, p := range pieces {
		texts[i] = p.text
	}
	l, problems := prompt.NewLayer(name, v.At.String(), texts)
	for _, p := range problems {
		at := v.At
		if p.Fragment >= 0 {
			at = pieces[p.Fragment].at
		}
		d := diag.Diagnostic{
			Type:    "protocol/invalid",
			Message: fmt.Sprintf("the layer %s %s", name, p.Message),
			Range:   at,
			Path:    path,
			Nearest: p.Nearest,
		}
		if p.Found != "" {
			d.Expected, d.Found = diag.Words(prompt.Variables()), edn.Text(p.Found)
			d.Hint = "braces around a name are a variable; double them to write them"
			if p.Nearest != "" {
				d.Hint = ""
			}
		} else {
			d.Expected = edn.Text("at most " + language.FormatBytes(prompt.MaxLayer))
		}
		w.Report.Add(d)
	}
	return l
}

// fragmentText is a text of a layer with its place.
type fragmentText struct {
	text string
	at   *diag.Range
}

// pieces expands the files and fragments of a layer.
func (w *writer) pieces(path []string, v decode.Value) []fragmentText {
	if v.EDN.IsVector() {
		var out []fragmentText
		for _, x := range v.Items {
			out = append(out, w.pieces(path, x)...)
		}
		return out
	}
	if v.Content != nil {
		return []fragmentText{{*v.Content, v.At}}
	}
	if text, ok := v.EDN.AsString(); ok {
		return []fragmentText{{text, v.At}}
	}
	name, _ := v.EDN.Key("fragment").AsString()
	named, known := w.fragments[name]
	if !known {
		names := slices.Sorted(maps.Keys(w.fragments))
		near := diag.Nearest(name, names)
		w.meant[near] = true
		w.Report.Add(diag.Diagnostic{
			Type:     "protocol/invalid",
			Message:  "there is no fragment " + diag.Quote(name),
			Range:    v.At,
			Path:     path,
			Expected: diag.Words(names),
			Found:    diag.TextOrNil(name),
			Nearest:  near,
		})
		return nil
	}
	w.used[name] = true
	if i := slices.Index(w.open, name); i >= 0 {
		ring := append(slices.Clone(w.open[i:]), name)
		d := diag.Diagnostic{
			Type:    "protocol/invalid",
			Message: "fragments include each other: " + strings.Join(ring, " -> "),
			Range:   w.fragments[ring[0]].At,
			Path:    []string{"prompts", "fragments", ring[0]},
			Hint:    "remove one of these fragments from another",
		}
		for _, member := range ring[1 : len(ring)-1] {
			d.Related = append(d.Related,
				diag.Related{Range: w.fragments[member].At, Message: "is fragment " + diag.Quote(member)})
		}
		w.Report.Add(d)
		return nil
	}
	w.open = append(w.open, name)
	out := w.pieces(path, named)
	w.open = w.open[:len(w.open)-1]
	return out
}

// promptless reports roles without a layer and layers of unknown intents. A layer of a role that no
// block names is valid, because requests and nodes may name it.
func (b *builder) promptless(s *decode.Section, book *prompt.Book) {
	if b.Report.Doubts("prompts", "roles") {
		return
	}
	known := book.RoleNames()
	if b.misspeltRole(s, book) {
		return
	}
	for _, block := range []string{"intent", "capability"} {
		for _, x := range b.All(block) {
			if role := x.Text("role"); x.Written("role") && book.Roles[role] == nil {
				b.Report.Fold("role "+role, diag.Diagnostic{
					Type:     "protocol/invalid",
					Message:  fmt.Sprintf("%s has the role %s, which has no prompt", x.Node.Title(), diag.Quote(role)),
					Range:    x.Attrs["role"].At,
					Path:     append(slices.Clone(x.Node.Path), "role"),
					Expected: diag.Words(known),
					Found:    edn.Text(role),
					Nearest:  diag.Nearest(role, known),
					Hint:     writeRole(role, known),
				})
			}
		}
	}
	for role, v := range entriesIn(s.Attrs["allowed"]) {
		if book.Roles[role] == nil {
			b.protocol(v.At, []string{"prompts", "allowed", role},
				fmt.Sprintf("allowed names the role %s, which has no prompt", diag.Quote(role)), diag.Nearest(role, known), writeRole(role, known))
		}
	}
	for id, v := range entriesIn(s.Attrs["intents"]) {
		if !b.intentKnown(id) && !b.Report.Doubts("intent", id) {
			near, hint := diag.Nearest(id, b.intentNames()), ""
			if near == "" {
				hint = "remove it, or add the intent: intent " + diag.Quote(id) + " { ... }"
			}
			b.protocol(v.At, []string{"prompts", "intents", id},
				fmt.Sprintf("the layer of intent %s is not used: there is no such intent", diag.Quote(id)), near, hint)
		}
	}
}

// writeRole returns the hint for a role without a prompt; empty if a known role is similar.
func writeRole(role string, known []string) string {
	if diag.Nearest(role, known) != "" {
		return ""
	}
	return "write one: prompts { roles = { " + decode.SpellKey(role) + " = \"...\" } }"
}

// misspeltRole reports a layer of an unused role if its name is similar to a role without a layer
// that is built in or named in several places. Other misspelled roles are reported where they are
// named.
func (b *builder) misspeltRole(s *decode.Section, book *prompt.Book) bool {
	named := b.rolesNamed(s)
	var without []string
	for role, places := range named {
		if book.Roles[role] == nil && (places > 1 || prompt.IsBuiltinRole(role)) {
			without = append(without, role)
		}
	}
	slices.Sort(without)
	layers := s.Attrs["roles"]
	for i, role := range layers.Keys {
		if named[role] > 0 || prompt.IsBuiltinRole(role) {
			continue
		}
		near := diag.Nearest(role, without)
		if near == "" {
			b.misspeltOverlay(layers, i, named)
			continue
		}
		b.Report.Add(diag.Diagnostic{
			Type: "protocol/invalid",
			Message: fmt.Sprintf("the role %s is named nowhere, and %s, which is named, has no prompt", diag.Quote(role),
				diag.Quote(near)),
			Range:    cmp.Or(layers.Items[i].Key, layers.Items[i].At),
			Path:     []string{"prompts", "roles", role},
			Expected: diag.Words(without),
			Found:    edn.Text(role),
			Nearest:  near,
		})
		return true
	}
	return false
}

// misspeltOverlay warns about a layer of an unused role if another file has a layer of a used role
// with a similar name, which it may be meant to override.
func (b *builder) misspeltOverlay(layers decode.Value, i int, named map[string]int) {
	at := cmp.Or(layers.Items[i].Key, layers.Items[i].At)
	var elsewhere []string
	for k, role := range layers.Keys {
		other := cmp.Or(layers.Items[k].Key, layers.Items[k].At)
		if at != nil && other != nil && at.File != other.File && (named[role] > 0 || prompt.IsBuiltinRole(role)) {
			elsewhere = append(elsewhere, role)
		}
	}
	if near := diag.Nearest(layers.Keys[i], elsewhere); near != "" {
		b.Report.Add(diag.Diagnostic{
			Type:     "protocol/invalid",
			Severity: diag.SeverityWarning,
			Message:  "the role " + diag.Quote(layers.Keys[i]) + " is named nowhere",
			Range:    at,
			Path:     []string{"prompts", "roles", layers.Keys[i]},
			Expected: diag.Words(elsewhere),
			Found:    edn.Text(layers.Keys[i]),
			Nearest:  near,
		})
	}
}

// rolesNamed returns the number of references to each role in blocks and in prompts.allowed.
func (b *builder) rolesNamed(s *decode.Section) map[string]int {
	out := map[string]int{}
	for _, block := range []string{"intent", "capability"} {
		for _, x := range b.All(block) {
			if x.Written("role") {
				out[x.Text("role")]++
			}
		}
	}
	for role := range entriesIn(s.Attrs["allowed"]) {
		out[role]++
	}
	return out
}

func (b *builder) protocol(at *diag.Range, path []string, message, near, hint string) {
	b.Report.Add(diag.Diagnostic{
		Type:    "protocol/invalid",
		Message: message,
		Range:   at,
		Path:    path,
		Nearest: near,
		Hint:    hint,
	})
}

// unused reports fragments that no layer uses.
func (w *writer) unused(s *decode.Section) {
	for name, v := range w.fragments {
		if w.used[name] {
			continue
		}
		w.pieces([]string{"prompts", "fragments", name}, decode.Value{
			EDN: edn.MustMap(edn.K("fragment"), edn.Text(name)),
			At:  v.At,
		}) // reports the errors in the fragment
	}
	for name, v := range w.fragments {
		if !w.reached(s, name) && !w.meant[name] {
			w.protocol(v.At, []string{"prompts", "fragments", name}, fmt.Sprintf("fragment %s is not used by any layer", diag.Quote(name)), "", "remove it, or name it: { fragment = "+decode.SpellText(name)+" }")
		}
	}
}

// reached reports whether a layer or a fragment refers to a fragment.
func (w *writer) reached(s *decode.Section, name string) bool {
	named := func(v decode.Value) bool { return names(v, name) }
	for _, attr := range []string{"default", "roles", "intents", "fragments"} {
		if named(s.Attrs[attr]) {
			return true
		}
	}
	for _, in := range w.All("intent") {
		if p := in.Block("prompt"); named(p.Attrs["system"]) || named(p.Attrs["addendum"]) {
			return true
		}
	}
	return false
}

func names(v decode.Value, fragment string) bool {
	if name, _ := v.EDN.Key("fragment").AsString(); len(v.Keys) == 0 && name == fragment && name != "" {
		return true
	}
	return slices.ContainsFunc(v.Items, func(x decode.Value) bool { return names(x, fragment) })
}
