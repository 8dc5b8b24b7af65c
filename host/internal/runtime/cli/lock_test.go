package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const helloInput = `{:template "hello"}`

// lockWorld is a world in which only programs in the lock file run: a program,
// and a script that declares effects.
func lockWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t,
		"ferment.hcl", "plugin \"text\" {\n  command = [\"programs/text\"]\n}\n\n"+scripted("mine"),
		"mine.edn", mine("#{:none}"))
	w.env = append(w.env, "FERMENT_PROFILE=prod")
	w.program("text", "text")
	return w
}

func mine(effects string) string {
	return script(":mine/say", ":mine/say", ":in-schema :req/text :out-schema :res/text :effects "+effects, `{:value {:text "x"}}`)
}

// program copies a shipped program into the world.
func (w *world) program(name, shipped string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(built.plugins, shipped))
	require.NoError(w.t, err)
	path := filepath.Join(w.dir, "programs", name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path+".new", text, 0o755))
	require.NoError(w.t, os.Rename(path+".new", path))
	return path
}

// ranMark is the output of the tampered program if it is started.
const ranMark = "the tampered program ran"

// tamper replaces the program by one that reports when it runs.
func (w *world) tamper(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "programs", name)
	require.NoError(w.t, os.Remove(path))
	require.NoError(w.t, os.WriteFile(path, []byte("#!/bin/sh\necho "+ranMark+" >&2\nexit 7\n"), 0o755))
}

// rebuild replaces the program by one with other bytes and the same behaviour.
func (w *world) rebuild(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "programs", name)
	text, err := os.ReadFile(path)
	require.NoError(w.t, err)
	require.NoError(w.t, os.Remove(path))
	require.NoError(w.t, os.WriteFile(path, append(text, "another build"...), 0o755))
}

func (w *world) lockText() string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "ferment.lock.hcl"))
	require.NoError(w.t, err)
	return string(text)
}

func (w *world) mustLock() {
	w.t.Helper()
	got := w.run("plugin", "lock")
	require.Equal(w.t, 0, got.code, "%s%s", got.stdout, got.stderr)
}

// LOCK-001, HCL-041: the life of an entry, as an operator sees it.
func TestLockLife(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	got := w.run("act", "text/render", helloInput)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `error: there is no lock file "ferment.lock.hcl": nothing says which programs may run (config/lock)`)
	assert.Contains(t, got.stderr, "and 1 more place")
	assert.Contains(t, got.stderr, `"ferment plugin lock" writes it`)

	got = w.run("plugin", "lock", "--check")
	assert.Equal(t, 1, got.code, got.stdout)
	assert.NoFileExists(t, filepath.Join(w.dir, "ferment.lock.hcl"))
	got = w.run("plugin", "lock")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "text 1.0.0: added\n")
	assert.Contains(t, got.stdout, "ferment.lock.hcl written: 2 plugins changed\n")
	first := w.lockText()
	got = w.run("plugin", "lock")
	assert.Equal(t, "ferment.lock.hcl is up to date\n", got.stdout)
	assert.Equal(t, first, w.lockText(), "equal contents are equal bytes")
	assert.Equal(t, 0, w.run("plugin", "lock", "--check").code)
	assert.Equal(t, 0, w.run("fmt", "--check", "ferment.lock.hcl").code, "it is in the layout of fmt")

	got = w.run("act", "text/render", helloInput)
	assert.Equal(t, "hello\n", got.stdout, got.stderr)
	got = w.run("validate", "--strict")
	assert.Equal(t, 0, got.code, "%s", got.stdout)

	// One more plugin, not approved yet.
	w.write("ferment.hcl", "plugin \"text\" {\n  command = [\"programs/text\"]\n}\n\n"+scripted("mine")+"\n"+shipped("sat", "sat"))
	got = w.run("act", "text/render", helloInput)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `error: plugin "sat": it is not in the lock file (config/lock)`)
	assert.Contains(t, got.stderr, `"ferment plugin lock" writes the entry`)
	w.mustLock()
	assert.Equal(t, 0, w.run("act", "text/render", helloInput).code)

	// One plugin less.
	w.write("ferment.hcl", "plugin \"text\" {\n  command = [\"programs/text\"]\n}\n\n"+scripted("mine"))
	got = w.run("plugin", "lock")
	assert.Contains(t, got.stdout, "sat 1.0.0: removed (no plugin block has this name)\n")
	assert.Equal(t, first, w.lockText())
}

