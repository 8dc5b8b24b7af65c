package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/sdk/edn"
)

// writer compiles the layers of a configuration and records the used fragments.
type writer struct {
	*builder
	fragments map[string]value
	used      map[string]bool
	meant     map[string]bool // fragments with a misspelt reference
	open      []string        // stack of fragments being expanded
}

// prompts compiles the layers and checks their names against roles, intents and fragments (PRM-007).
func (b *builder) prompts() *prompt.Book {
	s := b.root.block("prompts")
	book := &prompt.Book{
		Roles: map[string]*prompt.Layer{}, Intents: map[string]*prompt.Layer{}, System: map[string]*prompt.Layer{},
		Addenda: map[string]*prompt.Layer{}, Allowed: map[string][]string{}, Languages: b.languages,
	}
	w := &writer{
		builder:   b,
		fragments: entriesIn(s.attrs["fragments"]),
		used:      map[string]bool{},
		meant:     map[string]bool{},
	}
	if v := s.attrs["default"]; v.written {
		book.Default = w.layer("prompts.default", []string{"prompts", "default"}, v)
	}
	for role, v := range entriesIn(s.attrs["roles"]) {
		if !isIdentLabel(role) {
			b.protocol(v.key, []string{"prompts", "roles", role}, fmt.Sprintf("%s is not a role name", quote(role)), "",
				"write lower-case letters, such as voice")
		}
		book.Roles[role] = w.layer("prompts.roles."+role, []string{"prompts", "roles", role}, v)
	}
	for intent, v := range entriesIn(s.attrs["intents"]) {
		book.Intents[intent] = w.layer("prompts.intents."+intent, []string{"prompts", "intents", intent}, v)
	}
	for role, v := range entriesIn(s.attrs["allowed"]) {
		book.Allowed[role] = textsOf(v)
	}
	for _, in := range b.all("intent") {
		w.intent(in, book)
	}
	b.promptless(s, book)
	w.unused(s)
	return book
}

// entriesIn returns the entries of a map by key.
func entriesIn(v value) map[string]value {
	out := make(map[string]value, len(v.keys))
	for i, k := range v.keys {
		out[k] = v.items[i]
	}
	return out
}

func textsOf(v value) []string {
	out := make([]string, 0, v.v.Len())
	for x := range v.v.Elems() {
		text, _ := x.AsString()
		out = append(out, text)
	}
	return out
}

// intent compiles the layers of an intent block.
func (w *writer) intent(in *section, book *prompt.Book) {
	p := in.block("prompt")
	id := in.label()
	path := append(slices.Clone(in.node.path), "prompt")
	system, addendum := p.attrs["system"], p.attrs["addendum"]
	if addendum.written {
		book.Addenda[id] = w.layer("intent."+id+".prompt.addendum", append(slices.Clone(path), "addendum"), addendum)
	}
	if !system.written {
		return
	}
	book.System[id] = w.layer("intent."+id+".prompt.system", append(slices.Clone(path), "system"), system)
	over := []Related{{Range: system.rng, Message: "replaces all other layers"}}
	if addendum.written {
		w.report.add(Diagnostic{
			Type:    "protocol/invalid",
			Message: "addendum in " + in.node.title() + " is never used: its prompt has a system of its own",
			Range:   addendum.rng,
			Path:    append(slices.Clone(path), "addendum"),
			Related: over,
			Hint:    "put it into system",
		})
	}
	if own, ok := entriesIn(w.root.block("prompts").attrs["intents"])[id]; ok {
		w.report.add(Diagnostic{
			Type: "protocol/invalid",
			Message: fmt.Sprintf("the layer of intent %s in prompts is never used: the intent has a system of its own",
				quote(id)),
			Range:   own.rng,
			Path:    []string{"prompts", "intents", id},
			Related: over,
			Hint:    "keep one of the two",
		})
	}
}

