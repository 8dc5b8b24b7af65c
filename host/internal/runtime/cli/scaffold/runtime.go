package scaffold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

// RuntimeDir is the folder with the runtime of a project in Python or Node: the files that
// implement the plugin contract. All programs of the project import them from there.
const RuntimeDir = "ferment"

// Change is a runtime file that is missing in a project or differs from that of this program.
type Change struct {
	File
	// Missing reports whether the file is missing in the project.
	Missing bool
}

// Outdated compares the runtime in the project dir with that of this program and returns the
// changes sorted by path. It writes nothing. The languages are detected from the files of the
// project. The error is input/invalid for a folder that is not a project in Python or Node.
func Outdated(dir string) ([]Change, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	langs, err := runtimesOf(root)
	if err != nil {
		return nil, err
	}
	if info, err := root.Lstat(RuntimeDir); err == nil && !info.IsDir() {
		return nil, contract.Errorf("input/invalid",
			"plugin runtime: %s is not a directory, expected that of the runtime",
			filepath.Join(dir, RuntimeDir)).
			WithHint("move it away; the programs of the project import the runtime by this name")
	}
	var all []Change
	for _, lang := range langs {
		files, err := runtimeFiles(lang)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			switch text, err := root.ReadFile(f.Path); {
			case errors.Is(err, fs.ErrNotExist):
				all = append(all, Change{File: f, Missing: true})
			case err != nil:
				return nil, err
			case !bytes.Equal(text, f.Text):
				all = append(all, Change{File: f})
			}
		}
	}
	// Both languages have the same proto files.
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b Change) bool { return a.Path == b.Path }), nil
}

// Update writes changes to the project dir, each file atomically. Nothing outside of RuntimeDir is
// written. After an error some files may be new; a repetition writes the others.
func Update(dir string, changes []Change) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(RuntimeDir, 0o755); err != nil {
		return err
	}
	for _, c := range changes {
		beside := c.Path + ".new"
		err := root.WriteFile(beside, c.Text, 0o644)
		if err == nil {
			err = root.Rename(beside, c.Path)
		}
		if err != nil {
			_ = root.Remove(beside) // the error above is the cause
			return err
		}
	}
	return nil
}

// runtimeMarks are the files that identify the runtimes of a project.
var runtimeMarks = []struct {
	lang, program string
	runtime       []string
	formerly      []string // before the runtime had its own folder
}{
	{Python, "plugin.py", []string{"ferment/__init__.py", "ferment/wire.py"}, []string{"wire.py", "plugin_pb2.py"}},
	{Node, "plugin.mjs", []string{"ferment/index.mjs"}, []string{"wire.mjs", "certificate.mjs"}},
}

// runtimesOf returns the languages of a project that have a runtime.
func runtimesOf(root *os.Root) ([]string, error) {
	there := func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	}
	var langs []string
	for _, m := range runtimeMarks {
		switch runtime := slices.ContainsFunc(m.runtime, there); {
		case !runtime && there(m.formerly[0]) && there(m.formerly[1]):
			return nil, formerLayout(root.Name(), m.lang, m.formerly[0])
		case runtime, there(m.program):
			langs = append(langs, m.lang)
		}
	}
	if len(langs) == 0 {
		return nil, contract.Errorf("input/invalid",
			"plugin runtime: %s is not the project of a plugin in Python or for Node:"+
				" expected plugin.py, plugin.mjs or the folder %s with a runtime", root.Name(), RuntimeDir).
			WithHint("name the folder of the project; a plugin in Go is updated with: go get github.com/fermenthq/ferment")
	}
	return langs, nil
}

// formerLayout returns the error for a project whose runtime has no folder.
func formerLayout(dir, lang, file string) error {
	remove, from := "wire.py, blake3.py, plugin_pb2.py, goplugin_pb2.py", "the package ferment"
	if lang == Node {
		remove, from = "wire.mjs, certificate.mjs", "./ferment/index.mjs"
	}
	return contract.Errorf("input/invalid", "plugin runtime: %s has a runtime of the former layout:"+
		" found %s, expected the folder %s", dir, file, RuntimeDir).
		WithHint("remove " + remove + ", plugin.proto and goplugin.proto, repeat the command, import from " + from +
			" in your programs, and name its files in files of ferment.hcl")
}

// runtimeFiles returns the runtime of a language; nil for Go, whose SDK is a module.
func runtimeFiles(lang string) ([]File, error) {
	sources, err := fs.Glob(templates, path.Join("templates", lang, RuntimeDir, "*.*"))
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	var all []File
	for _, source := range sources {
		text, err := fs.ReadFile(templates, source)
		if err != nil {
			return nil, fmt.Errorf("read the runtime: %w", err)
		}
		all = append(all, File{Path: path.Join(RuntimeDir, path.Base(source)), Text: text})
	}
	return append(all,
		File{Path: RuntimeDir + "/plugin.proto", Text: []byte(wire.PluginProto())},
		File{Path: RuntimeDir + "/goplugin.proto", Text: []byte(wire.GoPluginProto())},
	), nil
}
