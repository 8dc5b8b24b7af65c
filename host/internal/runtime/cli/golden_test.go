package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldens are outputs for operators and programs, file by file.
var goldens = []struct {
	name, args string
	exit       int
}{
	{"diff.txt", "diff --against old", 6},
	{"diff.json", "diff --against old --json", 6},
	{"diff.edn", "diff --against old --edn", 6},
	{"explain.txt", "explain t/say", 0},
	{"explain.json", "explain t/say --json", 0},
	{"explain.edn", "explain t/say --edn", 0},
	{"docs.txt", "config docs plugin.restart", 0},
	{"docs-plugin.txt", "config docs --plugin mine", 0},
	{"lock.txt", "plugin lock", 0},
}

var hash = regexp.MustCompile(`b3:[0-9a-f]{8,64}`)

// HCL-044: the output of diff, explain and docs, and the lock file, byte for
// byte except the hashes of built programs. Repeating a command gives the same
// output (HCL-038).
func TestGoldenOutput(t *testing.T) {
	t.Parallel()
	const capabilities = `{:capabilities
 {:t/plain {:kind :solver :intents #{:t/say} :in-schema :req/text :out-schema :res/text :tags #{:quick} :steps [{:value {:text "x"}}]}
  :t/careful {:kind :solver :intents #{:t/say} :in-schema :req/text :out-schema :res/text :repairs? true :steps [{:value {:text "x"}}]}}}`
	config := func(depth, queue, more string) string {
		return "ferment {\n  max_depth = " + depth + "\n" + more + "}\n\ncheck \"short\" {\n  condition = length(try(result.text, \"\")) <= 1200\n  message   = \"keep it below 1200 characters\"\n}\n\n" +
			"dispatch \"default\" {\n  switch_on = [\"eval/must-failed\", \"runtime/crashed\"]\n\n  retry { fallback = 1 }\n  repair { max = 1 }\n}\n\n" +
			"intent \"t/say\" {\n  in         = \"req/text\"\n  out        = \"res/text\"\n  candidates = [\"t/careful\", \"t/plain\"]\n  deadline   = \"20s\"\n\n  done { must = [\"schema-valid\", \"short\"] }\n}\n\n" +
			"plugin \"mine\" {\n  command = [\"bin/plugins/scripted\"]\n  queue   = " + queue + "\n\n  config {\n    script = \"mine.edn\"\n  }\n}\n"
	}
	w := newWorld(t, "ferment.hcl", config("4", "6", "")+"\nplugin \"text\" {\n  command = [\"bin/plugins/text\"]\n}\n", "mine.edn", capabilities,
		"old/ferment.hcl", config("3", "5", "  gogc = 200\n"), "old/mine.edn", capabilities)
	for _, bin := range []string{"bin", "old/bin"} {
		require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, bin)))
	}
	check := func(name, text string) {
		path := filepath.Join("testdata", "golden", name)
		text = strings.ReplaceAll(hash.ReplaceAllString(text, "b3:HASH"), runtime.GOOS+"/"+runtime.GOARCH, "linux/amd64")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), text, name)
		assert.NotContains(t, text, w.dir, "no absolute path")
	}
	for _, g := range goldens {
		got := w.run(strings.Fields(g.args)...)
		assert.Equal(t, g.exit, got.code, "%s\n%s", g.args, got.stderr)
		check(g.name, got.stdout)
		if g.name != "lock.txt" { // the second lock changes nothing
			assert.Equal(t, got.stdout, w.run(strings.Fields(g.args)...).stdout, g.args)
		}
	}
	check("lock.hcl", w.lockText())
}