// layer compiles one layer. Errors are reported, and the layer contains the
// remaining parts.
func (w *writer) layer(name string, path []string, v value) *prompt.Layer {
	pieces := w.pieces(path, v)
	texts := make([]string, len(pieces))
	for i, p := range pieces {
		texts[i] = p.text
	}
	l, problems := prompt.NewLayer(name, v.rng.String(), texts)
	for _, p := range problems {
		at := v.rng
		if p.Fragment >= 0 {
			at = pieces[p.Fragment].at
		}
		d := Diagnostic{
			Type:    "protocol/invalid",
			Message: fmt.Sprintf("the layer %s %s", name, p.Message),
			Range:   at,
			Path:    path,
			Nearest: p.Nearest,
		}
		if p.Found != "" {
			d.Expected, d.Found = words(prompt.Variables()), edn.Text(p.Found)
			d.Hint = "braces around a name are a variable; double them to write them"
			if p.Nearest != "" {
				d.Hint = ""
			}
		} else {
			d.Expected = edn.Text("at most " + formatBytes(prompt.MaxLayer))
		}
		w.report.add(d)
	}
	return l
}

// fragmentText is a text of a layer and its place.
type fragmentText struct {
	text string
	at   *Range
}

// pieces expands the files and fragments of a layer.
func (w *writer) pieces(path []string, v value) []fragmentText {
	if v.v.IsVector() {
		var out []fragmentText
		for _, x := range v.items {
			out = append(out, w.pieces(path, x)...)
		}
		return out
	}
	if v.content != nil {
		return []fragmentText{{*v.content, v.rng}}
	}
	if text, ok := v.v.AsString(); ok {
		return []fragmentText{{text, v.rng}}
	}
	name, _ := v.v.Key("fragment").AsString()
	named, known := w.fragments[name]
	if !known {
		names := slices.Sorted(maps.Keys(w.fragments))
		near := nearest(name, names)
		w.meant[near] = true
		w.report.add(Diagnostic{
			Type:     "protocol/invalid",
			Message:  "there is no fragment " + quote(name),
			Range:    v.rng,
			Path:     path,
			Expected: words(names),
			Found:    textOrNil(name),
			Nearest:  near,
		})
		return nil
	}
	w.used[name] = true
	if i := slices.Index(w.open, name); i >= 0 {
		ring := append(slices.Clone(w.open[i:]), name)
		d := Diagnostic{
			Type:    "protocol/invalid",
			Message: "fragments include each other: " + strings.Join(ring, " -> "),
			Range:   w.fragments[ring[0]].rng,
			Path:    []string{"prompts", "fragments", ring[0]},
		}
		for _, member := range ring[1 : len(ring)-1] {
			d.Related = append(d.Related,
				Related{Range: w.fragments[member].rng, Message: "is fragment " + quote(member)})
		}
		w.report.add(d)
		return nil
	}
	w.open = append(w.open, name)
	out := w.pieces(path, named)
	w.open = w.open[:len(w.open)-1]
	return out
}

// promptless rejects roles without a layer and layers of unknown intents. A layer
// of a role that no block names is valid: requests and nodes may name it.
func (b *builder) promptless(s *section, book *prompt.Book) {
	if b.report.doubts("prompts", "roles") {
		return
	}
	known := book.RoleNames()
	if b.misspeltRole(s, book) {
		return
	}
	for _, block := range []string{"intent", "capability"} {
		for _, x := range b.all(block) {
			if role := x.text("role"); x.written("role") && book.Roles[role] == nil {
				hint := "write one: prompts { roles = { " + spellKey(role) + " = \"...\" } }"
				if nearest(role, known) != "" {
					hint = ""
				}
				b.report.fold("role "+role, Diagnostic{
					Type:     "protocol/invalid",
					Message:  fmt.Sprintf("%s has the role %s, which has no prompt", x.node.title(), quote(role)),
					Range:    x.attrs["role"].rng,
					Path:     append(slices.Clone(x.node.path), "role"),
					Expected: words(known),
					Found:    edn.Text(role),
					Nearest:  nearest(role, known),
					Hint:     hint,
				})
			}
		}
	}
	for role, v := range entriesIn(s.attrs["allowed"]) {
		if book.Roles[role] == nil {
			b.protocol(v.rng, []string{"prompts", "allowed", role},
				fmt.Sprintf("allowed names the role %s, which has no prompt", quote(role)), nearest(role, known), "")
		}
	}
	for id, v := range entriesIn(s.attrs["intents"]) {
		if !b.intentKnown(id) && !b.report.doubts("intent", id) {
			b.protocol(v.rng, []string{"prompts", "intents", id},
				fmt.Sprintf("the layer of intent %s is not used: there is no such intent", quote(id)),
				nearest(id, b.intentNames()), "")
		}
	}
}

