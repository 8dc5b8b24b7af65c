package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// newcomer returns an empty world without a profile in the environment.
func newcomer(t *testing.T) *world {
	w := newWorld(t)
	w.env = slices.DeleteFunc(w.env, func(v string) bool { return strings.HasPrefix(v, "FERMENT_PROFILE=") })
	return w
}

// TestInit: a new project works with every command that init names.
func TestInit(t *testing.T) {
	t.Parallel()
	w := newcomer(t)
	made := w.run("init", "hello", "-o", "edn")
	require.Equal(t, 0, made.code, made.stderr)
	var files []string
	for f := range made.value(t).Key("files").Elems() {
		name, _ := f.AsString()
		assert.FileExists(t, filepath.Join(w.dir, "hello", name))
		files = append(files, name)
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, "hello"))
	require.NoError(t, err)
	assert.Len(t, entries, len(files), "nothing else was written")

	const greeting = "Hello! You said: good morning"
	w.dir = filepath.Join(w.dir, "hello")
	for _, args := range []string{"check hello.edn", "validate --strict", "fmt --check", "plugin lock --check"} {
		got := w.run(strings.Fields(args)...)
		assert.Equal(t, 0, got.code, "%s: %s%s", args, got.stdout, got.stderr)
	}
	assert.Equal(t, greeting, saidBy(t, w.run("run", "hello.edn", "-o", "edn")))
	asked := []string{"act", "text/respond", `{:prompt "good morning"}`, "-o", "edn"}
	assert.Equal(t, greeting, saidBy(t, w.run(asked...)))

	s := w.serve("--profile", "test") // its listener uses a free port
	assert.Equal(t, greeting, saidBy(t, w.run(asked...)))
	s.stop()
}

// TestChangeDirectory: a shell that gets the first command that init, and plugin new, prints is in the
// new directory, whatever its name is.
func TestChangeDirectory(t *testing.T) {
	t.Parallel()
	w := newcomer(t)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "p/mit leer"), 0o755))
	for _, name := range []string{"mit leer/ünï", "it's $HOME", "-dash"} {
		for _, args := range [][]string{
			{"init", "--", name},
			{"plugin", "new", "mine", "--kind", "judge", "--lang", "python", "--interpreter", built.ferment, "--dir", "./p/" + name},
		} {
			got := w.run(args...)
			require.Equal(t, 0, got.code, got.stderr)
			_, step, found := strings.Cut(got.stdout, "\n  cd ")
			require.True(t, found, got.stdout)
			step, _, _ = strings.Cut(step, "\n")
			sh := exec.Command("sh", "-c", "cd "+step+" && pwd -P")
			sh.Dir = w.dir
			out, err := sh.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.True(t, strings.HasSuffix(strings.TrimSpace(string(out)), "/"+name), "%s", out)
		}
	}
}

// OPS-002: a directory that a command creates on the way to its file can be the data directory.
func TestNewDirectoryIsADataDirectory(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"project":   {"init", "var/hello"},
		"lock file": {"plugin", "lock", "--config", "locked.hcl"},
		"manual":    {"manual", "--dir", "var/man/man1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := answering(t)
			w.write("locked.hcl", strings.Replace(testProfile, "profile = \"test\"",
				"profile = \"test\"\n  lock_file = \"var/ferment.lock.hcl\"", 1))
			require.NoDirExists(t, filepath.Join(w.dir, "var"))
			made := w.run(args...)
			require.Equal(t, 0, made.code, made.stderr)
			require.DirExists(t, filepath.Join(w.dir, "var"))
			w.serve().stop()
		})
	}
}

// saidBy returns the text of an answer.
func saidBy(t *testing.T, got ended) string {
	t.Helper()
	require.Equal(t, 0, got.code, got.stderr)
	out := got.value(t).Key("result").Key("out")
	if out.IsMap() {
		out = out.Key("text")
	}
	text, ok := out.AsString()
	require.True(t, ok, got.stdout)
	return text
}

// TestInitOverwritesNothing: an empty directory is accepted, one with a file
// of a project is not.
func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	w := newcomer(t)
	w.write("notes.txt", "mine")
	w.write("taken/hello.edn", "mine")
	got := w.run("init", "taken", "-o", "edn")
	assert.Equal(t, 6, got.code)
	problem, err := edn.ReadString(got.stderr)
	require.NoError(t, err)
	assert.Equal(t, "admin/conflict", word(problem.Key("error").Key("type")))
	entries, err := os.ReadDir(filepath.Join(w.dir, "taken"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	got = w.run("init", "--plugins", w.dir)
	assert.Equal(t, 5, got.code, got.stderr)
	assert.NoFileExists(t, filepath.Join(w.dir, "ferment.hcl"))

	got = w.run("init")
	require.Equal(t, 0, got.code, got.stderr)
	assert.NotContains(t, got.stdout, "cd ")
	assert.Equal(t, 0, w.run("check", "hello.edn").code)
	mine, err := os.ReadFile(filepath.Join(w.dir, "notes.txt"))
	require.NoError(t, err)
	assert.Equal(t, "mine", string(mine))
}
