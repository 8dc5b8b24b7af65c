package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// site returns a world whose configuration is a directory with two profiles.
func site(t testing.TB) *world {
	w := unlocked(t, "mine/say")
	require.Equal(t, 0, w.run("plugin", "lock").code)
	return w
}

// unlocked is site before its programs were approved.
func unlocked(t testing.TB, intent string) *world {
	w := newWorld(t,
		"config/ferment.hcl", "ferment {\n  profile = \"dev\"\n}\n\nplugin \"mine\" {\n  command = [\"../bin/plugins/scripted\"]\n\n  config {\n    script = \"mine.edn\"\n  }\n}\n",
		"config/mine.edn", "{:capabilities {:"+intent+" {:intents #{:"+intent+"} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}",
		"config/common/10.hcl", "plugin \"text\" {\n  command = [\"../../bin/plugins/text\"]\n  queue   = tonumber(env(\"QUEUE\", \"5\"))\n}\n",
		"config/local/site.env", "QUEUE=6\n",
		"config/common/test/20.hcl.json", `{"plugin": {"text": {"queue": 7}}}`,
	)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	return w
}

// HCL-005, HCL-012, HCL-013: a directory as configuration, and its profiles.
func TestDirectory(t *testing.T) {
	t.Parallel()
	w := site(t)
	for _, row := range []struct{ args, out string }{
		{"validate", `^ferment.hcl, common/10.hcl ok: 2 plugins`},
		{"validate --config config", `^ferment.hcl, common/10.hcl ok: 2 plugins`},
		{"validate --config config/common/10.hcl --profile dev", `10.hcl ok: 1 plugin \(`},
		{"validate --profile test", `^ferment.hcl, common/10.hcl, common/test/20.hcl.json ok: 2 plugins`},
		{"config show --only plugin.text.queue --profile dev", `(?s)queue = 6\n`},
		{"config show --only plugin.text.queue --profile test --origins", `(?s)queue = 7 # common/test/20.hcl.json:1 \(was tonumber\(env\("QUEUE", "5"\)\) from common/10.hcl:3\)\n`},
		{"config show --only ferment.profile", `profile = "dev"`},
		{"config show --only plugin.text.command --flat", `command = \["../bin/plugins/text"\]`},
		{"config show --inputs", `(?m)^env +QUEUE +[0-9a-f]{64}$`},
		{"plugin list", `(?m)^text .*\n .* block common/10.hcl:1:1$`},
	} {
		got := w.run(strings.Fields(row.args)...)
		assert.Equal(t, 0, got.code, "%s: %s", row.args, got.stderr)
		assert.Regexp(t, row.out, got.stdout, row.args)
	}
	got := w.run("validate", "--profile", "dve")
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stderr, "did you mean dev?")
	got = w.run("validate", "--config", "bin")
	assert.Equal(t, 3, got.code)
	assert.Contains(t, got.stdout, "holds no configuration")
}

// HCL-002: errors name files by a path relative to the working directory.
func TestErrorsElsewhere(t *testing.T) {
	t.Parallel()
	w := site(t)
	w.write("config/local/bad.hcl", "plugin \"text\" {\n  queu = 1\n}\n")
	got := w.run("validate")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, "  --> config/local/bad.hcl:2:3\n")
	assert.NotContains(t, got.stdout, w.dir)
	got = w.run("validate", "--json")
	assert.Contains(t, got.stdout, `"file":"config/local/bad.hcl"`)
}

// HCL-008: diff, its output formats and its exit codes.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := site(t)
	require.NoError(t, os.CopyFS(filepath.Join(w.dir, "old"), os.DirFS(filepath.Join(w.dir, "config"))))
	got := w.run("diff", "--against", "old")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "nothing differs\n", got.stdout)

	w.write("config/local/site.env", "QUEUE=9\n")
	got = w.run("diff", "--against", "old")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Equal(t, "~ plugin \"text\", queue: 6 -> 9  config/common/10.hcl:3:13\n\nplugins: update text; keep mine\n", got.stdout)
	v := w.run("diff", "--against", "old", "--edn").value(t)
	row, _ := v.Key("changes").Nth(0)
	assert.Equal(t, `["plugin" "text" "queue"]`, row.Key("path").String())
	assert.Equal(t, ":update", row.Key("action").String())
	assert.Equal(t, "false", v.Key("restart?").String())

	w.write("config/local/20.hcl", "ferment {\n  data_dir = \"data\"\n}\n\nplugin \"mine\" {\n  enabled = false\n}\n")
	got = w.run("diff", "--against", "old")
	assert.Equal(t, 6, got.code, got.stderr)
	assert.Contains(t, got.stdout, "! ferment, data_dir: \"var\" -> \"local/data\"  (needs a restart of the host)  config/local/20.hcl:2:14\n")
	assert.Contains(t, got.stdout, "plugins: update text; remove mine\n")

	w.write("config/local/20.hcl", "ferment {\n")
	got = w.run("diff", "--against", "old")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "--> config/local/20.hcl")
	assert.Equal(t, 3, w.run("diff", "--against", "absent").code)
}