// LOCK-001: a program with unapproved bytes is rejected in every profile
// before it runs, with expected, found, path and command.
func TestLockRefusesAChangedProgram(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.mustLock()
	before := w.lockText()
	w.tamper("text")
	for _, profile := range []string{"prod", "dev", "test"} {
		for _, args := range [][]string{{"act", "text/render", helloInput}, {"validate"}, {"validate", "--describe"}, {"check", "plan.edn"}} {
			got := w.run(append(args, "--profile", profile)...)
			said := got.stdout + got.stderr
			assert.Equal(t, 1, got.code, "%s %s\n%s", profile, args, said)
			assert.Contains(t, said, `error: plugin "text": programs/text is not the file that was approved (config/lock)`)
			assert.Regexp(t, `expected: b3:[0-9a-f]{64}\n\s+found: b3:[0-9a-f]{64}`, said)
			assert.Contains(t, said, `if the change is intended, approve it with "ferment plugin lock"`)
			assert.NotContains(t, said, "not checked", "one cause, one problem")
			assert.NotContains(t, said, ranMark, "nobody approved the program, so nothing of it ran")
		}
	}
	got := w.run("plugin", "list", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, ":lock :changed")
	assert.NotContains(t, got.stdout+got.stderr, ranMark)
	got = w.run("plugin", "approve", "mine")
	assert.Equal(t, 0, got.code, "one plugin is approved without a look at the others: %s", got.stderr)
	assert.NotContains(t, got.stdout+got.stderr, ranMark)
	assert.Equal(t, before, w.lockText())

	// The operator approves a change.
	w.program("text", "text")
	w.rebuild("text")
	got = w.run("plugin", "lock")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "text 1.0.0: updated\n  the program: b3:")
	assert.Equal(t, "hello\n", w.run("act", "text/render", helloInput).stdout)
}

// LOCK-004: files of an interpreted program are hashed too.
func TestLockRefusesAChangedFile(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.write("ferment.hcl", "plugin \"text\" {\n  command = [\"programs/text\"]\n  files   = [\"lib/a.py\", \"lib/b.py\"]\n}\n")
	w.write("lib/a.py", "1")
	w.write("lib/b.py", "2")
	w.mustLock()
	assert.Contains(t, w.lockText(), "  file \"lib/b.py\" {\n    hash = \"b3:")
	assert.Equal(t, 0, w.run("act", "text/render", helloInput).code)
	w.write("lib/b.py", "3")
	got := w.run("act", "text/render", helloInput)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `error: plugin "text": lib/b.py is not the file that was approved (config/lock)`)
}

