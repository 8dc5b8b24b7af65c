package host_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// documents are what people read first, from the root of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"README.md", "host/README.md", "host/docs/*.md", "plugins/*/README.md", "examples/*/README.md", "sdk/conformance/README.md", "sdk/wire/CONTRACT.md", ".github/CONTRIBUTING.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		out = append(out, found...)
	}
	return out
}

// fence is a fenced sample of a document.
type fence struct {
	document, language, text string
	skipped                  string // why the tests cannot run it, as the document says above it
}

var fenced = regexp.MustCompile("(?ms)(?:^\\*Not run by the tests: ([^*]+)\\*\n\n)?^```([a-z]+)\n(.*?)^```")

func fencesOf(t *testing.T, document string) []fence {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var out []fence
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		out = append(out, fence{document: document, language: m[2], text: m[3], skipped: m[1]})
	}
	return out
}

// shown are the languages of what is only looked at, and of what package wire reads.
var shown = []string{"mermaid", "text", "textproto"}

// reader is a person with a built checkout of their own.
type reader struct{ dir string }

// newReader makes a checkout that commands may write to; its programs are those that were built.
func newReader(t *testing.T) *reader {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "bin/ferment"), "build it first: make build")
	r := &reader{dir: t.TempDir()}
	require.NoError(t, os.CopyFS(filepath.Join(r.dir, "examples"), withoutData(filepath.Join(root, "examples"))))
	for _, name := range []string{"bin", "Makefile"} {
		require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(r.dir, name)))
	}
	shipped, err := os.ReadFile(filepath.Join(root, "ferment.hcl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "ferment.hcl"), shipped, 0o644))
	return r
}

// withoutData are the files of a folder without those that running the examples left there.
func withoutData(dir string) fs.FS { return dataless{os.DirFS(dir)} }

type dataless struct{ fs.FS }

func (d dataless) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "var" || e.Name() == "node_modules" }), err
}

// shell runs lines in the checkout, with nothing of the environment but a home and the system's programs.
func (r *reader) shell(t *testing.T, dir, lines string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", lines)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + r.dir, "PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY="}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// daemonical are the commands that need, or are, the daemon of the section on serving.
var daemonical = regexp.MustCompile(`(?m)^(?:curl .*|(?:until )?bin/ferment (?:serve|runs|status|admin|diff|plugin swap)\b.*)$`)

// commands runs a block line by line, as somebody types it. A make target is looked up only: the tests are one of
// them. The daemon's commands are run by TestReadmeServe.
func (r *reader) commands(t *testing.T, f fence) {
	if daemonical.MatchString(f.text) {
		return
	}
	var lines []string
	for line := range strings.Lines(f.text) {
		if target, ok := strings.CutPrefix(line, "make "); ok {
			target, _, _ = strings.Cut(strings.TrimSpace(target), " ")
			makefile, err := os.ReadFile(filepath.Join(r.dir, "Makefile"))
			require.NoError(t, err)
			assert.Contains(t, string(makefile), "\n"+target+":")
			continue
		}
		lines = append(lines, line)
	}
	out, err := r.shell(t, r.dir, strings.Join(lines, ""))
	require.NoError(t, err, out)
}

// TestReadmeServe runs the section on serving against a daemon, without the lines that need curl. Profile test takes
// a free port.
func TestReadmeServe(t *testing.T) {
	serveAsShown(t, "test", func(line string) bool { return !strings.HasPrefix(line, "curl ") })
}

// serveAsShown starts the daemon and runs the lines of the README that ask it.
func serveAsShown(t *testing.T, profile string, wanted func(line string) bool) {
	r := newReader(t)
	var lines []string
	for _, f := range fencesOf(t, "../README.md") {
		if f.language == "sh" && strings.Contains(f.text, "bin/ferment admin drain") {
			for line := range strings.Lines(f.text) {
				if wanted(line) {
					lines = append(lines, line)
				}
			}
		}
	}
	require.NotEmpty(t, lines)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	daemon := exec.CommandContext(ctx, "bin/ferment", "serve")
	daemon.Dir = r.dir
	daemon.Env = []string{"HOME=" + r.dir, "PATH=" + os.Getenv("PATH"), "FERMENT_PROFILE=" + profile}
	log, err := daemon.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, daemon.Start())
	ready := make(chan struct{})
	announce := sync.OnceFunc(func() { close(ready) })
	var said bytes.Buffer
	over := make(chan struct{})
	go func() {
		defer close(over)
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			said.Write(append(scanner.Bytes(), '\n'))
			if strings.Contains(scanner.Text(), `"@message":"ready"`) {
				announce()
			}
		}
	}()
	select {
	case <-ready:
	case <-over:
		t.Fatalf("the daemon does not get ready:\n%s", said.String())
	}
	out, err := r.shell(t, r.dir, "export FERMENT_PROFILE="+profile+"\n"+strings.Join(lines, ""))
	assert.NoError(t, err, out)
	if err != nil {
		cancel()
	}
	<-over // the last line has it end
	assert.NoError(t, daemon.Wait(), said.String())
}

