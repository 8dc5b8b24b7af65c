package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// similar warns about labels that differ only in - and _.
func (b *builder) similar(block string) {
	seen := map[string]*decode.Section{}
	for _, s := range b.All(block) {
		key := strings.ReplaceAll(s.Label(), "_", "-")
		if first := seen[key]; first != nil {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/duplicate",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("the labels %s and %s differ only in - and _", diag.Quote(first.Label()),
					diag.Quote(s.Label())),
				Range:   s.At(),
				Path:    s.Node.Path,
				Related: []diag.Related{{Range: first.At(), Message: "is the other one"}},
			})
			continue
		}
		seen[key] = s
	}
}

// renamed reports a reference to an advertised id that a block renamed.
func (b *builder) renamed(s *decode.Section, attr, id string, by *decode.Section, at *diag.Range) {
	b.Report.Add(diag.Diagnostic{
		Type:    "config/dangling-reference",
		Message: fmt.Sprintf("%s names capability %s, which a capability block renames", s.Node.Title(), diag.Quote(id)),
		Range:   at,
		Path:    append(slices.Clone(s.Node.Path), attr),
		Found:   edn.Text(id),
		Nearest: by.Label(),
		Related: []diag.Related{{Range: by.At(), Message: "renames it to " + diag.Quote(by.Label())}},
	})
}

// dangling reports a reference to an unknown name.
func (b *builder) dangling(s *decode.Section, attr, kind, name string, known []string, at *diag.Range) {
	if b.Report.Doubts(kind, name) {
		return
	}
	near := diag.Nearest(name, known)
	other, place := b.kindOfLabel(name)
	if place != nil && contract.Nearest(name, known) == "" {
		near = "" // it only begins like the name
	}
	d := diag.Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("%s names the unknown %s %s", s.Node.Title(), kind, diag.Quote(name)),
		Range:    at,
		Path:     append(slices.Clone(s.Node.Path), attr),
		Expected: choices(kind, name, known),
		Found:    edn.Text(name),
		Nearest:  near,
	}
	if slices.Contains([]string{"capability", "intent", "schema"}, kind) {
		off := b.disabled(name, s)
		if off != nil && contract.Nearest(name, known) == "" {
			d.Nearest = "" // a common beginning does not make a name the intended one
		}
		if off != nil && (d.Nearest == "" || off.Name == namespace(name)) {
			b.blame(off, kind, name, d)
			return
		}
	}
	if near != "" {
		if place := b.place(kind, near); place != nil {
			d.Related = []diag.Related{{Range: place, Message: fmt.Sprintf("declares %s %s", kind, diag.Quote(near))}}
		}
	} else if place != nil {
		d.Hint = fmt.Sprintf("%s is %s: write the name of %s", diag.Quote(name), diag.Article(other), diag.Article(kind))
		d.Related = []diag.Related{{Range: place, Message: fmt.Sprintf("declares %s %s", other, diag.Quote(name))}}
	} else if strings.Contains(name, "*") {
		d.Hint = "write each name: patterns are not supported in references"
	}
	b.Report.Fold("reference "+kind+" "+name, d)
}

// kindOfLabel returns the type and the place of the block with a label; the place is nil if there
// is none.
func (b *builder) kindOfLabel(label string) (string, *diag.Range) {
	for i := range language.Specification().Blocks {
		kind := language.Specification().Blocks[i].Name
		if place := b.place(kind, label); place != nil {
			return kind, place
		}
	}
	return "", nil
}

// blame reports a missing name that a disabled plugin may define. All names that the plugin may
// define are one error.
func (b *builder) blame(off *plugins.Plugin, kind, name string, d diag.Diagnostic) {
	again := fmt.Sprintf("names %s %s", kind, diag.Quote(name))
	d.Message = fmt.Sprintf("%s, and plugin %s is disabled", d.Message, diag.Quote(off.Name))
	d.Hint = fmt.Sprintf("set enabled = true in plugin %s if it gives %s", diag.Quote(off.Name), diag.Quote(name))
	if near := diag.DidYouMean(d.Nearest); near != "" {
		d.Hint += "; else " + near
	}
	d.Expected, d.Found = edn.Nil(), edn.Nil()
	at := b.place("plugin", off.Name)
	for _, s := range b.All("plugin") {
		if s.Label() == off.Name && s.Written("enabled") {
			at = s.Attrs["enabled"].At
		}
	}
	d.Related = []diag.Related{{Range: at, Message: "disables plugin " + diag.Quote(off.Name)}}
	b.Report.Gather("disabled plugin "+off.Name, d, diag.Related{Range: d.Range, Message: again + " as well"})
}

func namespace(name string) string {
	space, _, _ := strings.Cut(name, "/")
	return space
}

// disabled returns the disabled plugin that may define a name; nil if there is none. The names of a
// disabled plugin are unknown. The first of these criteria that exactly one plugin meets selects
// it: its entry in the lock file has the name, its name is the namespace of the name, its name is
// another word in the name, it is disabled independently of the environment, it is disabled.
func (b *builder) disabled(name string, s *decode.Section) *plugins.Plugin {
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("/.+", r) })
	for _, may := range []func(*plugins.Plugin) bool{
		func(p *plugins.Plugin) bool {
			return b.approved(p, name) || s.Node.Spec.Name == "intent" && b.approved(p, s.Label())
		},
		func(p *plugins.Plugin) bool { return p.Name == namespace(name) },
		func(p *plugins.Plugin) bool { return slices.Contains(words, p.Name) },
		func(p *plugins.Plugin) bool {
			return !errors.Is(p.Disabled, contract.OfType("provider/not-configured"))
		},
		func(*plugins.Plugin) bool { return true },
	} {
		var found []*plugins.Plugin
		for i := range b.Plugins {
			if p := &b.Plugins[i]; !p.Enabled && may(p) {
				found = append(found, p)
			}
		}
		if len(found) == 1 {
			return found[0]
		}
	}
	return nil
}

// approved reports whether the lock file entry of a plugin has a capability or an intent with a
// name.
func (b *builder) approved(p *plugins.Plugin, name string) bool {
	entry, _ := b.LockFile().Plugin(p.Name)
	return slices.ContainsFunc(entry.Capabilities, func(c lock.Capability) bool {
		return c.ID == name || slices.Contains(c.Intents, name)
	})
}

// choices returns the names that a reference may use: all if they are few, otherwise those of its
// namespace, otherwise their number.
func choices(kind, name string, known []string) edn.Value {
	const most = 16
	space, _, _ := strings.Cut(name, "/")
	related := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, space+"/") })
	switch {
	case len(known) == 0:
		return edn.Text("nothing: there is no " + kind)
	case len(known) <= most:
		return diag.Words(known)
	case len(related) > 0 && len(related) <= most:
		return diag.Words(related)
	}
	return edn.Text(fmt.Sprintf("one of the %d names of %s", len(known), diag.Article(kind)))
}
