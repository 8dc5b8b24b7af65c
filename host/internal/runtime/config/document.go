package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fermenthq/ferment/sdk/edn"
)

// document is a decoded configuration.
type document struct {
	dir     string // its directory
	profile string
	root    *section
	report  *collector
	decoder *decoder
	byType  map[string][]*section // the top-level blocks
}

// decodeDocument evaluates and checks every attribute of a tree.
func decodeDocument(tree *node, dir, profile string, in *inputs, report *collector) *document {
	eval := newEvaluator(report, in)
	eval.declare(tree)
	eval.addLocals(tree)
	d := newDecoder(eval)
	d.profile, d.root = profile, tree
	d.base = newSource("default", filepath.Join(dir, "ferment.hcl"), 0, nil)
	out := &document{dir: dir, profile: profile, report: report, decoder: d, byType: map[string][]*section{}}
	out.root = d.section(tree)
	d.rivalLocals(tree)
	out.chosenProfile()
	for _, b := range out.root.blocks {
		out.byType[b.node.spec.Name] = append(out.byType[b.node.spec.Name], b)
	}
	eval.forceAll()
	return out
}

// kindOf rejects a file in place of a directory, and a directory in place of a file.
func (d *document) kindOf(s *section, attr, wanted string) {
	name := s.text(attr)
	info, err := os.Stat(name)
	for errors.Is(err, syscall.ENOTDIR) { // a parent is a file
		name, wanted = filepath.Dir(name), aFolder
		info, err = os.Stat(name)
	}
	if name == "" || err != nil || kindOf(info) == wanted {
		return
	}
	d.report.add(Diagnostic{
		Type:     "config/type",
		Message:  fmt.Sprintf("%s names %s, which is %s", attr, quote(printedName(d.dir, name)), kindOf(info)),
		Range:    s.attrs[attr].rng,
		Path:     append(slices.Clone(s.node.path), attr),
		Expected: edn.Text("the name of " + wanted),
		Found:    edn.Text(kindOf(info)),
		Hint:     "name another one, or move that one away",
	})
}

// there rejects a configured path that does not exist.
func (d *document) there(s *section, attr string) {
	v, name := s.attrs[attr], s.text(attr)
	if !v.written {
		return
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	near, hint := d.neighbour(name)
	d.report.add(Diagnostic{
		Type: "config/include",
		Message: fmt.Sprintf("%s names %s, which is not there", subject(s.pathOf(attr)),
			quote(printedName(d.dir, name))),
		Range:   v.rng,
		Path:    s.pathOf(attr),
		Nearest: near,
		Hint:    hint,
	})
}

// all returns the decoded blocks of one type, in the order of the file.
func (d *document) all(name string) []*section { return d.byType[name] }

// chosenProfile replaces the value of ferment.profile by the effective profile.
func (d *document) chosenProfile() {
	f := d.root.block("ferment")
	v := f.attrs["profile"]
	if name, _ := v.v.AsString(); name == d.profile {
		return
	}
	f.attrs["profile"] = value{v: edn.Text(d.profile), written: true}
}

// neighbour returns the existing file that a missing path probably means, with a hint.
func (d *document) neighbour(path string) (near, hint string) {
	near = Neighbour(path, fs.ErrNotExist)
	if near == "" {
		return "", "make it, or correct the path"
	}
	near = printedName(d.dir, near)
	return near, fmt.Sprintf("did you mean %s?", quote(near))
}

// kindOf returns the kind of a file in words.
func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return aFolder
	}
	return plainFile
}

// onDisk rejects paths of another kind of file than wanted and warns about
// missing paths, which otherwise fail only in a call.
func (d *document) onDisk(s *section, attr, wanted string) {
	for _, item := range s.attrs[attr].items {
		path, _ := item.v.AsString()
		if !filepath.IsAbs(path) { // the name of a program
			continue
		}
		info, err := os.Stat(path)
		out := Diagnostic{
			Message: fmt.Sprintf("%s in %s names %s, which is ", attr, s.node.title(),
				quote(printedName(d.dir, path))),
			Range: item.rng,
			Path:  append(slices.Clone(s.node.path), attr),
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Type, out.Severity, out.Message = "config/dangling-reference", SeverityWarning, out.Message+"not there"
			out.Nearest, out.Hint = d.neighbour(path)
		case err == nil && wanted != anything && kindOf(info) != wanted:
			out.Type, out.Message = "config/type", out.Message+kindOf(info)
			out.Expected, out.Found = edn.Text(wanted), edn.Text(kindOf(info))
			out.Hint = "name " + wanted
		default:
			continue
		}
		d.report.add(out)
	}
}

// Kinds of file.
const (
	anything  = ""
	plainFile = "a file"
	aFolder   = "a directory"
)
