package cli_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// shop is a small world with something for every command.
func shop(t testing.TB) *world {
	w := newWorld(t)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	broken, err := os.ReadFile(filepath.Join("testdata", "broken.hcl"))
	require.NoError(t, err)
	python := filepath.Join("scaffold", "templates", "python", "ferment")
	require.NoError(t, os.CopyFS(filepath.Join(w.dir, "python", "ferment"), os.DirFS(python)))
	w.write("python/ferment/plugin.proto", wire.PluginProto())
	w.write("python/ferment/goplugin.proto", wire.GoPluginProto())
	for name, text := range map[string]string{
		"broken.hcl":  string(broken),
		"syntax.hcl":  "plugin \"text\" {\n  command = [\n",
		"missing.hcl": "plugin \"text\" {\n  command = [\"bin/plugins/absent\"]\n}\n",
		"ugly.hcl":    "plugin \"text\" {\ncommand=[\"bin/plugins/text\"]\n}\n",
		"ferment.hcl": `plugin "text" {
  command = ["bin/plugins/text"]
}

plugin "mine" {
  command = ["bin/plugins/scripted"]

  config {
    script = "mine.edn"
  }
}

check "never" {
  condition = false
  message   = "never good enough"
}

intent "mine/hang" {
  in  = "req/any"
  out = "res/any"
}

intent "mine/refuse" {
  in  = "req/any"
  out = "res/any"
}

intent "mine/strict" {
  in  = "req/any"
  out = "res/any"

  done { must = ["never"] }
}

intent "mine/data" {
  in  = "req/any"
  out = "res/any"
}
`,
		"mine.edn": `{:capabilities
 {:mine/hang {:intents #{:mine/hang} :in-schema :req/any :out-schema :res/any :steps [{:hang true}]}
  :mine/refuse {:intents #{:mine/refuse} :in-schema :req/any :out-schema :res/any :steps [{:error {:type :policy/blocked}}]}
  :mine/strict {:intents #{:mine/strict} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}
  :mine/data {:intents #{:mine/data} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1 :list [1 2.5 3M #{:a}]}}]}}}`,
		"hello.edn":     "{:bindings {:name \"world\"}\n :nodes [{:op :call :intent :text/render :input {:template \"Hello, {{name}}!\" :data {:name {:slot/id :name}}} :as :x}\n         {:op :emit :input :x}]}\n",
		"data.edn":      "{:nodes [{:op :call :intent :mine/data :as :x} {:op :emit :input :x}]}\n",
		"hang.edn":      "{:nodes [{:op :call :intent :mine/hang :as :x} {:op :emit :input :x}]}\n",
		"refused.edn":   "{:nodes [{:op :call :intent :mine/refuse :as :x} {:op :emit :input :x}]}\n",
		"strict.edn":    "{:nodes [{:op :call :intent :mine/strict :as :x} {:op :emit :input :x}]}\n",
		"wrong.edn":     "{:nodes [{:op :call :intent :text/rendr :input {} :as :x}\n         {:op :emmit :input :x}]}\n",
		"needs.edn":     "{:nodes [{:op :emit :input {:slot/id :a}}]}\n",
		"cycle.edn":     "{:nodes [{:op :let :id \"p\" :value 1 :needs [\"q\"]} {:op :let :id \"q\" :value 2 :needs [\"p\"]}]}\n",
		"cut.edn":       "{:nodes [{:op :emit\n",
		"request.edn":   "{:proto 1 :trace {:id \"r\"} :task {:intent :text/render} :input {:template \"{{a}}\" :data {:a 1}}}\n",
		"request.json":  "{\"proto\":1,\"trace\":{\"id\":\"r\"},\"task\":{\"intent\":\"text/render\"},\"input\":{\"template\":\"{{a}}\",\"data\":{\"a\":5}}}\n",
		"input.json":    "{\"template\":\"{{a}}\",\"data\":{\"a\":6}}\n",
		"unknown.edn":   "{:proto 1 :trace {:id \"r\"} :task {:intent :text/render} :inputt {}}\n",
		"input.edn":     "{:template \"{{a}}\" :data {:a 7}}\n",
		"directory/.on": "",

		"former/wire.py":       "",
		"former/plugin_pb2.py": "",

		"site/ferment.hcl.json":     "{\"ferment\":{\"seed\":1}}",
		"site/common/1.hcl":         "ferment {\n  max_depth = 3\n}\n",
		"site/local/dev/1.hcl":      "ferment{\nmax_nodes=3\n}\n",
		"site/local/dev/README.txt": "",
	} {
		w.write(name, text)
	}
	return w
}

