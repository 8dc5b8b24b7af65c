package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"text/template"
)

//go:embed all:templates
var templates embed.FS

// File is one file of a project.
type File struct {
	// Path is relative, with slashes.
	Path string
	Text []byte
	// Run marks executable files.
	Run bool
}

// Files returns the files of the project. The error is that of Check for an invalid project.
func (p Project) Files() ([]File, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	var all []File
	for _, source := range p.sources() {
		text, err := fs.ReadFile(templates, "templates/"+source.template)
		if err != nil {
			return nil, fmt.Errorf("new plugin: %w", err)
		}
		if strings.HasSuffix(source.template, ".tmpl") {
			if text, err = p.fill(source.template, text); err != nil {
				return nil, err
			}
		}
		all = append(all, File{Path: source.path, Text: text, Run: source.path == "check"})
	}
	if text := p.here(); text != "" {
		all = append(all, File{Path: map[bool]string{true: "go.work", false: ".env"}[p.Lang == Go], Text: []byte(text)})
	}
	runtime, err := runtimeFiles(p.Lang)
	return append(all, runtime...), err
}

// source is a template and the path of its file.
type source struct{ template, path string }

func (p Project) sources() []source {
	own := map[string][]source{
		Go: {{"kinds/" + p.Kind + ".go.tmpl", "main.go"}, {"main_test.go.tmpl", "main_test.go"},
			{"go.mod.tmpl", "go.mod"}, {"go.sum", "go.sum"}},
		Python: {{"kinds/" + p.Kind + ".py.tmpl", "plugin.py"}, {"test_plugin.py.tmpl", "test_plugin.py"}},
		Node: {{"kinds/" + p.Kind + ".mjs.tmpl", "plugin.mjs"}, {"plugin.test.mjs.tmpl", "plugin.test.mjs"},
			{"package.json.tmpl", "package.json"}, {"package-lock.json.tmpl", "package-lock.json"}},
	}[p.Lang]
	every := []source{{"README.md.tmpl", "README.md"}, {"check.tmpl", "check"},
		{"check.yml.tmpl", ".github/workflows/check.yml"}, {"gitignore.tmpl", ".gitignore"}}
	var all []source
	for _, s := range append(own, every...) {
		all = append(all, source{p.Lang + "/" + s.template, s.path})
	}
	return append(all, source{"common/samples." + p.Kind + ".edn.tmpl", "samples.edn"},
		source{"common/ferment.hcl.tmpl", "ferment.hcl"})
}

// here returns values of this machine that are not committed: the workspace with the checkout of
// the SDK, or an interpreter other than the default.
func (p Project) here() string {
	switch {
	case p.Lang == Go && p.Local != "":
		return "go 1.26.0\n\nuse .\n\nreplace github.com/fermenthq/ferment => " + strconv.Quote(p.Local) + "\n"
	case p.Lang != Go && p.Interpreter != interpreters[p.Lang].path:
		return fmt.Sprintf("%s=%q\n", interpreters[p.Lang].variable, p.Interpreter)
	}
	return ""
}

// interpreters maps languages to their default interpreter and the variable that overrides it.
var interpreters = map[string]struct{ variable, path string }{
	Python: {"PYTHON", "/usr/bin/python3"},
	Node:   {"NODE", "/usr/bin/node"},
}

// DefaultInterpreter returns the path of the default interpreter of a language; empty if it needs
// none.
func DefaultInterpreter(lang string) string { return interpreters[lang].path }

// program returns the command of the plugin block, and the files that it depends on.
func (p Project) program() (command string, files []string) {
	interpreter := fmt.Sprintf("env(%q, %q), ", interpreters[p.Lang].variable, interpreters[p.Lang].path)
	switch p.Lang {
	case Python:
		return interpreter + `"plugin.py"`, []string{"plugin.py", "ferment/__init__.py", "ferment/wire.py",
			"ferment/blake3.py", "ferment/plugin_pb2.py", "ferment/goplugin_pb2.py"}
	case Node:
		return interpreter + `"plugin.mjs"`, []string{"plugin.mjs", "ferment/index.mjs", "ferment/certificate.mjs",
			"ferment/plugin.proto", "ferment/goplugin.proto", "package-lock.json"}
	}
	return quoted([]string{p.Name}), nil
}

func (p Project) fill(name string, text []byte) ([]byte, error) {
	// None of the languages uses these delimiters.
	t, err := template.New(name).Delims("<%", "%>").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("new plugin: %w", err)
	}
	command, files := p.program()
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Project
		sample
		Command, Files, Pad string
	}{p, p.sample(), command, quoted(files), strings.Repeat(" ", len(p.Name))})
	if err != nil {
		return nil, fmt.Errorf("new plugin: %w", err)
	}
	return out.Bytes(), nil
}

// quoted returns the elements of an HCL list.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = strings.ReplaceAll(strconv.Quote(w), "${", "$${")
	}
	return strings.Join(all, ", ")
}
