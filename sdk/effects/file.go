package effects

import (
	"encoding/base64"
	slashpath "path"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Place is the location of the file that a file tool accesses.
type Place struct {
	Root string // absolute directory
	Path string // clean and relative to Root
	// Allow is the prefix of the scope that allows the path.
	Allow string
}

// Place returns the root and the path of a call of a file tool, or the error if
// the input is invalid or the scope does not permit the path. It does not
// access the file.
func (t Tool) Place(input edn.Value, s *Scope) (Place, *contract.Error) {
	name, ok := input.Key("path").AsString()
	switch {
	case !ok:
		return Place{}, InvalidInput("schema", t, "expected a text in :path, found a value of kind %s",
			input.Key("path").Kind())
	case name == "":
		return Place{}, InvalidInput("schema", t, "the :path is empty, expected a path relative to the root")
	case strings.ContainsRune(name, 0):
		return Place{}, InvalidInput("path/invalid", t, "the path %q contains a NUL character", name)
	case slashpath.IsAbs(name):
		return Place{}, Denied("path-outside-root", t, "the path %q is absolute, expected a path relative to the root",
			name)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return Place{}, Denied("path-outside-root", t, "the path %q contains \"..\", expected a path below the root", name)
	}
	p := Place{Path: slashpath.Clean(name)}
	var err *contract.Error
	if p.Root, err = t.root(input, s); err != nil {
		return Place{}, err
	}
	for _, prefix := range s.Allow.V {
		if Covers(KindPrefixes, prefix, p.Path) {
			p.Allow = prefix
			return p, nil
		}
	}
	return Place{}, Denied("path-not-allowed", t,
		"the path %q, relative to the root, is not below an allowed prefix: %s",
		name, listed(s.Allow.V))
}

// root returns the root that the input names, or the only one of the scope.
func (t Tool) root(input edn.Value, s *Scope) (string, *contract.Error) {
	name, ok := optionalText(input, "root")
	switch {
	case !ok:
		return "", InvalidInput("schema", t, "expected a text in :root, found a value of kind %s", input.Key("root").Kind())
	case name != "":
		name = slashpath.Clean(name)
		if !slices.Contains(s.Roots.V, name) {
			return "", Denied("path-outside-local-root", t, "the root %q is not one of the roots of the scope: %s", name,
				listed(s.Roots.V))
		}
		return name, nil
	case len(s.Roots.V) == 0:
		return "", Denied("path-outside-root", t, "the scope of :%s has no root", t.Effect)
	case len(s.Roots.V) > 1:
		return "", InvalidInput("root/ambiguous", t, "the scope has several roots, name one as :root: %s",
			listed(s.Roots.V))
	}
	return s.Roots.V[0], nil
}

func (t Tool) permitWrite(input edn.Value, s *Scope) *contract.Error {
	p, err := t.Place(input, s)
	switch {
	case err != nil:
		return err
	case p.Path == ".":
		return Denied("not-regular", t, "the path %q is the root itself, expected a file below it", p.Path)
	case input.Key("append?").Truthy() && !s.Append.V:
		return Denied("append-not-allowed", t, "the scope does not allow :append?")
	case input.Key("mkdirs?").Truthy() && s.MkDirs.Set && !s.MkDirs.V:
		return Denied("mkdirs-not-allowed", t, "the scope does not allow :mkdirs?")
	}
	content, err := t.Content(input)
	if err == nil && s.MaxBytes.Set && int64(len(content)) > s.MaxBytes.N {
		return Denied("max-bytes", t, "%q would have %d bytes, the limit is %d", p.Path, len(content), s.MaxBytes.N)
	}
	return err
}

// Content returns the bytes that a call writes, decoded if :encoding is
// :base64. The error is effects/invalid-input.
func (t Tool) Content(input edn.Value) ([]byte, *contract.Error) {
	text, ok := input.Key("content").AsString()
	if !ok {
		return nil, InvalidInput("schema", t, "expected a text in :content, found a value of kind %s",
			input.Key("content").Kind())
	}
	if name, _ := input.Key("encoding").AsKeyword(); name == "base64" {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, InvalidInput("content/invalid", t, "decode the :content as base64: %w", err)
		}
		return data, nil
	}
	return []byte(text), nil
}

// listed formats a list for a message.
func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	const most = 8
	if len(list) > most {
		return strings.Join(list[:most], ", ") + " and more"
	}
	return strings.Join(list, ", ")
}