// verbs are calls of every command, with exit code and text output (CLI-001,
// CLI-002, CLI-008, HCL-008). Codes that need a daemon or a signal are tested
// elsewhere: 6 in reload_test and config_test, 130 in orphan_test; package
// contract tests all of them by error type.
var verbs = []struct {
	args     string
	stdin    string
	exit     int
	out, err string // regular expressions for the streams as text; "" is an empty stream
}{
	{args: "run hello.edn", out: `^Hello, world!\n$`},
	{args: `run hello.edn --bind name="Ada"`, out: `^Hello, Ada!\n$`},
	{args: `run hello.edn --bind :name="Ada" --bind name="Bob"`, out: `^Hello, Bob!\n$`},
	{args: "run -", stdin: "{:nodes [{:op :emit :input {:n 1}}]}", out: `^\{:n 1\}\n$`},
	{args: "run data.edn", out: `^\{:list \[1 2.5 3M #\{:a\}\] :n 1\}\n$`},
	{args: "run hello.edn --transcript", out: `^Hello, world!\n$`, err: `(?s)^\[\{:input\s.*:out \{:text "Hello, world!"\}.*\}\]\n$`},
	{args: "run hello.edn --debug-plan", out: `^Hello, world!\n$`, err: `:nodes`},
	{args: "run hello.edn --progress none --deadline 20s", out: `^Hello, world!\n$`},
	{args: "run refused.edn", exit: 4, err: `^error: .*\n  type    :policy/blocked\n`},
	{args: "run strict.edn", exit: 1, err: `^error: .*never good enough\n  type    :eval/must-failed\n`},
	{args: "run wrong.edn", exit: 1, err: `(?s)^error: .*\(CHECK-011\)\n  --> wrong\.edn:1:29\n.*:text/render.*\(CHECK-010\)\n  --> wrong\.edn:2:15\n.*:emit`},
	{args: "run cut.edn", exit: 1, err: `^error: .* \(edn/invalid\)\n  --> cut.edn:2:1\n`},
	{args: "run hang.edn --deadline 150ms", exit: 7, err: `^error: .*\n  type    :queue/deadline-exceeded\n`},
	{args: "run absent.edn", exit: 3, err: `^error: read absent.edn: no such file or directory\n`},
	{args: "run directory", exit: 3, err: `^error: read directory: is a directory\n`},
	{args: "run hello.edn/x", exit: 3, err: `^error: read hello.edn/x: not a directory\n`},
	{args: "run hello.edn --config absent.hcl", exit: 3, err: `(?s)^error: file "absent.hcl" cannot be read: no such file or directory \(config/include\)\n`},
	{args: "run hello.edn --config missing.hcl", exit: 1, err: `(?s)^error: plugin "text": bin/plugins/absent cannot be used: no such file.*--> missing.hcl:2:14\n`},
	{args: "run hello.edn --config broken.hcl", exit: 1, err: `(?s)^error: unknown attribute "data_dirr".*10 errors`},
	{args: "run", exit: 2, err: `^error: expected ferment run PLAN.edn, got 0 arguments\n.*\n  hint    "ferment run --help"`},
	{args: "run a.edn b.edn", exit: 2, err: `^error: expected ferment .*, got \d arguments?`},
	{args: "run hello.edn --bind name", exit: 2, err: `^error: --bind name: expected NAME=EDN\n`},
	{args: "run hello.edn --bind name={", exit: 2, err: `^--bind name:1:2: error: text ends`},
	{args: "run hello.edn --progress loud", exit: 2, err: `^error: --progress loud: expected auto, none, text, json or edn\n`},
	{args: "run hello.edn --deadline 0s", exit: 2, err: `^error: --deadline 0s: expected a time above zero`},
	{args: "run hello.edn --deadline soon", exit: 2, err: `^error: --deadline soon: expected a time with a unit`},

	{args: `act text/render {:template "x"}`, out: `^x\n$`},
	{args: `act :text/render {:template "x"}`, out: `^x\n$`},
	{args: "act text/render --input-file input.edn", out: `^7\n$`},
	{args: "act text/render --input-file input.json", out: `^6\n$`},
	{args: `act text/render {:data {:a 8}} --input-file input.edn --bind data={:a 9}`, out: `^9\n$`},
	{args: "act request.edn", out: `^1\n$`},
	{args: "act request.json", out: `^5\n$`},
	{args: "act request.edn --bind data={:a 2}", out: `^2\n$`},
	{args: "act -", stdin: `{:proto 1 :trace {:id "r"} :task {:intent :mine/data} :input {}}`, out: `^\{:list`},
	{args: "act unknown.edn", exit: 2, err: `(?s)^error: .*:shape/(unknown|missing)-key`},
	{args: "act text/render {:template", exit: 2, err: `^INPUT:1:11: error: text ends inside the map opened at 1:1\n   1 \| \{:template\n`},
	{args: "act text/render [1]", exit: 2, err: `^error: the input of an act is a map`},
	{args: "act text/render {:template 7}", exit: 2, err: `(?s)^error: .*:template.*:input/schema-invalid`},
	{args: "act text/rendr {}", exit: 2, err: `(?s)^error: .*:intent/not-supported`},
	{args: "act render {}", exit: 2, err: `^error: "render" is not an intent`},
	{args: "act text/render --deadline 1ns", exit: 2, err: `^error: --deadline 1ns: expected a time with a unit of ms, s`},
	{args: "act text/render --deadline 5", exit: 2, err: `^error: --deadline 5: expected a time with a unit of ms, s, m, h or d and without a sign, such as 30s`},
	{args: "check checkd.end", exit: 3, err: `^error: read checkd.end: no such file or directory`},
	{args: "explain timeout/hard", exit: 5, err: `explain error timeout/hard`},
	{args: "act", exit: 2, err: `^error: expected ferment .*, got 0 arguments`},
	{args: "act absent", exit: 3, err: `^error: read absent: no such file or directory\n`},
	{args: "act mine/refuse {}", exit: 4, err: `:policy/blocked`},
	{args: "act mine/strict {}", exit: 1, err: `:eval/must-failed`},
	{args: "act mine/hang {} --deadline 150ms", exit: 7, err: `:queue/deadline-exceeded`},

	{args: "check hello.edn data.edn", out: `^hello.edn: ok, 2 nodes; at most roundtrips 1, attempts 1\ndata.edn: ok, 2 nodes; at most roundtrips 1, attempts 1, usd unknown\n$`},
	{args: "check -", stdin: "{:nodes [{:op :emit :input 1}]}", out: `^standard input: ok, 1 node\n$`},
	{args: "check wrong.edn hello.edn", exit: 1, out: `(?s)^error: unknown intent :text/rendr .* \(CHECK-011\)\n  --> wrong.edn:1:29\n +1 \| .*\^\n  next: did you mean :text/render\?\n\nerror: unknown op :emmit .*did you mean :emit\?\n\nhello.edn: ok, 2 nodes; at most [^\n]*\n$`},
	{args: "check cut.edn", exit: 1, out: `^error: .* \(edn/invalid\)\n  --> cut.edn:2:1\n`},
	{args: "check absent.edn", exit: 3, err: `^error: read absent.edn`},
	{args: "check", exit: 2, err: `^error: expected ferment check PLAN.edn ..., got 0 arguments`},
	{args: "check hello.edn --config syntax.hcl", exit: 1, err: `(?s)^error: missing expression.*--> syntax.hcl:3:1`},

	{args: "check needs.edn", exit: 1, out: `^error: slot :a is filled by no node.*\(CHECK-017\)\n  --> needs.edn:1:28\n`},
	{args: "check needs.edn --bind a=1", out: `^needs.edn: ok, 1 node.*\n$`},

	{args: "graph hello.edn", out: `(?s)^flowchart TB\n  n0\["n0  call :text/render<br/>1. text/template<br/>must schema-valid<br/>as :x"\]\n.*  n0 --> n1\n$`},
	{args: "graph hello.edn --as dot", out: `^digraph "`},
	{args: "graph - --as svg", stdin: "{:nodes [{:op :emit :input 1}]}", out: `^<svg `},
	{args: "graph hello.edn --file drawn.svg", out: ``},
	{args: "graph hello.edn --file absent/drawn.svg", exit: 3, err: `^error: write absent/drawn.svg: no such file or directory\n`},
	{args: "graph hello.edn --file drawn.png", exit: 2, err: `^error: drawn.png has no known extension: expected .mmd, .dot or .svg, or set --as\n`},
	{args: "graph hello.edn --as svgg", exit: 2, err: `^error: unknown drawing format "svgg": expected one of mermaid, dot, svg; did you mean svg\?\n`},
	{args: "graph wrong.edn", exit: 1, out: `^flowchart TB\n`, err: `(?s)^error: .*\(CHECK-011\)\n  --> wrong\.edn:1:29\n.*CHECK-010`},
	{args: "graph cycle.edn", exit: 1, err: `^error: nodes wait for each other.*\(CHECK-019\)\n  --> cycle\.edn:`},
	{args: "graph needs.edn --bind a=1", out: `^flowchart TB\n`},
	{args: "graph cut.edn", exit: 1, err: `^error: .* \(edn/invalid\)\n  --> cut.edn:2:1\n`},
	{args: "graph input.edn", exit: 1, err: `^error: :nodes is missing in the plan \(CHECK-015\)\n  --> input.edn:1:1\n`},
	{args: "graph absent.edn", exit: 3, err: `^error: read absent.edn`},
	{args: "graph", exit: 2, err: `^error: expected ferment .*, got \d arguments?`},

	{args: "validate", out: `^ferment.hcl ok: 2 plugins \(2 from cache\), \d+ intents, hash b3:[0-9a-f]{64}\n$`},
	{args: "validate --strict --no-start", out: `^ferment.hcl ok`},
	{args: "validate --config broken.hcl", exit: 1, out: `(?s)^error: unknown attribute "data_dirr" in ferment.*10 errors, 0 warnings in 1 file\n$`},
	{args: "validate --config broken.hcl --max-errors 2", exit: 1, out: `(?s)\(8 not shown\)\n$`},
	{args: "validate --config absent.hcl", exit: 3, out: `^error: file "absent.hcl" cannot be read`},
	{args: "validate --config missing.hcl", exit: 1, out: `^error: plugin "text": bin/plugins/absent`},
	{args: "validate now", exit: 2, err: `^error: ferment validate takes no arguments, got "now"`},

	{args: "fmt", out: ``},
	{args: "fmt --check ferment.hcl", out: ``},
	{args: "fmt --check ugly.hcl ferment.hcl", exit: 1, out: `^ugly.hcl\n$`},
	{args: "fmt --diff ugly.hcl", out: `^--- ugly.hcl\n\+\+\+ ugly.hcl\n@@ -1,3 \+1,3 @@\n plugin "text" \{\n-command=`},
	{args: "fmt -", stdin: "a=1\n", out: `^a = 1\n$`},
	{args: "fmt --check syntax.hcl", exit: 1, err: `(?s)^error: missing expression.*--> syntax.hcl:3:1\n`},
	{args: "fmt absent.hcl", exit: 3, err: `^error: file "absent.hcl" cannot be read: no such file or directory\n`},
	{args: "fmt directory", exit: 3, err: `^error: directory directory holds no configuration: no ferment.hcl, and nothing in common or local\n`},
	{args: "fmt --check --config site", exit: 1, out: `^site/ferment.hcl.json\nsite/local/dev/1.hcl\n$`},
	{args: "fmt --diff site/ferment.hcl.json", out: `^--- site/ferment.hcl.json\n\+\+\+ site/ferment.hcl.json\n@@ -1,1 \+1,5 @@\n-\{"ferment":`},
	{args: "fmt -", stdin: "\ufeff {\"locals\":{\"b\":[1,{}],\"a\":1.50}}\r\n", out: `^\{\n  "locals": \{\n    "b": \[\n      1,\n      \{\}\n    \],\n    "a": 1.50\n  \}\n\}\n$`},
	{args: "fmt -", stdin: "{\"a\":1,\"a\":2}", exit: 1, err: `^error: key "a" is written twice in one object`},

	{args: "explain text/render", out: `(?s)^:text/render .*\n  1. text/template  \(plugin text`},
	{args: "explain mine/strict", out: `(?s):must +:never  \(intent, ferment.hcl:32:17\)`},
	{args: "explain error runtime/crashed", out: `^:runtime/crashed\n`},
	{args: "explain error :queue/full", out: `^:runtime/overloaded\n`},
	{args: "explain text/rendr", exit: 5, err: `(?s)^error: there is no intent :text/rendr\n.*did you mean text/render\?`},
	{args: "explain error", exit: 2, err: `^error: explain error needs a type`},
	{args: "version --json --edn", exit: 2, err: `"invalid-request"|:invalid-request`},
	{args: "validate --max-errors -1", exit: 2, err: `^error: --max-errors -1: expected a whole number that is not negative\n`},
	{args: "act hello.edn", exit: 2, err: `(?s)^error: hello.edn is a plan.*did you mean ferment run hello.edn\?`},
	{args: "run hello.edn --budget {\"max-attempts\":1}", out: `^Hello, world!\n$`},
	{args: "init request.json", exit: 2, err: `^error: init: .*request.json is a file, expected a directory\n`},
	{args: "init request.json/x", exit: 2, err: `^error: init: .*request.json is a file, expected a directory\n`},
	{args: "explain error runtime/crashd", exit: 5, err: `(?s)^error: .*did you mean runtime/crashed\?`},
	{args: "explain", exit: 2, err: `^error: expected ferment .*, got 0 arguments`},
	{args: "explain a b", exit: 2, err: `^error: explain takes one intent`},

	{args: "doctor", out: `(?s)^area +part +state +what was found\n.*\nisolation +level +ok .*\nplugin +text +ok .*level strict,\s+enforcement\s+kernel,\s+no needs.*, 0 fail\n$`},
	{args: "doctor --config missing.hcl", exit: 1, out: `(?s)\nconfiguration +files +fails +1 error; `},
	{args: "doctor --config absent.hcl", exit: 1, out: `(?s)\nconfiguration +files +fails `},
	{args: "doctor now", exit: 2, err: `takes no arguments, got "now"`},
	{args: "plugin list", out: `(?s)^plugin +configured +locked +installed +running +condition +isolation\ntext +- +1.0.0 +1.0.0 +- +required +strict\n    provides text/classifier text/extractive text/template; block ferment.hcl:1:1\nmine `},
	{args: "plugin inspect text", out: `(?s)^text 1.0.0 \(required, block at ferment.hcl:1:1\)\n  command: bin/plugins/text\n`},
	{args: "plugin inspect tex", exit: 5, err: `(?s)^error: there is no plugin "tex".*did you mean text\?`},
	{args: "plugin inspect", exit: 2, err: `^error: expected ferment .*, got \d arguments?`},
	{args: "plugin runtime python", out: `^python/ferment is up to date\n$`},
	{args: "plugin runtime python --check", out: `^python/ferment is up to date\n$`},
	{args: "plugin runtime directory", exit: 2, err: `(?s)^error: .*directory is not the project .*  hint    name`},
	{args: "plugin runtime former", exit: 2, err: `(?s)^error: .*found wire.py, expected the folder .*  hint    remove`},
	{args: "plugin runtime absent", exit: 3, err: `^error: plugin runtime: open .*absent: no such file or directory\n`},
	{args: "plugin runtime a b", exit: 2, err: `^error: expected ferment .*, got 2 arguments`},
	{args: "plugin", exit: 2, err: `(?s)^error: plugin needs a command.*"ferment plugin --help"`},
	{args: "plugin lst", exit: 2, err: `^error: unknown command "lst" for "ferment plugin"`},

	{args: "version", out: `^ferment \S+\nenvelope 1, plugin protocol ferment.plugin.v1\ngo`},
	{args: "version now", exit: 2, err: `^error: ferment version takes no arguments, got "now"`},
	{args: "vrsion", exit: 2, err: `^error: unknown command "vrsion" for "ferment"`},
	{args: "version --loud", exit: 2, err: `(?s)^error: unknown flag: --loud\n.*"ferment version --help"`},
}

