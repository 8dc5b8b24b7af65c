package decode

import (
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Printer renders decoded values independent of the machine: paths are relative
// to the root, and secrets are handles.
type Printer struct{ Root string }

// Portable returns a decoded value as EDN.
func (p Printer) Portable(v Value) edn.Value {
	switch {
	case v.Secret != nil:
		return edn.Text(p.Handle(*v.Secret))
	case v.file && v.Content != nil:
		name, _ := v.EDN.AsString()
		return p.portableFile(name, *v.Content)
	case v.file:
		name, _ := v.EDN.AsString()
		return edn.Text(disk.PrintedName(p.Root, name))
	case v.Content != nil:
		return p.portableLayer(v)
	case len(v.Keys) > 0 && len(v.Keys) == len(v.Items):
		var b edn.MapBuilder
		for i, key := range v.Keys {
			b.Set(edn.Text(key), p.Portable(v.Items[i]))
		}
		return b.Map()
	case len(v.Items) > 0 && len(v.Keys) == 0:
		items := make([]edn.Value, len(v.Items))
		for i, x := range v.Items {
			items[i] = p.Portable(x)
		}
		return edn.Vector(items...)
	}
	return v.EDN
}

// Handle returns the handle of a secret, with a file path relative to the root.
func (p Printer) Handle(s expression.Secret) string {
	if s.Kind == "file" {
		s.Name = disk.PrintedName(p.Root, s.Path)
	}
	return s.String()
}

// portableLayer returns a prompt fragment from a file as EDN that depends on the content of the
// file.
func (p Printer) portableLayer(v Value) edn.Value {
	name, _ := v.EDN.Key("file").AsString()
	return p.portableFile(name, *v.Content)
}

// portableFile returns a file as EDN that is independent of the machine: its relative path and the
// hash of its content.
func (p Printer) portableFile(path, content string) edn.Value {
	return edn.MustMap(edn.K("file"), edn.Text(disk.PrintedName(p.Root, path)), edn.K("hash"),
		edn.Text(edn.Hash(edn.Text(content))))
}

// spellLayer returns a prompt layer as an HCL expression.
func (p Printer) spellLayer(v Value) string {
	switch {
	case v.EDN.IsVector():
		parts := make([]string, len(v.Items))
		for i, x := range v.Items {
			parts[i] = p.spellLayer(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case v.Content != nil:
		name, _ := v.EDN.Key("file").AsString()
		return "{ file = " + SpellText(disk.PrintedName(p.Root, name)) + " }"
	case v.EDN.IsMap():
		name, _ := v.EDN.Key("fragment").AsString()
		return "{ fragment = " + SpellText(name) + " }"
	}
	return HCLText(v.EDN)
}