// LOCK-001: an unapproved effect fails closed.
func TestLockRefusesAnAddedEffect(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.write("mine.edn", mine("#{:fs/read}"))
	w.mustLock()
	before := w.lockText()
	w.write("mine.edn", mine("#{:fs/read :net/http}"))
	got := w.run("act", "text/render", helloInput, "--profile", "dev")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `error: plugin "mine": the effects of capability "mine/say" go beyond what was approved (config/lock)`)
	assert.Contains(t, got.stderr, "expected: fs/read\n  found: fs/read, net/http\n")
	assert.Contains(t, got.stderr, `"ferment plugin approve mine" shows the difference and approves it`)

	got = w.run("plugin", "lock")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, "mine 1.0.0: refused\n  the effects of capability \"mine/say\": fs/read -> fs/read, net/http\n")
	assert.Contains(t, got.stdout, "ferment.lock.hcl was not written\n")
	assert.Contains(t, got.stderr, "ferment plugin approve mine")
	assert.Equal(t, before, w.lockText())

	got = w.run("plugin", "approve", "mine")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "fs/read -> fs/read, net/http")
	assert.Equal(t, 0, w.run("act", "text/render", helloInput).code)

	// Fewer effects than approved are allowed, with a note.
	w.write("mine.edn", mine("#{:none}"))
	assert.Equal(t, 0, w.run("act", "text/render", helloInput).code)
	got = w.run("validate")
	assert.Equal(t, 0, got.code, got.stdout)
	assert.Contains(t, got.stdout, `warning: plugin "mine": the lock file has another value for the effects of capability "mine/say"`)
}

// LOCK-001, ENV-019: the same for a need.
func TestLockRefusesAnAddedNeed(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	chess := func(engine string) {
		w.write("ferment.hcl", fmt.Sprintf("plugin \"chess\" {\n  command = [%q]\n\n  config {\n    engine = %q\n%s}\n",
			filepath.Join(built.plugins, "chess"), engine, map[string]string{
				"builtin": "  }\n", "uci": "    path   = \"stockfish\"\n  }\n\n  isolation {\n    exec = [\"/bin\"]\n  }\n",
			}[engine]))
	}
	chess("builtin")
	w.mustLock()
	chess("uci")
	got := w.run("validate")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, `error: plugin "chess": its needs go beyond what was approved (config/lock)`)
	assert.Contains(t, got.stdout, "expected: none\n  found: process/run\n")
	assert.Contains(t, got.stdout, "ferment plugin approve chess")
	assert.Equal(t, 0, w.run("plugin", "approve", "chess").code)
	assert.Contains(t, w.lockText(), `needs    = ["process/run"]`)
	assert.Equal(t, 0, w.run("validate").code)
	chess("builtin")
	assert.Equal(t, 0, w.run("validate").code, "less is fine")
}

// LOCK-002: with readonly only exact matches run, in any profile, and nothing
// is written.
func TestLockReadonly(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	dev := []string{"--profile", "dev", "--lockfile=readonly"}
	got := w.run(append([]string{"act", "text/render", helloInput}, dev...)...)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "there is no lock file")
	assert.NoFileExists(t, filepath.Join(w.dir, "ferment.lock.hcl"))
	w.mustLock()
	before := w.lockText()
	for _, args := range [][]string{{"act", "text/render", helloInput}, {"validate"}} {
		got = w.run(append(args, dev...)...)
		assert.Equal(t, 0, got.code, "%s%s", got.stdout, got.stderr)
	}
	w.write("mine.edn", strings.Replace(mine("#{:none}"), ":intents #{:mine/say}", ":intents #{:mine/say :mine/shout}", 1))
	assert.Equal(t, 0, w.run("act", "text/render", helloInput).code, "one more intent changes nothing that was approved")
	got = w.run(append([]string{"act", "text/render", helloInput}, dev...)...)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `the lock file has another value for the intents of capability "mine/say"`)
	assert.Equal(t, before, w.lockText())
	got = w.run("act", "text/render", helloInput, "--lockfile=loose")
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stderr, "expected readonly")
}

// HCL-037: validate starts only approved programs, unless --describe is set.
func TestValidateStartsWhatIsLocked(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.tamper("text")
	got := w.run("validate", "--profile", "dev")
	assert.Equal(t, 0, got.code, got.stdout)
	assert.Equal(t, 1, strings.Count(got.stdout, "warning: "), "one cause, one warning: %s", got.stdout)
	assert.Contains(t, got.stdout, "--describe")
	assert.NotContains(t, got.stdout, ranMark)
	w.write("ferment.lock.hcl", "lock {\n  format = 1\n}\n")
	got = w.run("validate", "--profile", "dev")
	assert.NotContains(t, got.stdout, "is not checked")
	assert.Contains(t, got.stdout, "--describe")
	assert.NotContains(t, got.stdout, ranMark)
	got = w.run("validate", "--profile", "dev", "--describe")
	assert.Equal(t, 1, got.code, got.stdout)
	assert.NotContains(t, got.stdout, "is not checked")
	assert.Contains(t, got.stdout, ranMark)
}