// split splits arguments at blanks outside brackets and quotes.
func split(args string) []string {
	var out []string
	depth, quoted, word := 0, false, ""
	for _, r := range args {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("{[(", r):
			depth++
		case strings.ContainsRune("}])", r):
			depth--
		case r == ' ' && depth == 0:
			out = append(out, word)
			word = ""
			continue
		}
		word += string(r)
	}
	return append(out, word)
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	w := shop(t)
	w.mustLock()
	for _, row := range verbs {
		t.Run(row.args, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: w.dir, env: w.env}
			args := split(row.args)
			text := w.feed(row.stdin, args...)
			assert.Equal(t, row.exit, text.code, "as text: %s%s", text.stdout, text.stderr)
			assertStream(t, row.out, text.stdout)
			assertStream(t, row.err, text.stderr)

			asJSON := w.feed(row.stdin, append(slices.Clone(args), "-o", "json")...)
			assert.Equal(t, row.exit, asJSON.code, "as JSON: %s%s", asJSON.stdout, asJSON.stderr)
			asEDN := w.feed(row.stdin, append(slices.Clone(args), "--edn")...)
			assert.Equal(t, row.exit, asEDN.code, "as EDN: %s%s", asEDN.stdout, asEDN.stderr)
			data := jsonValues(t, asJSON.stdout)
			assert.Len(t, ednValues(t, asEDN.stdout), len(data), "as much in both forms")
			problems := jsonValues(t, asJSON.stderr)
			assert.Len(t, ednValues(t, asEDN.stderr), len(problems), "as much in both forms")
			if row.exit == 0 {
				assert.Empty(t, problems)
				return
			}
			assert.NotEmpty(t, slices.Concat(data, problems), "it says why")
		})
	}
}

