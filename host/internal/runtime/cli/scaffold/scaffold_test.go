package scaffold

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var update = flag.Bool("update", false, "write the files that the examples share with the templates")

func each(t *testing.T, visit func(t *testing.T, p Project, files map[string]string)) {
	t.Helper()
	for _, lang := range Langs() {
		for _, kind := range Kinds() {
			t.Run(lang+" "+kind, func(t *testing.T) {
				p := Project{Name: "my-plugin", Kind: kind, Lang: lang, Interpreter: "/usr/bin/run", SDKVersion: "v1.2.3"}
				all, err := p.Files()
				require.NoError(t, err)
				files := map[string]string{}
				for _, f := range all {
					assert.NotContains(t, files, f.Path, "once")
					assert.Equal(t, f.Path == "check", f.Run, f.Path)
					files[f.Path] = string(f.Text)
				}
				visit(t, p, files)
			})
		}
	}
}

// SDK-005: every combination has a program, a test, a configuration, a README
// and a CI file, without leftover template delimiters.
func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, p Project, files map[string]string) {
		for _, name := range []string{"README.md", "check", ".github/workflows/check.yml", ".gitignore", "ferment.hcl", "samples.edn"} {
			assert.NotEmpty(t, files[name], name)
		}
		for name, text := range files {
			assert.NotContains(t, text, "<%", name)
			assert.NotContains(t, text, "<no value>", name)
			assert.True(t, strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "\n\n"), "%s ends with one line break", name)
		}
		for name := range files {
			if strings.HasPrefix(name, RuntimeDir+"/") {
				name = RuntimeDir + "/"
			}
			if !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "go.") && name != "README.md" && name != "package.json" && name != "package-lock.json" {
				assert.Contains(t, files["README.md"], name, "the README says what %s is", name)
			}
		}
		samples, err := edn.ReadString(files["samples.edn"])
		require.NoError(t, err)
		assert.True(t, samples.HasKey(p.sample().Capability), "%s", samples)
		_, err = edn.ReadString(p.sample().Try)
		require.NoError(t, err)
	})
}

// SDK-005: committed files contain neither the interpreter nor a folder of
// this machine; git ignores those that do.
func TestNothingOfThisMachineIsCommitted(t *testing.T) {
	each(t, func(t *testing.T, p Project, _ map[string]string) {
		p.Interpreter, p.Local = "/home/somebody/bin/run", "/home/somebody/ferment"
		all, err := p.Files()
		require.NoError(t, err)
		var ignored []string
		for _, f := range all {
			if f.Path == ".gitignore" {
				ignored = strings.Fields(string(f.Text))
			}
		}
		local := 0
		for _, f := range all {
			if strings.Contains(string(f.Text), "/home/somebody") {
				assert.Contains(t, ignored, "/"+f.Path)
				local++
			}
		}
		assert.Equal(t, 1, local, "one file says what holds for this machine")
		p.Interpreter, p.Local = DefaultInterpreter(p.Lang), ""
		again, err := p.Files()
		require.NoError(t, err)
		assert.Len(t, again, len(all)-1)
	})
}

// A Go project requires the same modules as this repository's example of a
// third-party module.
func TestGoModule(t *testing.T) {
	example := filepath.Join("..", "..", "..", "..", "..", "examples", "plugins", "wordcount")
	sum, err := os.ReadFile(filepath.Join(example, "go.sum"))
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(example, "go.mod"))
	require.NoError(t, err)
	p := Project{Name: "wordcount", Kind: "tool", Lang: Go, SDKVersion: "v0.0.0", Local: "../../.."}
	if *update {
		require.NoError(t, os.WriteFile("templates/go/go.sum", sum, 0o644))
		text := strings.ReplaceAll(string(mod), "wordcount", "<%.Name%>")
		text = strings.Replace(text, "ferment v0.0.0", "ferment <%.SDKVersion%>", 1)
		text, _, _ = strings.Cut(text, "\nreplace ")
		require.NoError(t, os.WriteFile("templates/go/go.mod.tmpl", []byte(text), 0o644))
		return // the templates are embedded in the running binary
	}
	files, err := p.Files()
	require.NoError(t, err)
	for _, f := range files {
		switch f.Path {
		case "go.mod":
			required, _, _ := strings.Cut(string(mod), "\nreplace ")
			assert.Equal(t, required, string(f.Text), "go test ./host/internal/runtime/cli/scaffold -update")
		case "go.sum":
			assert.Equal(t, string(sum), string(f.Text), "go test ./host/internal/runtime/cli/scaffold -update")
		}
	}
}

