package decode

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Document is a decoded configuration.
type Document struct {
	Dir     string // directory of the configuration
	Profile string
	Root    *Section
	Report  *diag.Collector
	Decoder *Decoder
	ByType  map[string][]*Section // top-level blocks by type
	// Elsewhere reports that the configuration belongs to another machine: its files and secrets
	// need not exist here.
	Elsewhere bool
}

// NewDocument evaluates and checks every attribute of a tree and returns the decoded configuration.
// Problems are added to report.
func NewDocument(tree *syntax.Node, dir, profile string, in *expression.Inputs, report *diag.Collector) *Document {
	eval := expression.NewEvaluator(report, in)
	eval.Declare(tree)
	eval.AddLocals(tree)
	d := NewDecoder(eval)
	d.Profile, d.Root = profile, tree
	d.Base = diag.NewSource("default", filepath.Join(dir, "ferment.hcl"), 0, nil)
	out := &Document{Dir: dir, Profile: profile, Report: report, Decoder: d, ByType: map[string][]*Section{}}
	out.Root = d.section(tree)
	d.rivalLocals(tree)
	out.chosenProfile()
	for _, b := range out.Root.Blocks {
		out.ByType[b.Node.Spec.Name] = append(out.ByType[b.Node.Spec.Name], b)
	}
	eval.ForceAll()
	return out
}

// KindOf reports config/type if the path in attr exists but is not of the kind wanted (File or
// Folder), or if a parent of it is a file. It does nothing if Elsewhere is set.
func (d *Document) KindOf(s *Section, attr, wanted string) {
	name := s.Text(attr)
	if d.Elsewhere {
		return
	}
	info, err := os.Stat(name)
	for errors.Is(err, syscall.ENOTDIR) { // a parent is a file
		name, wanted = filepath.Dir(name), Folder
		info, err = os.Stat(name)
	}
	if name == "" || err != nil || kindOf(info) == wanted {
		return
	}
	d.Report.Add(diag.Diagnostic{
		Type:     "config/type",
		Message:  fmt.Sprintf("%s names %s, which is %s", attr, diag.Quote(disk.PrintedName(d.Dir, name)), kindOf(info)),
		Range:    cmp.Or(s.Attrs[attr].At, s.At()),
		Path:     append(slices.Clone(s.Node.Path), attr),
		Expected: edn.Text("the name of " + wanted),
		Found:    edn.Text(kindOf(info)),
		Hint:     "name another one, or move that one away",
	})
}

// There reports config/include if the path in attr is written but does not exist. It does nothing
// if Elsewhere is set.
func (d *Document) There(s *Section, attr string) {
	v, name := s.Attrs[attr], s.Text(attr)
	if !v.Written || d.Elsewhere {
		return
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	near, hint := d.Neighbour(name)
	d.Report.Add(diag.Diagnostic{
		Type: "config/include",
		Message: fmt.Sprintf("%s names %s, which is not there", language.Subject(s.PathOf(attr)),
			diag.Quote(disk.PrintedName(d.Dir, name))),
		Range:   v.At,
		Path:    s.PathOf(attr),
		Nearest: near,
		Hint:    hint,
	})
}

// All returns the decoded top-level blocks of one type, in the order of the files.
func (d *Document) All(name string) []*Section { return d.ByType[name] }

// chosenProfile replaces the value of ferment.profile by the effective profile.
func (d *Document) chosenProfile() {
	f := d.Root.Block("ferment")
	v := f.Attrs["profile"]
	if name, _ := v.EDN.AsString(); name == d.Profile {
		return
	}
	f.Attrs["profile"] = Value{EDN: edn.Text(d.Profile), Written: true}
}

// Neighbour returns the existing file that a missing path probably means, empty if there is none,
// and a hint.
func (d *Document) Neighbour(path string) (near, hint string) {
	near = disk.Neighbour(path, fs.ErrNotExist)
	if near == "" {
		return "", "make it, or correct the path"
	}
	near = disk.PrintedName(d.Dir, near)
	return near, fmt.Sprintf("did you mean %s?", diag.Quote(near))
}

// kindOf returns File or Folder.
func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return Folder
	}
	return File
}

// OnDisk checks the absolute paths in a list attribute. A path that is not of the kind wanted is an
// error. A missing one is a warning, because it fails only when a call uses it. It does nothing if
// Elsewhere is set.
func (d *Document) OnDisk(s *Section, attr, wanted string) {
	for _, item := range s.Attrs[attr].Items {
		path, _ := item.EDN.AsString()
		if d.Elsewhere || !filepath.IsAbs(path) { // a relative name is that of a program
			continue
		}
		info, err := os.Stat(path)
		out := diag.Diagnostic{
			Message: fmt.Sprintf("%s in %s names %s, which is ", attr, s.Node.Title(),
				diag.Quote(disk.PrintedName(d.Dir, path))),
			Range: item.At,
			Path:  append(slices.Clone(s.Node.Path), attr),
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Type, out.Severity, out.Message = "config/dangling-reference", diag.SeverityWarning, out.Message+"not there"
			out.Nearest, out.Hint = d.Neighbour(path)
		case err == nil && wanted != Anything && kindOf(info) != wanted:
			out.Type, out.Message = "config/type", out.Message+kindOf(info)
			out.Expected, out.Found = edn.Text(wanted), edn.Text(kindOf(info))
			out.Hint = "name " + wanted
		default:
			continue
		}
		d.Report.Add(out)
	}
}

// Kinds of file for KindOf and OnDisk, as words in messages.
const (
	Anything = ""
	File     = "a file"
	Folder   = "a directory"
)