// console runs each line after a $ and compares what it prints with what follows.
func (r *reader) console(t *testing.T, f fence) {
	for _, part := range strings.Split("\n"+f.text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		out, err := r.shell(t, r.dir, command)
		require.NoError(t, err, "%s\n%s", command, out)
		assert.Equal(t, strings.TrimRight(want, "\n"), strings.TrimRight(out, "\n"), command)
	}
}

var fileName = regexp.MustCompile(`^(?:#|;) ([\w.-]+)\n`)

// configuration validates a sample with the programs that it names.
func (r *reader) configuration(t *testing.T, f fence) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(r.dir, "bin"), filepath.Join(dir, "bin")))
	for _, program := range []string{"greeter"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), nil, 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "models"), 0o755))
	for _, other := range fencesOf(t, f.document) { // files that it needs are shown beside it
		if m := fileName.FindStringSubmatch(other.text); m != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(other.text), 0o644))
		}
	}
	path := filepath.Join(dir, "ferment.hcl")
	require.NoError(t, os.WriteFile(path, []byte(f.text), 0o644))
	assert.Equal(t, f.text, string(view.Format(path, []byte(f.text)).After))
	if strings.HasPrefix(f.text, "# ferment.hcl\n") {
		out, err := r.shell(t, dir, `bin/ferment validate --describe; bin/ferment act text/respond '{:prompt "hi"}'`)
		require.NoError(t, err, out)
		assert.Contains(t, out, "You said: hi")
		return
	}
	_, diagnostics := config.Load(t.Context(), path, config.Options{Profile: language.ProfileDev})
	for _, d := range diagnostics {
		certificate := d.Type == "config/missing" && strings.Contains(d.Text(), `file "tls/`)
		if d.Type != "config/secret-missing" && !certificate { // these are the reader's
			assert.NotEqual(t, diag.SeverityError, d.Severity, "%s", d.Text())
		}
	}
}

// value reads a sample and holds it against what it is.
func (r *reader) value(t *testing.T, f fence) {
	v, err := edn.Read([]byte(f.text))
	require.NoError(t, err)
	switch {
	case v.HasKey("nodes"):
		path := filepath.Join(t.TempDir(), "plan.edn")
		require.NoError(t, os.WriteFile(path, []byte(f.text), 0o644))
		out, err := r.shell(t, r.dir, "bin/ferment check "+path+"; bin/ferment run "+path)
		require.NoError(t, err, out)
	case v.HasKey("plugin/name"):
		_, err := contract.ParseDescription(v)
		require.Nil(t, err)
	}
}

func (r *reader) json(t *testing.T, f fence) {
	assert.True(t, json.Valid([]byte(f.text)), f.text)
}

// program compiles a sample in the module, where its imports are known. A test is compiled as one.
func (r *reader) program(t *testing.T, f fence) {
	name := "main.go"
	if strings.Contains(f.text, `"testing"`) {
		name = "main_test.go"
	}
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(f.text), 0o644))
	args := []string{"build", "-o", filepath.Join(dir, "greeter"), path}
	if name == "main_test.go" {
		args = []string{"vet", path}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if name == "main_test.go" {
		return
	}
	for _, other := range fencesOf(t, f.document) { // the block that names the program
		if other.language == "hcl" && strings.Contains(other.text, `command = ["greeter"]`) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte(other.text), 0o644))
			asked, err := r.shell(t, dir, r.dir+`/bin/ferment --profile dev act demo/greet '{:name "Ann"}'`)
			require.NoError(t, err, asked)
			assert.Contains(t, asked, "Hello, Ann!")
			return
		}
	}
	t.Fatal("no configuration names the program")
}

// Files that the README names are there.
func TestReadmeNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`\b(?:examples|host|plugins|sdk)/[\w./-]+`).FindAllString(string(text), -1) {
		_, err := os.Stat(filepath.Join("..", strings.TrimRight(name, "./")))
		assert.NoError(t, err)
	}
}

// What the acts of the README answer on a machine with nothing in its environment.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	want := map[string]string{
		"chess/best-move":   `:mate 1 :move "d1d8"`,
		"sat/solve":         `{:model [-1 2] :status :sat}`,
		"context/summarize": "Bees dance in the dark of the hive.\n",
		"text/render":       "Hello, world\n",
		"route/classify":    ":intent :context/summarize\n",
		"eval/grade":        ":score 0.75M\n",
	}
	seen := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^bin/ferment act (\S+) .*$`).FindAllStringSubmatch(string(text), -1) {
		if want[line[1]] == "" {
			continue // TestDocuments runs it
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line[0])
		cmd.Dir, cmd.Env = "..", []string{"HOME=" + t.TempDir(), "PATH="}
		cmd.Path = "/bin/sh"
		out, err := cmd.Output()
		require.NoError(t, err, line[0])
		assert.Contains(t, string(out), want[line[1]], line[0])
		seen[line[1]] = true
	}
	assert.Len(t, seen, len(want))
}