// misspeltRole reports a layer of an unused role if its name is similar to a role without a layer that is built in or
// named in several places. Other misspelt roles are reported where they are named.
func (b *builder) misspeltRole(s *section, book *prompt.Book) bool {
	named := b.rolesNamed(s)
	var without []string
	for role, places := range named {
		if book.Roles[role] == nil && (places > 1 || prompt.IsBuiltinRole(role)) {
			without = append(without, role)
		}
	}
	slices.Sort(without)
	layers := s.attrs["roles"]
	for i, role := range layers.keys {
		if named[role] > 0 || prompt.IsBuiltinRole(role) {
			continue
		}
		near := nearest(role, without)
		if near == "" {
			b.misspeltOverlay(layers, i, named)
			continue
		}
		b.report.add(Diagnostic{
			Type: "protocol/invalid",
			Message: fmt.Sprintf("the role %s is named nowhere, and %s, which is named, has no prompt", quote(role),
				quote(near)),
			Range:    cmp.Or(layers.items[i].key, layers.items[i].rng),
			Path:     []string{"prompts", "roles", role},
			Expected: words(without),
			Found:    edn.Text(role),
			Nearest:  near,
		})
		return true
	}
	return false
}

// misspeltOverlay warns about a layer of an unused role if another file has a layer of a used role with a similar name,
// which it may be meant to override.
func (b *builder) misspeltOverlay(layers value, i int, named map[string]int) {
	at := cmp.Or(layers.items[i].key, layers.items[i].rng)
	var elsewhere []string
	for k, role := range layers.keys {
		other := cmp.Or(layers.items[k].key, layers.items[k].rng)
		if at != nil && other != nil && at.File != other.File && (named[role] > 0 || prompt.IsBuiltinRole(role)) {
			elsewhere = append(elsewhere, role)
		}
	}
	if near := nearest(layers.keys[i], elsewhere); near != "" {
		b.report.add(Diagnostic{
			Type:     "protocol/invalid",
			Severity: SeverityWarning,
			Message:  "the role " + quote(layers.keys[i]) + " is named nowhere",
			Range:    at,
			Path:     []string{"prompts", "roles", layers.keys[i]},
			Expected: words(elsewhere),
			Found:    edn.Text(layers.keys[i]),
			Nearest:  near,
		})
	}
}

// rolesNamed counts the references to each role in blocks and in prompts.allowed.
func (b *builder) rolesNamed(s *section) map[string]int {
	out := map[string]int{}
	for _, block := range []string{"intent", "capability"} {
		for _, x := range b.all(block) {
			if x.written("role") {
				out[x.text("role")]++
			}
		}
	}
	for role := range entriesIn(s.attrs["allowed"]) {
		out[role]++
	}
	return out
}

func (b *builder) protocol(at *Range, path []string, message, near, hint string) {
	b.report.add(Diagnostic{
		Type:    "protocol/invalid",
		Message: message,
		Range:   at,
		Path:    path,
		Nearest: near,
		Hint:    hint,
	})
}

// unused rejects fragments that no layer uses.
func (w *writer) unused(s *section) {
	for name, v := range w.fragments {
		if w.used[name] {
			continue
		}
		w.pieces([]string{"prompts", "fragments", name}, value{
			v:   edn.MustMap(edn.K("fragment"), edn.Text(name)),
			rng: v.rng,
		}) // reports the errors inside the fragment
	}
	for name, v := range w.fragments {
		if !w.reached(s, name) && !w.meant[name] {
			w.protocol(v.rng, []string{"prompts", "fragments", name}, fmt.Sprintf("fragment %s is not used by any layer", quote(name)), "", "remove it, or name it: { fragment = "+spellText(name)+" }")
		}
	}
}

// reached reports whether a layer or a fragment names a fragment.
func (w *writer) reached(s *section, name string) bool {
	named := func(v value) bool { return names(v, name) }
	for _, attr := range []string{"default", "roles", "intents", "fragments"} {
		if named(s.attrs[attr]) {
			return true
		}
	}
	for _, in := range w.all("intent") {
		if p := in.block("prompt"); named(p.attrs["system"]) || named(p.attrs["addendum"]) {
			return true
		}
	}
	return false
}

func names(v value, fragment string) bool {
	if name, _ := v.v.Key("fragment").AsString(); len(v.keys) == 0 && name == fragment && name != "" {
		return true
	}
	return slices.ContainsFunc(v.items, func(x value) bool { return names(x, fragment) })
}
