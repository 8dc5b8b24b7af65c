package config

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// printer renders decoded values independent of the machine: paths are relative
// to the root, and secrets are handles.
type printer struct{ root string }

// portable returns a decoded value as data.
func (p printer) portable(v value) edn.Value {
	switch {
	case v.secret != nil:
		return edn.Text(p.masked(*v.secret))
	case v.file && v.content != nil:
		name, _ := v.v.AsString()
		return p.portableFile(name, *v.content)
	case v.file:
		name, _ := v.v.AsString()
		return edn.Text(printedName(p.root, name))
	case v.content != nil:
		return p.portableLayer(v)
	case len(v.keys) > 0 && len(v.keys) == len(v.items):
		var b edn.MapBuilder
		for i, key := range v.keys {
			b.Set(edn.Text(key), p.portable(v.items[i]))
		}
		return b.Map()
	case len(v.items) > 0 && len(v.keys) == 0:
		items := make([]edn.Value, len(v.items))
		for i, x := range v.items {
			items[i] = p.portable(x)
		}
		return edn.Vector(items...)
	}
	return v.v
}

// masked returns the handle of a secret, with a file path relative to the root.
func (p printer) masked(s Secret) string {
	if s.Kind == "file" {
		s.Name = printedName(p.root, s.path)
	}
	return s.String()
}

// portableLayer returns a fragment of a file as data that changes with the content of the file.
func (p printer) portableLayer(v value) edn.Value {
	name, _ := v.v.Key("file").AsString()
	return p.portableFile(name, *v.content)
}

// portableFile returns a file as data that is independent of the machine.
func (p printer) portableFile(path, content string) edn.Value {
	return edn.MustMap(edn.K("file"), edn.Text(printedName(p.root, path)), edn.K("hash"),
		edn.Text(edn.Hash(edn.Text(content))))
}

// spellLayer returns a layer as an HCL expression.
func (p printer) spellLayer(v value) string {
	switch {
	case v.v.IsVector():
		parts := make([]string, len(v.items))
		for i, x := range v.items {
			parts[i] = p.spellLayer(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case v.content != nil:
		name, _ := v.v.Key("file").AsString()
		return "{ file = " + spellText(printedName(p.root, name)) + " }"
	case v.v.IsMap():
		name, _ := v.v.Key("fragment").AsString()
		return "{ fragment = " + spellText(name) + " }"
	}
	return hclText(v.v)
}