// assertStream matches output for people: data and messages without terminal
// sequences.
func assertStream(t testing.TB, want, got string) {
	t.Helper()
	assert.NotContains(t, got, "\x1b", "nothing here is a terminal (CLI-001)")
	if want == "" {
		assert.Empty(t, got)
		return
	}
	assert.Regexp(t, regexp.MustCompile(want), got)
}

// jsonValues parses a stream that holds only JSON.
func jsonValues(t testing.TB, text string) []any {
	t.Helper()
	var all []any
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		err := in.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, "%s", text)
		all = append(all, v)
	}
}

// ednValues parses a stream that holds only EDN, each value on a line of its
// own in canonical form.
func ednValues(t testing.TB, text string) []edn.Value {
	t.Helper()
	var all []edn.Value
	for line := range strings.Lines(text) {
		v, err := edn.ReadString(line, edn.WithLimits(edn.Body))
		require.NoError(t, err, "%s", text)
		assert.Equal(t, v.String()+"\n", line)
		all = append(all, v)
	}
	return all
}

// TestWrongForm: an invalid --output is reported as text, because no format
// was selected.
func TestWrongForm(t *testing.T) {
	t.Parallel()
	got := shop(t).run("version", "-o", "xml")
	assert.Equal(t, 2, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, `expected text, json or edn`)
}