// HCL-041: hashes of other platforms are added without starting anything, and
// kept while the version is the same.
func TestLockPlatform(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.mustLock()
	w.write("dist/text.exe", "for another machine")
	got := w.run("plugin", "lock", "--platform=windows/amd64", "dist/text.exe", "mine=dist/text.exe")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "text 1.0.0: updated (windows/amd64 b3:")
	assert.Contains(t, got.stdout, "mine 1.0.0: updated (windows/amd64 b3:")
	assert.Equal(t, 2, strings.Count(w.lockText(), `binary "windows/amd64"`))
	both := w.lockText()
	w.mustLock()
	assert.Equal(t, both, w.lockText())
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--platform=windows dist/text.exe":         {2, "is not a platform"},
		"--platform=windows/amd64":                 {2, "needs the program"},
		"--platform=windows/amd64 dist/other":      {3, "no such file"},
		"--platform=windows/amd64 mine.edn":        {5, "no plugin of the configuration runs"},
		"--platform=a/b --check dist/text.exe":     {2, "exclude"},
		"dist/text.exe":                            {2, "only with --platform"},
		"--platform=windows/amd64 x=dist/text.exe": {5, "no plugin of the configuration runs"},
	} {
		got := w.run(append([]string{"plugin", "lock"}, strings.Fields(args)...)...)
		assert.Equal(t, want.code, got.code, "%s: %s", args, got.stderr)
		assert.Contains(t, got.stderr, want.says, args)
		assert.Equal(t, both, w.lockText())
	}
}

func TestApproveNames(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	got := w.run("plugin", "approve", "txt")
	assert.Equal(t, 5, got.code)
	assert.Contains(t, got.stderr, "did you mean text?")
	got = w.run("plugin", "approve")
	assert.Equal(t, 2, got.code)
	got = w.run("plugin", "approve", "text")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.NotContains(t, w.lockText(), `plugin "mine"`)
}

// LOCK-002: a daemon with a readonly lock file approves nothing.
func TestReadonlyDaemonApprovesNothing(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.rewrite("ferment.hcl", "plugin \"text\"", "http {\n  listen = [\"127.0.0.1:0\"]\n}\n\nplugin \"text\"")
	w.mustLock()
	s := w.serve("--lockfile=readonly")
	before := w.lockText()
	w.write("mine.edn", mine("#{:fs/read}"))
	got := w.run("plugin", "approve", "mine")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "--lockfile=readonly")
	assert.Equal(t, before, w.lockText())
	got = w.run("plugin", "approve", "mine", "--local")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.NotEqual(t, before, w.lockText())
	s.stop()
}