// HCL-008: config show and config docs for unknown names, and their output
// formats.
func TestConfigVerbs(t *testing.T) {
	t.Parallel()
	w := site(t)
	for _, row := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"config docs plugin.restart", 0, "(?s)^# `plugin.restart`\n.*`backoff`: duration", ""},
		{"config docs limits", 0, "(?m)^- plugin blocks: 256$", ""},
		{"config docs --plugin mine", 0, "`script`: path", ""},
		{"config docs plugin --json", 0, `"path":"plugin.command"`, ""},
		{"config docs plugn", 5, "", `did you mean plugin\?`},
		{"config docs --plugin mien", 5, "", `did you mean mine\?`},
		{"config show --only plugin.txt", 5, "", `did you mean plugin.text\?`},
		{"config show --only plugin.text --edn", 0, `"queue" 6`, ""},
		{"config show --inputs --flat", 2, "", "excludes other flags"},
		{"config", 2, "", "needs a command"},
		{"completion tcsh", 2, "", "bash, zsh, fish"},
	} {
		got := w.run(strings.Fields(row.args)...)
		assert.Equal(t, row.code, got.code, "%s: %s", row.args, got.stderr)
		assert.Regexp(t, row.out, got.stdout, row.args)
		assert.Regexp(t, row.err, got.stderr, row.args)
	}
	flat := w.run("config", "show", "--flat")
	require.Equal(t, 0, flat.code)
	w.write("config/flat.hcl", flat.stdout)
	got := w.run("diff", "--config", "config/flat.hcl", "--against", "config")
	assert.Equal(t, "nothing differs\n", got.stdout, flat.stdout)
	assert.Equal(t, 0, w.run("fmt", "--check", "config/flat.hcl").code)
}

// directive matches the last line of a completion.
var directive = regexp.MustCompile(`^:\d+$`)

// CLI-006: names come from the configuration and from cached descriptions;
// nothing is started, and errors are ignored.
func TestCompletionNames(t *testing.T) {
	t.Parallel()
	w := unlocked(t, "mine/talk")
	offers := func(args ...string) []string {
		got := w.run(append([]string{"__complete"}, args...)...)
		assert.Equal(t, 0, got.code)
		var out []string
		for line := range strings.Lines(got.stdout) {
			if line = strings.TrimSpace(line); len(line) > 0 && !directive.MatchString(line) {
				name, _, _ := strings.Cut(line, "\t")
				out = append(out, name)
			}
		}
		return out
	}
	assert.Equal(t, []string{"mine", "text"}, offers("plugin", "inspect", ""), "names in the files need no description")
	assert.NotContains(t, offers("explain", ""), "mine/talk", "nothing is started to find out")
	require.Equal(t, 0, w.run("plugin", "lock").code)
	// On a busy machine there may be no time to hash the programs.
	require.Eventually(t, func() bool { return slices.Contains(offers("explain", ""), "mine/talk") }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return slices.Equal(offers("act", "mi"), []string{"mine/talk"}) }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return slices.Equal(offers("act", ":mi"), []string{":mine/talk"}) }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		return slices.Equal(offers("explain", "mine/talk", "--capability", "min"), []string{"mine/talk"})
	}, time.Minute, 10*time.Millisecond)
	assert.Equal(t, []string{"runtime/crashed"}, offers("explain", "error", "runtime/cr"))
	assert.Equal(t, []string{"conversation/select", "conversation/send"}, offers("act", "conversation/se"), "intents of the host")
	assert.Equal(t, []string{"dev"}, offers("validate", "--profile", "d"))
	assert.Equal(t, []string{"plugin.restart"}, offers("config", "docs", "plugin.res"))
	assert.Equal(t, []string{"plugin.mine", "plugin.text"}, offers("config", "show", "--only", "plugin."))
	assert.Contains(t, offers("val"), "validate")
	w.write("config/local/bad.hcl", "plugin \"text\" {\n  command = 3\n}\n")
	assert.Contains(t, offers("plugin", "inspect", ""), "mine", "a wrong file does not hide the names of the others")
	assert.Empty(t, offers("plugin", "inspect", "--config", "absent.hcl", ""))
}
