package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// present reports whether the program and its files exist, and hashes them. All missing files are
// reported before anything is hashed.
func (r *Reader) present(s *decode.Section, p *Plugin) bool {
	good := r.fileOf(s, p, "command", p.Command[0], 0)
	for i, name := range p.Files {
		good = r.fileOf(s, p, "files", name, i) && good
	}
	if info, err := os.Stat(p.Workdir); p.Workdir != "" && (err != nil || !info.IsDir()) {
		r.lacks(s, p, "workdir", 0, diag.Diagnostic{Message: disk.PrintedName(r.Dir, p.Workdir) + " is not a directory"})
		good = false
	}
	if !good {
		return false
	}
	hash, err := r.binaryHash(p.Command[0], p.Files)
	if err == nil {
		err = r.hashesOf(p)
	}
	if err != nil {
		r.lacks(s, p, "command", 0, diag.Diagnostic{Message: disk.Cause(err)})
		return false
	}
	p.Binary = hash
	return true
}

// fileOf reports an element of an attribute that does not name a regular file.
func (r *Reader) fileOf(s *decode.Section, p *Plugin, attr, name string, item int) bool {
	_, err := disk.Regular(os.Stat(name))
	if err == nil {
		return attr != "command" || r.executes(s, p, name)
	}
	what := "cannot be used: " + disk.Cause(err)
	if errors.As(err, new(disk.IrregularError)) {
		what = err.Error()
	}
	if target, lerr := os.Readlink(name); lerr == nil && errors.Is(err, fs.ErrNotExist) {
		what = "is a link to " + diag.Quote(target) + ", which does not exist"
	}
	d := diag.Diagnostic{Message: disk.PrintedName(r.Dir, name) + " " + what}
	if program, args, ok := strings.Cut(name, " "); ok && item == 0 && attr == "command" && disk.IsFile(program) {
		d.Hint = "write one member per argument: [" + decode.SpellText(disk.PrintedName(r.Dir, program))
		for _, arg := range strings.Fields(args) {
			d.Hint += ", " + decode.SpellText(arg)
		}
		d.Hint += "]"
	} else if near := disk.Neighbour(name, err); near != "" {
		d.Message += "; did you mean " + disk.PrintedName(r.Dir, near) + "?"
	} else if base := filepath.Base(name); filepath.Join(r.Dir, base) == name && attr == "command" {
		if found := r.executable(base); len(found) > 0 {
			d.Hint = fmt.Sprintf("PATH is not searched: name the program by its path, such as %s", diag.Quote(found[0]))
		}
	}
	r.lacks(s, p, attr, item, d)
	return false
}

// executes reports a program that the user of the host may not execute. The description may be
// cached, so the failure would otherwise be noticed only at the start.
func (r *Reader) executes(s *decode.Section, p *Plugin, name string) bool {
	err := unix.Access(name, unix.X_OK)
	if err == nil {
		return true
	}
	r.lacks(s, p, "command", 0, diag.Diagnostic{
		Message: fmt.Sprintf("%s cannot be executed: %s", disk.PrintedName(r.Dir, name), err),
		Hint:    "make it executable: chmod u+x " + launch.ShellLine(disk.PrintedName(r.Dir, name)),
	})
	return false
}

// lacks reports a missing file of a program at the attribute element that names it.
func (r *Reader) lacks(s *decode.Section, p *Plugin, attr string, item int, d diag.Diagnostic) {
	v := s.Attrs[attr]
	d.Type, d.Message = "config/plugin-unknown", fmt.Sprintf("plugin %s: %s", diag.Quote(p.Name), d.Message)
	d.Range, d.Path = v.At, append(slices.Clone(s.Node.Path), attr)
	if item < len(v.Items) && v.Items[item].At != nil {
		d.Range = v.Items[item].At
	}
	hints := map[string]string{
		"command": "build or install it, or set enabled = false",
		"files":   "add the file, or remove it from files",
		"workdir": "make the directory, or correct the path",
	}
	d.Hint = cmp.Or(d.Hint, hints[attr])
	if p.Optional {
		d.Severity = diag.SeverityWarning
	}
	r.leaveOut(p, d)
}

// leaveOut reports why a plugin has no description, and keeps the first reason in Undescribed.
func (r *Reader) leaveOut(p *Plugin, d diag.Diagnostic) {
	if p.Undescribed == nil {
		p.Undescribed = contract.Errorf(d.Type, "%s", d.Message).WithHint(d.Hint)
	}
	r.Report.Add(d)
}

// binaryHash returns the hash of a program with its files, which is calculated once per load.
func (r *Reader) binaryHash(program string, files []string) (string, error) {
	key := strings.Join(append([]string{program}, files...), "\x00")
	if hash, ok := r.hashes[key]; ok {
		return hash, nil
	}
	hash, err := "", error(nil)
	if h, ok := r.Options.Describer.(Hasher); ok {
		hash, err = h.Hash(program, files)
	} else {
		hash, err = plugin.HashProgram(program, files)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be used: %s", disk.PrintedName(r.Dir, program), disk.Cause(err))
	}
	r.hashes[key] = hash
	return hash, nil
}

func (r *Reader) unchecked(s *decode.Section, p *Plugin, why string) {
	r.leaveOut(p, diag.Diagnostic{
		Type:     "config/plugin-unknown",
		Severity: diag.SeverityWarning,
		Message:  fmt.Sprintf("plugin %s is not checked: %s", diag.Quote(p.Name), why),
		Range:    s.At(),
		Path:     s.Node.Path,
	})
}

// runnable returns the printed name of a program in a form that a shell does not look up in PATH.
func (r *Reader) runnable(program string) string {
	name := disk.PrintedName(r.Dir, program)
	if !strings.ContainsRune(name, filepath.Separator) && filepath.IsAbs(program) {
		return "./" + name
	}
	return name
}