// HCL-010: a full disk leaves the old file, with exit 3. The limit on file
// sizes stands in for the disk: the kernel rejects the write in the same
// place.
func TestLockOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.mustLock()
	before := w.lockText()
	var intents strings.Builder
	for i := range 400 {
		fmt.Fprintf(&intents, " :mine/one-of-a-great-many-intents-%d", i)
	}
	w.write("mine.edn", strings.Replace(mine("#{:none}"), ":intents #{:mine/say}", ":intents #{:mine/say"+intents.String()+"}", 1))
	w.env = append(w.env, "HOME=/nonexistent")
	got := w.shell("ulimit -f 16; ferment plugin lock")
	assert.Equal(t, 3, got.code, "%s%s", got.stdout, got.stderr)
	assert.Contains(t, got.stderr, "write the lock file")
	assert.Equal(t, before, w.lockText())
	left, err := filepath.Glob(filepath.Join(w.dir, ".ferment*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// LOCK-002: the list shows the four versions.
func TestListShowsVersions(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.write("ferment.hcl", "plugin \"text\" {\n  command = [\"programs/text\"]\n  version = \">= 1.0, < 2\"\n}\n\n"+scripted("mine"))
	w.mustLock()
	w.write("ferment.lock.hcl", strings.Replace(w.lockText(), `"1.0.0"`, `"0.9.0"`, 1))
	got := w.run("plugin", "list")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Regexp(t, `(?m)^plugin +configured +locked +installed +running +condition`, got.stdout)
	assert.Regexp(t, `(?m)^mine +- +0.9.0 +1.0.0 +- +required`, got.stdout)
	assert.Regexp(t, `(?m)^text +>= 1.0, < 2 +1.0.0 +1.0.0 +- +required`, got.stdout)
}

// LOCK-003: a program is installed, configured, approved and run.
func TestInstallLife(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	program := w.program("text-new", "text")
	got := w.run("plugin", "install", "programs/text-new")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Regexp(t, `^text 1\.0\.0 installed: b3:[0-9a-f]{64}\n  command = \["store:text@1\.0\.0"\]\n$`, got.stdout)
	assert.Contains(t, w.run("plugin", "install", "programs/text-new").stdout, "was already installed")
	w.unseal()

	w.write("ferment.hcl", "plugin \"text\" {\n  command = [\"store:text@1.0.0\"]\n}\n")
	got = w.run("act", "text/render", helloInput)
	assert.Equal(t, 1, got.code, "installed is not approved")
	assert.Contains(t, got.stderr, "ferment plugin lock")
	w.mustLock()
	require.NoError(t, os.Remove(program))
	got = w.run("act", "text/render", helloInput)
	assert.Equal(t, "hello\n", got.stdout, got.stderr)
	got = w.run("plugin", "install", "programs/text", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, ":known? true", "the same bytes from elsewhere are the same program")

	for reference, says := range map[string]string{
		"store:text@9.0.0": "installed versions: 1.0.0",
		"store:nobody@1":   "ferment plugin install",
		"store:text":       "expected store:NAME@VERSION",
	} {
		w.write("ferment.hcl", fmt.Sprintf("plugin \"text\" {\n  command = [%q]\n}\n", reference))
		got = w.run("validate")
		assert.Equal(t, 1, got.code, reference)
		assert.Contains(t, unwrapped(got.stdout), says)
	}
	w.write("bad.tar.gz", "\x1f\x8bgarbage")
	got = w.run("plugin", "install", "bad.tar.gz")
	assert.Equal(t, 2, got.code, got.stderr)
	assert.Contains(t, got.stderr, "damaged")
	assert.Equal(t, 3, w.run("plugin", "install", "absent").code)
	w.write("note.txt", "no program")
	got = w.run("plugin", "install", "note.txt")
	assert.Equal(t, 2, got.code, got.stderr)
	assert.Contains(t, got.stderr, "note.txt is not a program that this system can start")
	assert.Equal(t, 0, w.run("plugin", "install", "note.txt", "--name", "note", "--version", "1").code, "nothing is asked of what has a name")

	// Without a configuration it is installed in the user's store.
	other := newWorld(t)
	other.env = append(other.env, "XDG_DATA_HOME="+filepath.Join(other.dir, "share"))
	other.program("text", "text")
	other.unseal()
	require.Equal(t, 0, other.run("plugin", "install", "programs/text").code)
	assert.DirExists(t, filepath.Join(other.dir, "share", "ferment", "plugins", "store", "b3"))
}

// unseal allows the removal of the directory of the world: installed files are
// read-only.
func (w *world) unseal() {
	w.t.Cleanup(func() {
		_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}