// TestManyErrors: all errors of a configuration are reported at once, with
// place, lines and nearest name (HCL-002).
func TestManyErrors(t *testing.T) {
	t.Parallel()
	w := shop(t)
	got := w.run("validate", "--describe", "--config", "broken.hcl")
	assert.Equal(t, 1, got.code)
	assert.Empty(t, got.stderr)
	file := filepath.Join("testdata", "broken.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.stdout), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got.stdout)
}

// TestOneDash: a long flag may have one dash (CLI-001).
func TestOneDash(t *testing.T) {
	t.Parallel()
	w := shop(t)
	for _, args := range []string{
		"-json run hello.edn", "run -output json hello.edn", "run hello.edn -output=json -deadline 20s", "-config ferment.hcl run hello.edn -bind name=1 -o json",
	} {
		got := w.run(split(args)...)
		assert.Equal(t, 0, got.code, "%s: %s", args, got.stderr)
		assert.Len(t, jsonValues(t, got.stdout), 1, args)
	}
	got := w.run("version", "-loud")
	assert.Equal(t, 2, got.code)
	got = w.run("check", "--", "-json")
	assert.Equal(t, 3, got.code, "behind two dashes everything is an argument: %s", got.stderr)
}

// TestProgress: progress is one object per line, in the order of the run, up
// to its end (CLI-001).
func TestProgress(t *testing.T) {
	t.Parallel()
	w := shop(t)
	for _, form := range []string{"json", "edn"} {
		got := w.run("run", "hello.edn", "--progress", form)
		require.Equal(t, 0, got.code)
		assert.Equal(t, "Hello, world!\n", got.stdout)
		var names []string
		seq := 0
		for line := range strings.Lines(got.stderr) {
			var v edn.Value
			var err error
			if form == "json" {
				v, err = edn.ReadJSON([]byte(line))
			} else {
				v, err = edn.ReadString(line)
			}
			require.NoError(t, err, line)
			e := event{v, 0}
			if e.word("event") == "plugin" {
				continue
			}
			names = append(names, strings.TrimSpace(e.word("event")+" "+e.word("state")))
			assert.Greater(t, e.number("seq"), seq)
			seq = e.number("seq")
			assert.NotEmpty(t, e.word("run"))
			assert.True(t, v.HasKey("at"))
		}
		assert.Equal(t, "accepted, resolved, started, resolved, attempt started, attempt finished, gate, commit, commit, finished", strings.Join(names, ", "))
	}
	got := w.run("run", "hello.edn", "--progress", "text", "--report")
	require.Equal(t, 0, got.code)
	assert.Regexp(t, `(?m)n0: asking text/template$`, got.stderr)
	assert.Regexp(t, `(?m)n0: accepted from text/template$`, got.stderr)
	assert.NotContains(t, got.stderr, "failed after")
	assert.Regexp(t, `(?m)^node +asked +answered +gates +failed over +took\n0 n0 +text/render +text/template +schema-valid ok +- +\d+ ms$`, got.stderr)
}

// TestHelpExamples runs the examples of every command's help unchanged
// (CLI-006, HCL-011), with the configuration and the plans of the repository.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	require.NoError(t, os.CopyFS(filepath.Join(w.dir, "examples"), os.DirFS(filepath.Join(built.module, "examples"))))
	config, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	w.write("ferment.hcl", string(config)+`
rubric "words" {
  rules = [{ rule = "terms", all = ["good"] }]
}

judge "grader" {
  capability = "judge/rules"
  rubric     = "words"
  anchors    = "anchors.edn"
}
`)
	w.write("anchors.edn", anchors(20))
	w.write("site/ferment.hcl", "plugin \"text\" {\n  command = [\"../bin/plugins/text\"]\n}\n")
	w.write("draft.hcl", "plugin \"text\" {\n  command = [\"bin/plugins/text\"]\n}\n")
	w.write("article.edn", `{:text "Bees dance. The dance of the bees tells the hive where food is. A cat sleeps."}`)
	w.write("request.edn", `{:proto 1 :trace {:id "r"} :task {:intent :text/render} :input {:template "x"}}`)
	w.write("plan.edn", `{:nodes [{:op :emit :input 1}]}`)
	w.write("dist/arm64/chess", "for another machine")
	for _, config := range []string{"ferment.hcl", "site/ferment.hcl"} {
		require.Equal(t, 0, w.run("plugin", "lock", "--config", config).code)
	}

	w.write("protocol.edn", w.run("protocol", "export", "--local").stdout)
	require.Equal(t, 0, w.run("plugin", "runtime", "examples/plugins/readability").code)

	var all []string
	var collect func(verb string)
	collect = func(verb string) {
		help := w.run(strings.Fields(strings.TrimPrefix(verb+" --help", "ferment "))...)
		require.Equal(t, 0, help.code, help.stderr)
		subs := section(help.stdout, "Available Commands:")
		examples := section(help.stdout, "Examples:")
		if len(subs) == 0 {
			assert.NotEmpty(t, examples, "%s --help has no example", verb)
		}
		for _, line := range examples {
			assert.True(t, strings.HasPrefix(line, verb+" ") || line == verb, "%q is an example of %q", line, verb)
			all = append(all, line)
		}
		for _, sub := range subs {
			if name := strings.Fields(sub)[0]; name != "help" {
				collect(verb + " " + name)
			}
		}
	}
	collect("ferment")
	require.Greater(t, len(all), 15)
	w.write("action.edn", "{:action :plugin-list}")
	w.write("prices.edn", w.run("model", "prices", "--all", "--edn").stdout)
	for _, line := range all {
		if ofDaemon(line) || ofWorkspace(line) || strings.HasPrefix(line, "ferment model probe ") || strings.HasPrefix(line, "ferment chat") {
			continue // TestHelpExamplesOfDaemon, TestSessionExamples, TestBatchExamples, TestWorkspaceExamples, TestModelProbe, TestChatExamples
		}
		if strings.HasPrefix(line, "ferment conform ") && !strings.Contains(line, "--run ") {
			continue // whole suites: TestConformPasses, and the conformance step of the checks before a merge
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			// An example needs only this program: PATH has no other.
			w := &world{t: t, dir: w.dir, env: append(slices.Clone(w.env), "PATH=")}
			got := w.shell(line)
			assert.Equal(t, 0, got.code, "%s\n%s", got.stderr, got.stdout)
		})
	}
}

// ofDaemon reports whether an example starts or needs a daemon.
func ofDaemon(line string) bool {
	if line == "ferment diff" || strings.Contains(line, "--running") {
		return true
	}
	for _, verb := range []string{"serve", "status", "admin", "plugin logs", "plugin restart", "plugin swap", "plugin drain", "plugin release", "plugin quarantine", "dev", "runs", "batch", "session", "user", "role", "token", "dispatch reset"} {
		if strings.HasPrefix(line, "ferment "+verb+" ") || line == "ferment "+verb {
			return true
		}
	}
	return false
}

// section returns the indented lines below a heading.
func section(help, heading string) []string {
	_, after, ok := strings.Cut(help, heading+"\n")
	if !ok {
		return nil
	}
	var out []string
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, "  ") {
			break
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}