// The example for Node has the packages of a project.
func TestExampleSharesThePackages(t *testing.T) {
	files, err := Project{Name: "outline", Kind: "tool", Lang: Node, Interpreter: DefaultInterpreter(Node)}.Files()
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasPrefix(f.Path, "package") {
			continue
		}
		path := filepath.Join("..", "..", "..", "..", "..", "examples", "plugins", "outline", f.Path)
		if *update {
			require.NoError(t, os.WriteFile(path, f.Text, 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(f.Text), string(have), "go test ./host/internal/runtime/cli/scaffold -update")
	}
}

// The lock file of a project is complete and names no registry.
func TestLockFile(t *testing.T) {
	files, err := Project{Name: "my-plugin", Kind: "tool", Lang: Node, Interpreter: "/n"}.Files()
	require.NoError(t, err)
	var lock struct {
		Name     string
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	var wanted struct{ Dependencies map[string]string }
	for _, f := range files {
		switch f.Path {
		case "package-lock.json":
			require.NoError(t, json.Unmarshal(f.Text, &lock))
		case "package.json":
			require.NoError(t, json.Unmarshal(f.Text, &wanted))
		}
	}
	assert.Equal(t, "my-plugin", lock.Name)
	for name, p := range lock.Packages {
		assert.Empty(t, p.Resolved, name)
		if name != "" {
			assert.NotEmpty(t, p.Integrity, name)
		}
	}
	require.NotEmpty(t, wanted.Dependencies)
	for name, version := range wanted.Dependencies {
		assert.Equal(t, version, lock.Packages["node_modules/"+name].Version, name)
	}
}

// SDK-005: a name that is invalid in one of its uses is rejected, with all
// reasons.
func TestCheck(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "word-count2": true, strings.Repeat("a", 40): true,
		"": false, "A": false, "2go": false, "a_b": false, "a-": false, "a--b": false, "-a": false, "a/b": false, "a b": false,
		"a.b": false, "é": false, "ferment": false, "session": false, "conversation": false, "sessions": true, strings.Repeat("a", 41): false, "a\n": false,
	} {
		err := Project{Name: name, Kind: "tool", Lang: Go}.Check()
		if ok {
			require.NoError(t, err, "%q", name)
			continue
		}
		require.ErrorIs(t, err, contract.OfType("input/invalid"), "%q", name)
	}
	err := Project{Name: "A", Kind: "x", Lang: "y"}.Check()
	for _, says := range []string{`the name "A"`, `unknown kind "x"`, `unknown language "y"`} {
		require.ErrorContains(t, err, says)
	}
	_, err = Project{Name: "A"}.Files()
	require.Error(t, err)
}

// SDK-005: all files or none.
func TestWriteIsWholeOrNothing(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "p")
	broken := []File{{Path: "a", Text: []byte("x")}, {Path: "a/b", Text: []byte("y")}}
	require.Error(t, Write(dir, broken))
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, Write(dir, []File{{Path: "check", Run: true}, {Path: "sub/f", Text: []byte("x")}}))
	info, err := os.Stat(filepath.Join(dir, "check"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&0o100)
	require.ErrorContains(t, Write(dir, nil), "already exists")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(parent, "link")))
	require.ErrorContains(t, Write(filepath.Join(parent, "link"), nil), "already exists")
	left, err = os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, left, 2)
}
