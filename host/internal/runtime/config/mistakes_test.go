package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// shippedPlugins are the recorded descriptions of testdata/shipped.edn, by the label of a block.
func shippedPlugins(t *testing.T) configtest.Describer {
	t.Helper()
	raw, err := os.ReadFile("testdata/shipped.edn")
	require.NoError(t, err)
	all, err := edn.Read(raw)
	require.NoError(t, err)
	out := configtest.Describer{}
	for name, v := range all.Entries() {
		d, derr := contract.ParseDescription(v)
		require.Nil(t, derr)
		label, _ := name.AsString()
		out[label] = d
	}
	out["chess-reserve"], out["ches"], out["sat2"] = out["chess"], out["chess"], out["sat"]
	uci := out["chess"]
	uci.Needs = []string{"process/run"}
	out["stockfish"] = uci
	return out
}

// mistake is one edit of a shipped file and the expected error.
type mistake struct {
	name     string
	file     string // relative to the root of the repository; empty: ferment.hcl
	old, new string // the first old is replaced by new
	typ      string // without the prefix "config/"
	line     string // part of the line of the error
	nearest  string
	warning  bool   // a warning is expected
	hint     bool   // a hint is expected
	says     string // part of the hint
}

const (
	streaming = "examples/streaming/ferment.hcl"
	models    = "examples/models/ferment.hcl"
	effectful = "examples/effects/ferment.hcl"
)

// running is a process/run scope with the shipped scopes.
func running(attrs string) string {
	return "effects {\n  scope \"process/run\" {\n    enabled        = true\n    allow_commands = [\"/bin/sh\"]\n" +
		"    allow_cwd      = [\"data\"]\n" + attrs + "\n  }\n"
}

var mistakes = []mistake{
	// Limits that this build cannot enforce (ISO-002).
	{name: "share of the processors", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { cpu = 2 }", typ: "range", line: "isolation { cpu"},
	{name: "memory of no program", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { memory = \"1KB\" }", typ: "range", line: "isolation { "},
	{name: "memory below a minimum", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { memory = \"15MiB\" }", typ: "range", line: "isolation { "},
	{name: "processes of no program", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { processes = 3 }", typ: "range", line: "isolation { "},
	{name: "file size of no file", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { file_size = \"1KB\" }", typ: "range", line: "isolation { "},
	{name: "share of no program", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { cpu = 0.001 }", typ: "range", line: "isolation { "},

	// Suspicious but possible settings.
	{name: "a candidate twice", old: `"chess/stockfish", "chess/embedded"`, new: `"chess/stockfish", "chess/stockfish", "chess/embedded"`, typ: "duplicate", line: `"chess/stockfish", "chess/stockfish"`, warning: true},
	{name: "no candidate", old: `candidates = ["chess/stockfish", "chess/embedded", "chess/reserve"]`, new: "candidates = []", typ: "range", line: "candidates = []", warning: true},
	{name: "schema of another intent", old: `  out        = "res/sat.solve"`, new: `  out        = "res/chess.move+pv+eval"`, typ: "type", line: `intent "sat/solve" {`, warning: true},
	{name: "schema that no answer can fit", old: `  out        = "res/sat.solve"`, new: `  out        = "res/text"`, typ: "type", line: `intent "sat/solve" {`, warning: true},
	{name: "schema with no key of the input", old: `  in         = "req/sat.solve"`, new: `  in         = "req/context"`, typ: "type", line: `intent "sat/solve" {`, warning: true},
	{name: "default misspelt", old: `dispatch "default" {`, new: `dispatch "defualt" {`, typ: "unused", line: `dispatch "defualt" {`, warning: true},
	{name: "scope that permits nothing", file: effectful, old: "    roots   = [\"data\"]\n    allow   = [\"in\"]\n", new: "", typ: "unused", line: `scope "fs/read"`, warning: true},

	{name: "root of a scope missing", file: effectful, old: `["data"]`, new: `["data", "dta"]`, typ: "dangling-reference", line: `"dta"`, nearest: "data", warning: true},
	{name: "key of an answer in applies", old: `result.status == "sat"`, new: `result.staus == "sat"`, typ: "unknown-name", line: "result.staus", nearest: "status", warning: true},

	{name: "constraint misspelt", old: "{ max_chars = 1200 }", new: "{ maxchars = 1200 }", typ: "unknown-name", line: "maxchars", nearest: "max_chars", warning: true},
	{name: "check that refuses and scores", old: `done { must = ["schema-valid", "model-holds"] }`, new: "done {\n    must   = [\"schema-valid\", \"model-holds\"]\n    should = [\"model-holds\"]\n  }", typ: "duplicate", line: "should", warning: true},

	{name: "intent of a role misspelt", old: "ferment {", new: "role \"guest\" {\n  intents = [\"sat/slove\"]\n}\n\nferment {", typ: "dangling-reference", line: "sat/slove", nearest: "sat/solve", warning: true},
	{name: "namespace of a role misspelt", old: "ferment {", new: "role \"guest\" {\n  intents = [\"chss/*\"]\n}\n\nferment {", typ: "dangling-reference", line: "chss/*", nearest: "chess/*", warning: true},

	// Contradictory settings.
	{name: "in and out exchanged", old: "in         = \"req/sat.solve\"\n  out        = \"res/sat.solve\"", new: "in         = \"res/sat.solve\"\n  out        = \"req/sat.solve\"", typ: "type", line: `in         = "res/sat.solve"`},
	{name: "layer of a misspelt role", old: "    router = \"You decide", new: "    ruoter = \"You decide", typ: "protocol/invalid", line: "ruoter", nearest: "router"},
	{name: "layer of a misspelt own role", old: "    voice  = \"A person", new: "    vioce  = \"A person", typ: "protocol/invalid", line: "vioce", nearest: "voice"},
	{name: "data directory that is a file", old: `data_dir  = "var"`, new: `data_dir  = "bin/plugins/sat"`, typ: "type", line: "data_dir"},
	{name: "lock file that is a directory", old: `lock_file = "bin/ferment.lock.hcl"`, new: `lock_file = "bin"`, typ: "type", line: "lock_file"},
	{name: "home of a shell", file: effectful, old: `["data"]`, new: `["~/data"]`, typ: "type", line: "~/data"},
	{name: "arguments beside the program", old: `command = ["bin/plugins/sat"]`, new: `command = ["bin/plugins/sat --verbose"]`, typ: "plugin-unknown", line: "--verbose"},
	{name: "constraint out of range", old: "{ max_chars = 1200 }", new: "{ max_chars = -3 }", typ: "type", line: "max_chars"},
	{name: "required key of a rule", old: `{ rule = "pattern"`, new: `{ rle = "pattern"`, typ: "judge/rubric-invalid", line: "rle =", nearest: "rule"},
	{name: "kind of a rule", old: `{ rule = "pattern"`, new: `{ rule = "patern"`, typ: "judge/rubric-invalid", line: "patern", nearest: "pattern"},
	{name: "key of a rule", old: `id = "whole", weight = 3`, new: `id = "whole", wieght = 3`, typ: "judge/rubric-invalid", line: "wieght", nearest: "weight"},
	{name: "weight of a rule", old: `id = "whole", weight = 3`, new: `id = "whole", weight = "three"`, typ: "judge/rubric-invalid", line: "three"},
	{name: "regular expression of a rule", old: `"(?m)^\\+(<{7} |={7}$|>{7} )"`, new: `"(?m)^\\+(<{7} |={7}$|>{7} "`, typ: "judge/rubric-invalid", line: `<{7}`},
	{name: "function in a disabled plugin", old: `api_key    = secret("env:OPENAI_API_KEY")`, new: `api_key    = secrets("env:OPENAI_API_KEY")`, typ: "unknown-name", line: `secrets(`, nearest: "secret"},
	{name: "local in a block of a disabled plugin", old: `model "router" { intents = ["route/decide"] }`, new: `model "router" { intents = [local.rowter] }`, typ: "dangling-reference", line: `local.rowter`},
	{name: "candidate without quotes", old: `["sat/solver"]`, new: `[sat/solver]`, typ: "unknown-name", line: "[sat/solver]"},
	{name: "condition that is a number", file: streaming, old: `try(endswith(result.text, "."), false)`, new: "length(result.text)", typ: "type", line: "length("},
	{name: "command by its name alone", old: `command = ["bin/plugins/sat"]`, new: `command = ["sh"]`, typ: "plugin-unknown", line: `["sh"]`},
	{name: "file of a command missing", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n  files   = [\"absent.py\"]", typ: "plugin-unknown", line: `absent.py`},

	// Syntax of other configurations.
	{name: "profile in capitals", old: `profile   = "dev"`, new: `profile   = "DEV"`, typ: "range", line: `"DEV"`, nearest: "dev"},
	{name: "words in another order", old: `score_min = 0.85`, new: `min_score = 0.85`, typ: "unknown-name", line: `min_score`, nearest: "score_min"},
	{name: "beginning of a function", file: streaming, old: "endswith(", new: "ends(", typ: "unknown-name", line: "ends(", nearest: "endswith"},
	{name: "network by another name", old: `network = "loopback"`, new: `network = "localhost"`, typ: "range", line: `"localhost"`, nearest: "loopback"},
	{name: "label as a keyword", old: `capability "chess/embedded" {`, new: `capability ":chess/embedded" {`, typ: "syntax", line: `":chess/embedded"`, nearest: "chess/embedded"},
	{name: "label with a blank", old: `capability "chess/embedded" {`, new: `capability "chess embedded" {`, typ: "syntax", line: `"chess embedded"`, nearest: "chess/embedded"},
	{name: "candidate as a keyword", old: `["sat/solver"]`, new: `[":sat/solver"]`, typ: "dangling-reference", line: `":sat/solver"`, nearest: "sat/solver"},
	{name: "variable of a shell for its name", old: `env_pass = ["PATH"]`, new: `env_pass = ["$PATH"]`, typ: "type", line: `"$PATH"`, nearest: "PATH"},
	{name: "variable of a shell in a template", old: `["bin/plugins/sat"]`, new: `["${HOME}/sat"]`, typ: "unknown-name", line: "${HOME}", says: `env("HOME")`},
	{name: "local without its prefix in a template", old: `"${local.provider}/voice"`, new: `"${provider}/voice"`, typ: "unknown-name", line: "${provider}", says: "local.provider"},
	{name: "path with a variable of a shell", old: `["bin/plugins/sat"]`, new: `["$HOME/bin/sat"]`, typ: "type", line: "$HOME", says: `"${env("HOME")}/bin/sat"`},
	{name: "path that is a variable of a shell", old: `data_dir  = "var"`, new: `data_dir  = "$DATA"`, typ: "type", line: "$DATA", says: `"${env("DATA")}"`},
	{name: "variable of another language", old: "enabled  = local.openai", new: "enabled  = var.openai", typ: "unknown-name", line: "var.openai"},
	{name: "variable of the environment as an attribute", old: `openai    = env("OPENAI_API_KEY", "") != ""`, new: `openai    = env.OPENAI_API_KEY != ""`, typ: "unknown-name", line: "env.OPENAI_API_KEY"},
	{name: "variable of a shell for a name", old: `env("OPENAI_API_KEY", "")`, new: `env("$OPENAI_API_KEY", "")`, typ: "type", line: "$OPENAI_API_KEY", nearest: "OPENAI_API_KEY"},
	{name: "name of a variable without quotes", old: `env("OPENAI_API_KEY", "")`, new: `env(OPENAI_API_KEY, "")`, typ: "unknown-name", line: "env(OPENAI_API_KEY"},
	{name: "variable without its name", old: `env("OPENAI_API_KEY", "")`, new: `env()`, typ: "type", line: "env()"},
	{name: "two defaults of a variable", old: `env("OPENAI_API_KEY", "")`, new: `env("OPENAI_API_KEY", "", "x")`, typ: "type", line: `"x")`},
	{name: "list for the name of a variable", old: `env("OPENAI_API_KEY", "")`, new: `env(["OPENAI_API_KEY"], "")`, typ: "type", line: `["OPENAI_API_KEY"]`},
	{name: "text that is no number", old: "max_tokens     = 600", new: `max_tokens     = tonumber("4k")`, typ: "type", line: "tonumber("},
	{name: "argument missing", old: "max_tokens     = 600", new: `max_tokens     = parseint("600")`, typ: "type", line: "parseint("},
	{name: "argument too many", old: "max_tokens     = 600", new: `max_tokens     = floor(600, 10)`, typ: "type", line: "floor("},
	{name: "name and default exchanged", old: `env("OPENAI_API_KEY", "")`, new: `env("", "OPENAI_API_KEY")`, typ: "type", line: `env("", "OPENAI_API_KEY")`},
	{name: "answer by another name", file: streaming, old: "result.text", new: "response.text", typ: "unknown-name", line: "response.text"},
	{name: "number for a word", old: "ferment {", new: "http {\n  tls { min_version = 1.2 }\n}\n\nferment {", typ: "type", line: "min_version"},
	{name: "block with a label as an attribute", old: "  done { must = [\"schema-valid\", \"model-holds\"] }", new: "  done = [\"schema-valid\", \"model-holds\"]", typ: "type", line: "done ="},
	{name: "criterion as an attribute", file: "", old: "rubric \"patch\" {\n", new: "rubric \"patch\" {\n  criterion = \"Is it whole?\"\n", typ: "type", line: "criterion ="},
	{name: "brace on the next line", old: `plugin "sat" {`, new: "plugin \"sat\"\n{", typ: "syntax", line: `plugin "sat"`},
	{name: "JSON", old: "# The configuration", new: "{\n# The configuration", typ: "syntax", line: "{"},
	{name: "unit without quotes", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  deadline = 30s", typ: "syntax", line: "30s"},
	{name: "shell for a function", old: `env("OPENAI_API_KEY", "")`, new: `${OPENAI_API_KEY}`, typ: "syntax", line: "${OPENAI_API_KEY}"},
	{name: "blank that is none", old: `in         = "req/sat.solve"`, new: "in         =\u00a0\"req/sat.solve\"", typ: "syntax", line: "req/sat.solve"},
	{name: "decimal with a comma", old: "ferment {", new: "budget \"run\" {\n  max_usd = \"2,50\"\n}\n\nferment {", typ: "type", line: "2,50"},

	// Settings without effect on any call.
	{name: "root of inputs missing", old: `data_dir  = "var"`, new: "data_dir  = \"var\"\n  root = \"bn\"", typ: "include", line: `root = "bn"`, nearest: "bin"},
	{name: "anchors missing", old: `  rubric     = "patch"`, new: "  rubric     = \"patch\"\n  anchors = \"models.edm\"", typ: "include", line: "models.edm", nearest: "models.edn"},
	{name: "anchors that are a directory", old: `  rubric     = "patch"`, new: "  rubric     = \"patch\"\n  anchors = \"bin\"", typ: "type", line: `"bin"`},
	{name: "root of a scope that is a file", file: effectful, old: `["data"]`, new: `["models.edn"]`, typ: "type", line: "models.edn"},
	{name: "program of a scope that is a directory", file: effectful, old: "effects {\n", new: strings.Replace(running(""), "/bin/sh", "data", 1), typ: "type", line: `allow_commands = ["data"]`},
	{name: "working directory that is a file", file: effectful, old: "effects {\n", new: strings.Replace(running(""), `["data"]`, `["models.edn"]`, 1), typ: "type", line: "models.edn"},
	{name: "patterns for no program", file: effectful, old: "effects {\n", new: running(`    arguments = { "/bin/s" = ["-c"] }`), typ: "dangling-reference", line: "/bin/s", nearest: "/bin/sh"},
	{name: "pattern of an argument", file: effectful, old: "effects {\n", new: running(`    arguments = { "/bin/sh" = ["-c", "[a"] }`), typ: "type", line: "[a", nearest: `\[a`},
	{name: "pattern of an argument", file: effectful, old: "effects {\n", new: running(`    arguments = { "/bin/sh" = ["(a"] }`), typ: "type", line: "(a", nearest: `\(a`},
	{name: "patterns for a program by its name", file: effectful, old: "effects {\n", new: running(`    arguments = { "sh" = ["-c"] }`), typ: "dangling-reference", line: `"sh"`, nearest: "/bin/sh"},
	{name: "absolute prefix below a root", file: effectful, old: `allow   = ["in"]`, new: `allow   = ["/in"]`, typ: "type", line: `"/in"`},
	{name: "prefix that leaves its root", file: effectful, old: `allow   = ["in"]`, new: `allow   = ["../in"]`, typ: "type", line: `"../in"`},
	{name: "URL for a host", file: effectful, old: "effects {\n", new: "effects {\n  scope \"net/http\" {\n    enabled = true\n    hosts = [\"https://api.example.org/v1\"]\n  }\n", typ: "type", line: "https://", nearest: "api.example.org"},
	{name: "host with a port", file: effectful, old: "effects {\n", new: "effects {\n  scope \"net/http\" {\n    enabled = true\n    hosts = [\"api.example.org:8080\"]\n  }\n", typ: "type", line: ":8080", nearest: "api.example.org"},
	{name: "timeout above its maximum", file: effectful, old: "effects {\n", new: running("    timeout = \"2m\"\n    max_timeout = \"1m\""), typ: "range", line: "    timeout"},
	{name: "secret of effects missing", file: "examples/streaming/ferment.hcl", old: "ferment {", new: "effects {\n  secret \"key\" {\n    value = secret(\"env:KEY\")\n    hosts = [\"example.org\"]\n  }\n}\n\nferment {", typ: "secret-missing", line: "env:KEY"},

	{name: "include of a directory", old: "ferment {", new: "include \"bin\" {}\n\nferment {", typ: "include", line: `"bin"`},
	{name: "setting of a plugin beside its config", old: "  config {\n    engine = \"builtin\"\n    depth  = 4", new: "  engine = \"builtin\"\n  config {\n    depth  = 4", typ: "unknown-name", line: "  engine"},

	// Parameters of checks and rules.
	{name: "parameter of a check", old: `check "legal-move" {`, new: "check \"short\" {\n  builtin = \"max-chars\"\n  params = { maximum = 10 }\n}\n\ncheck \"legal-move\" {", typ: "type", line: "maximum", nearest: "max"},
	{name: "parameter of a check that takes none", old: `check "legal-move" {`, new: "check \"short\" {\n  builtin = \"json-valid\"\n  params = { max = 10 }\n}\n\ncheck \"legal-move\" {", typ: "type", line: "max ="},
	{name: "value of a parameter", old: `check "legal-move" {`, new: "check \"short\" {\n  builtin = \"max-chars\"\n  params = { max = \"10\" }\n}\n\ncheck \"legal-move\" {", typ: "type", line: `"10"`},
	{name: "weight below zero", old: `id = "whole", weight = 3`, new: `id = "whole", weight = -3`, typ: "judge/rubric-invalid", line: "-3"},

	// Settings with which the daemon cannot start.
	{name: "address twice", old: "ferment {", new: "http { listen = [\"127.0.0.1:7180\", \"127.0.0.1:7180\"] }\n\nferment {", typ: "duplicate", line: "http {"},
	{name: "admin socket that is a directory", old: "ferment {", new: "http { admin_socket = \"bin\" }\n\nferment {", typ: "type", line: "admin_socket"},
	{name: "admin socket that is too long", old: "ferment {", new: "http { admin_socket = \"" + strings.Repeat("a", 104) + "\" }\n\nferment {", typ: "range", line: "admin_socket"},
	{name: "work directory missing", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n  workdir = \"absent\"", typ: "plugin-unknown", line: "absent"},
	{name: "work directory that is a file", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n  workdir = \"bin/plugins/sat\"", typ: "plugin-unknown", line: "workdir"},

	// Syntax of other languages.
	{name: "marks of a merge conflict", old: "    depth  = 4\n", new: "<<<<<<< HEAD\n    depth  = 4\n=======\n    depth  = 5\n>>>>>>> other\n", typ: "syntax", line: "<<<<<<< HEAD"},
	{name: "marks of a merge conflict around blocks", old: "plugin \"sat\" {\n  command = [\"bin/plugins/sat\"]\n}\n", new: "<<<<<<< HEAD\nplugin \"sat\" {\n  command = [\"bin/plugins/sat\"]\n}\n=======\n>>>>>>> other\n", typ: "syntax", line: "<<<<<<< HEAD"},
	{name: "table of TOML", old: "plugin \"sat\" {\n  command = [\"bin/plugins/sat\"]\n}\n", new: "[plugin.sat]\ncommand = [\"bin/plugins/sat\"]\n", typ: "syntax", line: "[plugin.sat]"},
	{name: "two equals signs", old: `in         = "req/sat.solve"`, new: `in         == "req/sat.solve"`, typ: "syntax", line: "in         =="},
	{name: "semicolon for a value", old: `in         = "req/sat.solve"`, new: `in         = ;`, typ: "syntax", line: "in         = ;"},
	{name: "number with marks between digits", old: "max_tokens     = 600", new: "max_tokens     = 1_000", typ: "syntax", line: "1_000"},
	{name: "secret without its function", old: `secret("env:OPENAI_API_KEY")`, new: `env:OPENAI_API_KEY`, typ: "syntax", line: "env:OPENAI_API_KEY"},
	{name: "variable of a shell in a secret", file: streaming, old: "ferment {", new: "effects {\n  secret \"key\" {\n    value = secret(\"env:$KEY\")\n    hosts = [\"example.org\"]\n  }\n}\n\nferment {", typ: "type", line: "env:$KEY"},
	{name: "escape", old: `in         = "req/sat.solve"`, new: `in         = "req\/sat.solve"`, typ: "syntax", line: `req\/sat.solve`},
	{name: "rules that are no EDN", old: `judge "patch" {`, new: "rubric \"whole\" {\n  rules = edn(\"[{:rule :pattern\")\n}\n\njudge \"patch\" {", typ: "syntax", line: ":rule :pattern"},
	{name: "form of a schema as a text", old: `check "legal-move" {`, new: "schema \"res/own\" { spec = \"[:map [:a :int]]\" }\n\ncheck \"legal-move\" {", typ: "type", line: "res/own"},

	// Punctuation.
	{name: "block brace missing at end of a plugin", old: "  command = [\"bin/plugins/sat\"]\n}", new: "  command = [\"bin/plugins/sat\"]\n", typ: "syntax", line: `plugin "sat" {`},
	{name: "nested block brace missing", old: "    depth  = 4\n  }\n}", new: "    depth  = 4\n}", typ: "syntax", line: `plugin "chess" {`},
	{name: "block brace missing at end of an intent", old: "  done { must = [\"schema-valid\", \"model-holds\"] }\n}", new: "  done { must = [\"schema-valid\", \"model-holds\"] }\n", typ: "syntax", line: `intent "sat/solve" {`},
	{name: "last brace missing", old: "  budget {\n    max_tokens     = 1200\n    max_roundtrips = 3\n  }\n}\n\x00", new: "  budget {\n    max_tokens     = 1200\n    max_roundtrips = 3\n  }\n", typ: "syntax", line: `intent "model/chat" {`},
	{name: "block in the plural", old: `intent "sat/solve" {`, new: `intents "sat/solve" {`, typ: "unknown-name", line: `intents "sat/solve"`, nearest: "intent"},
	{name: "opening brace missing", old: `plugin "sat" {`, new: `plugin "sat"`, typ: "syntax", line: `plugin "sat"`},
	{name: "one brace too many", old: "  command = [\"bin/plugins/sat\"]\n}", new: "  command = [\"bin/plugins/sat\"]\n}\n}", typ: "syntax", line: "}"},
	{name: "comma missing in a list", old: `"chess/stockfish", "chess/embedded"`, new: `"chess/stockfish" "chess/embedded"`, typ: "syntax", line: `candidates = ["chess/stockfish"`},
	{name: "comma missing in a list of checks", old: `["schema-valid", "legal-move"]`, new: `["schema-valid" "legal-move"]`, typ: "syntax", line: `"legal-move"`},
	{name: "comma missing in an object", old: `rule = "pattern", id = "whole"`, new: `rule = "pattern" id = "whole"`, typ: "syntax", line: `id = "whole"`},
	{name: "comma missing between lines of a list", old: "as it stands.\",\n", new: "as it stands.\"\n", typ: "syntax", line: "as it stands."},
	{name: "bracket not closed", old: `command = ["bin/plugins/sat"]`, new: `command = ["bin/plugins/sat"`, typ: "syntax", line: `command = ["bin/plugins/sat"`},
	{name: "bracket not opened", old: `command = ["bin/plugins/sat"]`, new: `command = "bin/plugins/sat"]`, typ: "syntax", line: `bin/plugins/sat`},
	{name: "wrong closing bracket", old: `command = ["bin/plugins/sat"]`, new: `command = ["bin/plugins/sat")`, typ: "syntax", line: `bin/plugins/sat`},
	{name: "string not closed", old: `in         = "req/sat.solve"`, new: `in         = "req/sat.solve`, typ: "syntax", line: `req/sat.solve`},
	{name: "string not opened", old: `in         = "req/sat.solve"`, new: `in         = req/sat.solve"`, typ: "syntax", line: `req/sat.solve`},
	{name: "label not closed", old: `plugin "sat" {`, new: `plugin "sat {`, typ: "syntax", line: `plugin "sat {`},
	{name: "single quotes", old: `in         = "req/sat.solve"`, new: `in         = 'req/sat.solve'`, typ: "syntax", line: `req/sat.solve`},
	{name: "equals sign missing", old: `in         = "req/sat.solve"`, new: `in         "req/sat.solve"`, typ: "syntax", line: `req/sat.solve`},
	{name: "colon for the equals sign", old: `in         = "req/sat.solve"`, new: `in: "req/sat.solve"`, typ: "syntax", line: `req/sat.solve`},
	{name: "value missing", old: `in         = "req/sat.solve"`, new: `in         =`, typ: "syntax", line: `in         =`},
	{name: "semicolon at the end", old: `in         = "req/sat.solve"`, new: `in         = "req/sat.solve";`, typ: "syntax", line: `req/sat.solve`},
	{name: "two attributes on one line", old: "    same_capability = 1\n    fallback        = 2", new: "    same_capability = 1, fallback        = 2", typ: "syntax", line: "same_capability = 1,"},
	{name: "two attributes in a block of one line", old: `repair { max = 1 }`, new: `repair { max = 1, foo = 2 }`, typ: "syntax", line: "repair {"},
	{name: "heredoc not closed", old: `in         = "req/sat.solve"`, new: "in         = <<EOT\nreq/sat.solve", typ: "syntax", line: `<<EOT`},
	{name: "template not closed", old: `"${local.provider}/voice"`, new: `"${local.provider/voice"`, typ: "syntax", line: `local.provider/voice`},
	{name: "parenthesis not closed", old: `env("OPENAI_MODEL", "gpt-5-mini")`, new: `env("OPENAI_MODEL", "gpt-5-mini"`, typ: "syntax", line: `OPENAI_MODEL`},
	{name: "colon of another language", old: `profile   = "dev"`, new: `profile: "dev"`, typ: "syntax", line: "profile:"},
	{name: "operator of another language", old: `result.status == "sat"`, new: `result.status == "sat" and true`, typ: "syntax", line: "and true"},
	{name: "one equals sign", old: `result.status == "sat"`, new: `result.status = "sat"`, typ: "syntax", line: "result.status ="},
	{name: "comment of another language", old: "# Satisfiability;", new: "-- Satisfiability;", typ: "syntax", line: "-- Satisfiability"},
	{name: "not UTF-8", old: "# Satisfiability;", new: "# Satisfiability\xff;", typ: "syntax", line: "# Satisfiability"},
	{name: "NUL", old: "# Satisfiability;", new: "# Satisfiability\x00;", typ: "syntax", line: "# Satisfiability"},
	{name: "curly quotes", old: `in         = "req/sat.solve"`, new: `in         = “req/sat.solve”`, typ: "syntax", line: `req/sat.solve`},
	// Names of blocks and attributes.
	{name: "block type", old: `plugin "sat" {`, new: `plugn "sat" {`, typ: "unknown-name", line: `plugn "sat"`, nearest: "plugin"},
	{name: "intent block type", old: `intent "sat/solve" {`, new: `intnt "sat/solve" {`, typ: "unknown-name", line: `intnt "sat/solve"`, nearest: "intent"},
	{name: "check block type", old: `check "legal-move" {`, new: `chek "legal-move" {`, typ: "unknown-name", line: `chek "legal-move"`, nearest: "check"},
	{name: "dispatch block type", old: `dispatch "quality_first" {`, new: `dispach "quality_first" {`, typ: "unknown-name", line: `dispach "quality_first"`, nearest: "dispatch"},
	{name: "capability block type", old: `capability "chess/embedded" {`, new: `capabilty "chess/embedded" {`, typ: "unknown-name", line: `capabilty "chess/embedded"`, nearest: "capability"},
	{name: "rubric block type", old: `rubric "patch" {`, new: `rubrik "patch" {`, typ: "unknown-name", line: `rubrik "patch"`, nearest: "rubric"},
	{name: "judge block type", old: `judge "patch" {`, new: `juge "patch" {`, typ: "unknown-name", line: `juge "patch"`, nearest: "judge"},
	{name: "locals block type", old: `locals {`, new: `local {`, typ: "unknown-name", line: `local {`, nearest: "locals"},
	{name: "required attribute", old: `command = ["bin/plugins/sat"]`, new: `comand = ["bin/plugins/sat"]`, typ: "unknown-name", line: `comand =`, nearest: "command"},
	{name: "attribute of an intent", old: `candidates = ["sat/solver"]`, new: `candidate = ["sat/solver"]`, typ: "unknown-name", line: `candidate =`, nearest: "candidates"},
	{name: "attribute of a capability", old: `provides = "chess/engine"`, new: `provide = "chess/engine"`, typ: "unknown-name", line: `provide =`, nearest: "provides"},
	{name: "plugin of a capability", old: `  plugin   = "chess"`, new: `  plugn   = "chess"`, typ: "unknown-name", line: `plugn `, nearest: "plugin"},
	{name: "attribute of a check", old: "  intent = \"chess/verify-move\"", new: "  intnt = \"chess/verify-move\"", typ: "unknown-name", line: `intnt`, nearest: "intent"},
	{name: "condition of a check", file: streaming, old: "  condition = ", new: "  conditon = ", typ: "unknown-name", line: `conditon`, nearest: "condition"},
	{name: "attribute of a nested block", old: "same_capability = 1", new: "same_capabilty = 1", typ: "unknown-name", line: "same_capabilty", nearest: "same_capability"},
	{name: "nested block", old: "  repair { max = 1 }", new: "  repiar { max = 1 }", typ: "unknown-name", line: "repiar", nearest: "repair"},
	{name: "config block", old: "  config {\n    engine = \"builtin\"\n    depth  = 4", new: "  confg {\n    engine = \"builtin\"\n    depth  = 4", typ: "unknown-name", line: "confg", nearest: "config"},
	{name: "attribute of a plugin's config", old: `depth  = 4`, new: `dept  = 4`, typ: "unknown-name", line: `dept `, nearest: "depth"},
	{name: "required attribute of a plugin's config", file: streaming, old: `script = "talkers.edn"`, new: `skript = "talkers.edn"`, typ: "unknown-name", line: `skript`, nearest: "script"},
	{name: "attribute of effects", file: effectful, old: `enforcement = "strict"`, new: `enforcment = "strict"`, typ: "unknown-name", line: "enforcment", nearest: "enforcement"},
	{name: "attribute of a scope", file: effectful, old: `max_bytes =`, new: `max_byte =`, typ: "unknown-name", line: "max_byte", nearest: "max_bytes"},
	{name: "roots of a scope", file: effectful, old: `    roots   = ["data"]`, new: `    root   = ["data"]`, typ: "unknown-name", line: "root ", nearest: "roots"},
	{name: "attribute of prompts", old: "  roles = {", new: "  role = {", typ: "unknown-name", line: "role = {", nearest: "roles"},
	{name: "variable", old: "enabled  = local.openai", new: "enabled  = locl.openai", typ: "unknown-name", line: "locl.openai", nearest: "local"},
	{name: "function", old: `openai    = env(`, new: `openai    = envv(`, typ: "unknown-name", line: `envv("OPENAI_API_KEY"`, nearest: "env"},
	{name: "function in a condition", file: streaming, old: "endswith(", new: "endwith(", typ: "unknown-name", line: "endwith(", nearest: "endswith"},
	{name: "variable of a condition", file: streaming, old: "result.text", new: "reslt.text", typ: "unknown-name", line: "reslt.text", nearest: "result"},
	// Labels and references.
	{name: "label of a plugin", old: `plugin "sat" {`, new: `plugin "Sat" {`, typ: "syntax", line: `plugin "Sat"`, nearest: "sat"},
	{name: "label of a plugin, referred to", old: `plugin "chess" {`, new: `plugin "ches" {`, typ: "dangling-reference", line: `plugin   = "chess"`, nearest: "ches"},
	{name: "label of another plugin", old: `plugin "sat" {`, new: `plugin "chess" {`, typ: "duplicate", line: `plugin "chess" {`},
	{name: "label of another plugin, referred to", old: `plugin "chess-reserve" {`, new: `plugin "chess" {`, typ: "duplicate", line: `plugin "chess" {`},
	{name: "label of another capability", old: `capability "chess/reserve" {`, new: `capability "chess/embedded" {`, typ: "duplicate", line: `capability "chess/embedded" {`},
	{name: "label of another check", old: `check "model-holds" {`, new: `check "legal-move" {`, typ: "duplicate", line: `check "legal-move" {`},
	{name: "label of another intent", old: `intent "code/review" {`, new: `intent "code/explain" {`, typ: "duplicate", line: `intent "code/explain" {`},
	{name: "label of another dispatch", old: `dispatch "quality_first" {`, new: `dispatch "default" {`, typ: "duplicate", line: `dispatch "default" {`},
	{name: "isolation of a plugin", old: `  isolation { exec = ["stockfish"`, new: `  islation { exec = ["stockfish"`, typ: "unknown-name", line: "islation", nearest: "isolation"},
	{name: "isolation of several lines", old: "  isolation {\n    read_paths = [", new: "  islation {\n    read_paths = [", typ: "unknown-name", line: "islation", nearest: "isolation"},
	{name: "grant of an isolation", old: `  isolation { exec = ["stockfish"`, new: `  isolation { exc = ["stockfish"`, typ: "unknown-name", line: "exc =", nearest: "exec"},
	{name: "label of an intent not closed", old: `intent "code/review" {`, new: `intent "code/review {`, typ: "syntax", line: `intent "code/review {`},
	{name: "label of an intent not opened", old: `intent "code/review" {`, new: `intent code/review" {`, typ: "syntax", line: `intent code/review"`},
	{name: "label of a check not closed", old: `check "legal-move" {`, new: `check "legal-move {`, typ: "syntax", line: `check "legal-move {`},
	{name: "label of a capability", old: `capability "chess/embedded" {`, new: `capability "chess/embeded" {`, typ: "dangling-reference", line: `"chess/embedded"`, nearest: "chess/embeded"},
	{name: "label without a namespace", old: `capability "chess/embedded" {`, new: `capability "embedded" {`, typ: "syntax", line: `capability "embedded"`},
	{name: "label of a check", old: `check "legal-move" {`, new: `check "legal-moves" {`, typ: "dangling-reference", line: `"legal-move"]`, nearest: "legal-moves"},
	{name: "label of a dispatch", old: `dispatch "quality_first" {`, new: `dispatch "quality_frist" {`, typ: "dangling-reference", line: `dispatch.quality_first`, nearest: "quality_frist"},
	{name: "label of a rubric", old: `rubric "patch" {`, new: `rubric "pach" {`, typ: "dangling-reference", line: `rubric     = "patch"`, nearest: "pach"},
	{name: "label of a judge", old: `judge "patch" {`, new: `judge "pach" {`, typ: "dangling-reference", line: `use = "patch"`, nearest: "pach"},
	{name: "label of an intent", old: `intent "sat/solve" {`, new: `intent "sat/slove" {`, typ: "dangling-reference", line: `intent "sat/slove"`, nearest: "sat/solve"},
	{name: "label missing", old: `plugin "sat" {`, new: `plugin {`, typ: "syntax", line: `plugin {`},
	{name: "label too many", old: `plugin "sat" {`, new: `plugin "sat" "second" {`, typ: "syntax", line: `plugin "sat" "second"`},
	{name: "label where none stands", old: "ferment {", new: "ferment \"main\" {", typ: "syntax", line: `ferment "main"`},
	{name: "plugin of a capability", old: `  plugin   = "chess"`, new: `  plugin   = "ches"`, typ: "dangling-reference", line: `plugin   = "ches"`, nearest: "chess"},
	{name: "advertised capability", old: `provides = "chess/engine"`, new: `provides = "chess/engin"`, typ: "dangling-reference", line: `provides = "chess/engin"`, nearest: "chess/engine"},
	{name: "candidate", old: `candidates = ["sat/solver"]`, new: `candidates = ["sat/solvr"]`, typ: "dangling-reference", line: `sat/solvr`, nearest: "sat/solver"},
	{name: "candidate by its advertised name", old: `"chess/embedded", "chess/reserve"`, new: `"chess/engine", "chess/reserve"`, typ: "dangling-reference", line: `"chess/engine"`, nearest: "chess/embedded"},
	{name: "schema", old: `out        = "res/sat.solve"`, new: `out        = "res/sat.solvee"`, typ: "dangling-reference", line: `res/sat.solvee`, nearest: "res/sat.solve"},
	{name: "derived schema", old: `in         = "req/sat.solve"`, new: `in         = "req/sat.solvee"`, typ: "dangling-reference", line: `req/sat.solvee`, nearest: "req/sat.solve"},
	{name: "derived schema of templates", old: `in          = "req/text.render"`, new: `in          = "req/text.rendr"`, typ: "dangling-reference", line: `req/text.rendr`, nearest: "req/text.render"},
	{name: "built-in schema", old: `out         = "res/context-summary"`, new: `out         = "res/context-sumary"`, typ: "dangling-reference", line: `sumary`, nearest: "res/context-summary"},
	{name: "check", old: `["schema-valid", "legal-move"]`, new: `["schema-valid", "legal-moev"]`, typ: "dangling-reference", line: `legal-moev`, nearest: "legal-move"},
	{name: "built-in check", old: `["schema-valid", "legal-move"]`, new: `["schema-vald", "legal-move"]`, typ: "dangling-reference", line: `schema-vald`, nearest: "schema-valid"},
	{name: "dispatch by traversal", old: `dispatch    = dispatch.quality_first`, new: `dispatch    = dispatch.quality_fist`, typ: "dangling-reference", line: `quality_fist`, nearest: "quality_first"},
	{name: "dispatch by name", file: streaming, old: `dispatch   = "go-on"`, new: `dispatch   = "go-om"`, typ: "dangling-reference", line: `go-om`, nearest: "go-on"},
	{name: "intent of a check", old: `intent = "chess/verify-move"`, new: `intent = "chess/verfy-move"`, typ: "dangling-reference", line: `verfy`, nearest: "chess/verify-move"},
	{name: "local", old: `enabled  = local.openai`, new: `enabled  = local.opnai`, typ: "dangling-reference", line: `local.opnai`, nearest: "openai"},
	{name: "local that others need", old: `  provider  = local.openai`, new: `  provder  = local.openai`, typ: "dangling-reference", line: `local.provider`, nearest: "provder"},
	{name: "rubric of a judge", old: `rubric     = "patch"`, new: `rubric     = "ptch"`, typ: "dangling-reference", line: `ptch`, nearest: "patch"},
	{name: "capability of a judge", old: `capability = "judge/rules"`, new: `capability = "judge/rule"`, typ: "dangling-reference", line: `judge/rule"`, nearest: "judge/rules"},
	{name: "judge of an intent", old: `judge { use = "patch" }`, new: `judge { use = "patsh" }`, typ: "dangling-reference", line: `patsh`, nearest: "patch"},
	{name: "role of an intent", old: "  role        = \"voice\"\n  dispatch", new: "  role        = \"voise\"\n  dispatch", typ: "protocol/invalid", line: `voise`, nearest: "voice"},
	{name: "capability that does not serve", old: `candidates = ["sat/solver"]`, new: `candidates = ["sat/verifier"]`, typ: "type", line: `sat/verifier`},
	{name: "effect of a scope", old: `scope "fs/read"`, new: `scope "fs/raed"`, typ: "unknown-name", line: `fs/raed`, nearest: "fs/read"},
	// Values.
	{name: "profile", old: `profile   = "dev"`, new: `profile   = "development"`, typ: "range", line: `development`, nearest: "dev"},
	{name: "word", file: streaming, old: `stream     = "provisional"`, new: `stream     = "provisonal"`, typ: "range", line: `provisonal`, nearest: "provisional"},
	{name: "word of a policy", old: `policy = "quality-aware"`, new: `policy = "quality-awar"`, typ: "range", line: `quality-awar`, nearest: "quality-aware"},
	{name: "word of a network", old: `network = "ports"`, new: `network = "port"`, typ: "range", line: `"port"`, nearest: "ports"},
	{name: "word of a plugin's config", old: `engine = "builtin"`, new: `engine = "biultin"`, typ: "plugin-schema", line: `biultin`, nearest: "builtin"},
	{name: "number of a plugin's config", old: `depth  = 4`, new: `depth  = 400`, typ: "plugin-schema", line: `400`},
	{name: "text for a number of a plugin's config", old: `depth  = 4`, new: `depth  = "4"`, typ: "plugin-schema", line: `"4"`},
	{name: "text for a number", old: `fallback        = 2`, new: `fallback        = "2"`, typ: "type", line: `"2"`},
	{name: "number out of range", old: `score_min = 0.85`, new: `score_min = 85`, typ: "range", line: `85`},
	{name: "negative number", old: `max_tokens     = 600`, new: `max_tokens     = -600`, typ: "range", line: `-600`},
	{name: "fraction", old: `max_tokens     = 600`, new: `max_tokens     = 4.5`, typ: "type", line: `4.5`},
	{name: "text for a list", old: `candidates = ["sat/solver"]`, new: `candidates = "sat/solver"`, typ: "type", line: `candidates = "sat/solver"`},
	{name: "text for a bool", old: `  optional = true`, new: `  optional = "yes"`, typ: "type", line: `"yes"`},
	{name: "word without quotes", old: `  optional = true`, new: `  optional = yes`, typ: "unknown-name", line: `yes`},
	{name: "text without quotes", old: `engine = "builtin"`, new: `engine = builtin`, typ: "unknown-name", line: `builtin`},
	{name: "unit of a size", file: effectful, old: `"64KiB"`, new: `"64KiBi"`, typ: "type", line: `64KiBi`},
	{name: "unit of a duration", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  deadline = \"5 minutes\"", typ: "type", line: `5 minutes`, nearest: "5m"},
	{name: "blank in a duration", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  deadline = \"1m 30s\"", typ: "type", line: `1m 30s`, nearest: "1m30s"},
	{name: "unit of a size in another case", file: effectful, old: `"64KiB"`, new: `"64 kb"`, typ: "type", line: `64 kb`, nearest: "64KB"},
	{name: "unit of a size of Kubernetes", file: effectful, old: `"64KiB"`, new: `"64Ki"`, typ: "type", line: `64Ki`, nearest: "64KiB"},
	{name: "ports without their network", old: `command = ["bin/plugins/sat"]`, new: "command = [\"bin/plugins/sat\"]\n\n  isolation { ports = [443] }", typ: "unused", line: "ports", warning: true},
	{name: "plugin for a candidate", old: `["sat/solver"]`, new: `["sat"]`, typ: "dangling-reference", line: `["sat"]`},
	{name: "pattern for candidates", old: `["sat/solver"]`, new: `["sat/*"]`, typ: "dangling-reference", line: `["sat/*"]`, hint: true},
	{name: "condition in the place of a check", old: `must = ["schema-valid", "model-holds"]`, new: `must = [length(result.text) > 3]`, typ: "unknown-name", line: "result.text", hint: true},
	{name: "function that reads in a condition", file: streaming, old: "endswith(", new: "env(", typ: "unknown-name", line: "env(", hint: true},
	{name: "condition in quotes", file: streaming, old: `try(endswith(result.text, "."), false)`, new: `"endswith(result.text, x)"`, typ: "type", line: `"endswith(`, hint: true},
	{name: "block of a dispatch in an intent", old: "  done { must = [\"schema-valid\", \"model-holds\"] }", new: "  retry { fallback = 1 }\n  done { must = [\"schema-valid\", \"model-holds\"] }", typ: "unknown-name", line: `retry {`, hint: true},
	{name: "file of an include", old: "ferment {", new: "include \"models.edm\" {\n  optinal = true\n}\n\nferment {", typ: "unknown-name", line: "optinal", nearest: "optional"},
	{name: "text added to a text", old: `data_dir  = "var"`, new: `data_dir  = "var" + "x"`, typ: "type", line: `"var" + "x"`},
	{name: "member of an object", old: "locals {", new: "locals {\n  dirs = { data = \"var\" }\n  dir = local.dirs.dat", typ: "dangling-reference", line: "local.dirs.dat", nearest: "data"},
	{name: "file of a function", old: `data_dir  = "var"`, new: `data_dir  = file("models.edm")`, typ: "include", line: "models.edm", nearest: "models.edn"},
	{name: "block of locals", old: "locals {", new: "locals {\n  dirs {\n    data = \"var\"\n  }", typ: "type", line: "dirs {"},
	{name: "number for a rate", old: "ferment {", new: "http {\n  limits { act_rate = 20 }\n}\n\nferment {", typ: "type", line: "act_rate", hint: true},
	{name: "data directory below a file", old: `data_dir  = "var"`, new: `data_dir  = "bin/plugins/sat/var"`, typ: "type", line: "data_dir"},
	{name: "file of a secret", file: streaming, old: "ferment {", new: "effects {\n  secret \"key\" {\n    value = secret(\"file:models.edm\")\n    hosts = [\"example.org\"]\n  }\n}\n\nferment {", typ: "secret-missing", line: "models.edm", nearest: "models.edn"},
	{name: "root of the scope of a role", file: effectful, old: "effects {\n", new: "role \"clerk\" {\n  scope \"fs/read\" {\n    roots = [\"dta\"]\n  }\n}\n\neffects {\n", typ: "dangling-reference", line: `"dta"`, nearest: "data", warning: true},
	{name: "variable of a shell in a path", old: `data_dir  = "var"`, new: `data_dir  = "$HOME/var"`, typ: "type", line: `"$HOME/var"`},
	{name: "variable of a shell in braces in a path", old: `data_dir  = "var"`, new: `data_dir  = "$${HOME}/var"`, typ: "type", line: "HOME"},
	{name: "directive of a template not closed", old: `data_dir  = "var"`, new: `data_dir  = "%{ if true }var"`, typ: "syntax", line: "%{ if true }"},
	{name: "percent sign before a brace", old: `data_dir  = "var"`, new: `data_dir  = "100%{x}"`, typ: "syntax", line: "%{x}"},
	{name: "label that is computed", old: `plugin "sat" {`, new: `plugin "${local.provider}" {`, typ: "syntax", line: "local.provider"},
	{name: "hexadecimal number", old: "max_tokens     = 600", new: "max_tokens     = 0x10", typ: "syntax", line: "0x10", hint: true},
	{name: "number for a bool", old: `  optional = true`, new: `  optional = 1`, typ: "type", line: `optional = 1`, hint: true},
	{name: "duration without a unit", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  deadline = 30", typ: "type", line: `30`},
	{name: "unit of another kind", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  deadline = \"5KB\"", typ: "type", line: `5KB`},
	{name: "failure", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  switch_on = [\"runtime/crashd\"]", typ: "unknown-name", line: `crashd`, nearest: "runtime/crashed"},
	{name: "constraint", old: `constraints = { max_chars = 1200 }`, new: `constraints = { max_chars = "1200" }`, typ: "type", line: `"1200"`},
	{name: "program that is not there", old: `"bin/plugins/sat"`, new: `"bin/plugins/saat"`, typ: "plugin-unknown", line: `saat`},
	{name: "range of a network", old: `network = "loopback"`, new: `network = true`, typ: "type", line: `network = true`},
	// Structure.
	{name: "block twice", old: "plugin \"tools\" {", new: "plugin \"sat\" {\n  command = [\"bin/plugins/sat\"]\n}\n\nplugin \"tools\" {", typ: "duplicate", line: `plugin "sat" {`},
	{name: "attribute twice", old: "  provides = \"chess/engine\"", new: "  provides = \"chess/engine\"\n  provides = \"chess/engine\"", typ: "duplicate", line: `provides`},
	{name: "nested block twice", old: "  repair { max = 1 }", new: "  repair { max = 1 }\n  repair { max = 2 }", typ: "duplicate", line: `max = 2`},
	{name: "plugin under a second name", old: "plugin \"tools\" {", new: "plugin \"sat2\" {\n  command = [\"bin/plugins/sat\"]\n}\n\nplugin \"tools\" {", typ: "duplicate", line: `plugin "sat2" {`},
	{name: "attribute for a block", old: "  repair { max = 1 }", new: "  repair = { max = 1 }", typ: "type", line: `repair =`},
	{name: "block for an attribute", old: `constraints = { max_chars = 1200 }`, new: `constraints { max_chars = 1200 }`, typ: "type", line: `constraints {`},
	{name: "attribute outside its block", old: "  repair { max = 1 }", new: "  fallback = 2\n  repair { max = 1 }", typ: "unknown-name", line: `fallback = 2`},
	{name: "config beside its plugin", old: "plugin \"sat\" {\n", new: "config {\n  depth = 4\n}\n\nplugin \"sat\" {\n", typ: "unknown-name", line: "config {"},
	{name: "intent in a plugin", old: "  command = [\"bin/plugins/sat\"]\n", new: "  command = [\"bin/plugins/sat\"]\n  intent \"sat/verify\" {}\n", typ: "unknown-name", line: `intent "sat/verify"`},
	{name: "plugin attribute in config", old: "    engine = \"builtin\"\n    depth  = 4", new: "    optional = true\n    engine = \"builtin\"\n    depth  = 4", typ: "unknown-name", line: `optional = true`, nearest: "options"},
	{name: "required attribute missing", old: "  command = [\"bin/plugins/sat\"]\n", new: "", typ: "missing", line: `plugin "sat" {`},
	{name: "plugin of a capability missing", old: "  plugin   = \"chess\"\n", new: "", typ: "missing", line: `capability "chess/embedded" {`},
	{name: "kind of a check missing", old: "  intent = \"chess/verify-move\"\n", new: "", typ: "missing", line: `check "legal-move" {`},
	{name: "include of nothing", old: "ferment {", new: "include \"extra/*.hcl\" {}\n\nferment {", typ: "include", line: `extra/*.hcl`},
	{name: "local twice", old: "  openai    = env", new: "  spare = false\n  openai    = env", typ: "duplicate", line: `spare `},
	{name: "local that needs itself", old: "  openai    = env(\"OPENAI_API_KEY\", \"\") != \"\"", new: "  openai    = local.openai", typ: "cycle", line: `openai    = local.openai`},
}

// HCL-002, HCL-032: one mistake in a shipped file gives one error at its line, with the expected values and the nearest
// name, and no consequential warning.
func TestOneMistakeOneError(t *testing.T) {
	shipped := shippedPlugins(t)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			file := m.file
			if file == "" {
				file = "ferment.hcl"
			}
			raw, err := os.ReadFile(filepath.Join("../../../..", file))
			require.NoError(t, err)
			old, atEnd := strings.CutSuffix(m.old, "\x00")
			text := string(raw)
			at := strings.Index(text, old)
			if atEnd {
				at = strings.LastIndex(text, old)
			}
			require.GreaterOrEqual(t, at, 0, "the file has no %q", old)
			text = text[:at] + m.new + text[at+len(old):]
			ds := loadShipped(t, file, text, shipped, lock.Ignored)
			assertOne(t, m, text, ds)
		})
	}
}

// An error in the ferment block does not cause diagnostics about the lock file.
func TestWrongProfileIsNotAWrongLockFile(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	for _, edit := range [][2]string{{`"dev"`, `"development"`}, {`profile   =`, `profil    =`}, {`lock_file = "bin`, `lock_file = bin`}, {"ferment {", "fermnt {"}} {
		ds := loadShipped(t, "ferment.hcl", strings.Replace(string(raw), edit[0], edit[1], 1), shippedPlugins(t), lock.Checked)
		assert.Equal(t, 1, ds.Count(diag.SeverityError), diag.NewReport(ds, 0, 1, 0).Text(false))
		assert.Zero(t, ds.Count(diag.SeverityWarning), diag.NewReport(ds, 0, 1, 0).Text(false))
	}
}

// HCL-002, HCL-032: a misspelt label of a plugin is not in the lock file either. That is one
// error, with the locked label, or the error of the block that refers to it.
func TestMisspeltLabelIsNotAWrongLockFile(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	c, _ := configOf(t, "ferment.hcl", string(raw), shippedPlugins(t), lock.Checked)
	var locked lock.File
	for _, p := range c.Plugins {
		if p.Described {
			locked = locked.With(p.LockEntry())
		}
	}
	entries, err := locked.Encode()
	require.NoError(t, err)
	described := shippedPlugins(t)
	described["sta"] = described["sat"]
	for _, tt := range []struct{ label, wrong, typ, near string }{
		{"chess", "ches", "config/dangling-reference", "ches"},
		{"sat", "sta", "config/lock", "sat"},
	} {
		for _, profile := range []string{"dev", "prod"} {
			text := strings.Replace(string(raw), `plugin "`+tt.label+`" {`, `plugin "`+tt.wrong+`" {`, 1)
			dir := layShipped(t, "ferment.hcl", text)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/ferment.lock.hcl"), entries, 0o644))
			_, ds := config.Load(t.Context(), filepath.Join(dir, "ferment.hcl"),
				config.Options{Describer: described, Env: configtest.NoEnv, Locking: lock.Checked, Profile: profile})
			told := slices.DeleteFunc(ds, func(d diag.Diagnostic) bool { return d.Severity == diag.SeverityInfo })
			require.Len(t, told, 1, diag.NewReport(told, 0, 1, 0).Text(false))
			assert.Equal(t, tt.typ, told[0].Type)
			assert.Equal(t, tt.near, told[0].Nearest)
			assert.Contains(t, told[0].Hint, tt.near)
		}
	}
}

// HCL-029: a missing name that a disabled plugin may define is reported with the plugin, also for a built-in check
// (GATE-002).
func TestDisabledPluginIsNamed(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	// The number of names that only the plugin gives: each is at the error or one of its
	// related places.
	for plugin, names := range map[string]int{
		"sat": 4, "text": 8, "testrunner": 2, "workspace": 2, "judge": 3, "agent": 1, "tools": 0, "chess": 0,
	} {
		ds := loadShipped(t, "ferment.hcl", withDisabled(string(raw), plugin), shippedPlugins(t), lock.Ignored)
		shown := diag.NewReport(ds, 0, 1, 0).Text(false)
		require.Equal(t, min(names, 1), ds.Count(diag.SeverityError), shown)
		assert.Zero(t, ds.Count(diag.SeverityWarning), shown)
		for _, d := range ds {
			if d.Severity == diag.SeverityError {
				assert.Equal(t, "config/dangling-reference", d.Type)
				assert.Contains(t, d.Message, `plugin "`+plugin+`" is disabled`)
				assert.Len(t, d.Related, names, shown)
				assert.Empty(t, d.Nearest, "a name that only begins like it")
			}
		}
	}
}

// HCL-029: of several disabled plugins, the lock file has the one that gives a name.
func TestDisabledPluginsOfTheLockFile(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	const locked = `lock {
  format = 1
}

plugin "testrunner" {
  version  = "1.0.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  capability "code/runner" {
    effects = ["none"]
    intents = ["code/apply-patch", "code/test"]
  }
}

plugin "workspace" {
  version  = "1.0.0"
  protocol = "ferment.plugin.v1"
  needs    = []

  capability "context/writer" {
    effects = ["none"]
    intents = ["context/generate"]
  }
}
`
	dir := layShipped(t, "ferment.hcl", withDisabled(string(raw), "testrunner", "workspace"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/ferment.lock.hcl"), []byte(locked), 0o644))
	_, ds := config.Load(t.Context(), filepath.Join(dir, "ferment.hcl"),
		config.Options{Describer: shippedPlugins(t), Env: configtest.NoEnv, Locking: lock.Checked})
	shown := diag.NewReport(ds, 0, 1, 0).Text(false)
	require.Equal(t, 2, ds.Count(diag.SeverityError), shown)
	assert.Contains(t, shown, `disables plugin "testrunner"`)
	assert.Contains(t, shown, `disables plugin "workspace"`)
}

// withDisabled disables plugins of a configuration.
func withDisabled(text string, plugins ...string) string {
	for _, name := range plugins {
		header := "plugin \"" + name + "\" {\n"
		text = strings.Replace(text, header, header+"  enabled = false\n", 1)
	}
	return text
}

// HCL-029, HCL-032: the names that a disabled plugin may define are one mistake, reported at its enabled = false, also
// if another plugin is disabled or another name is similar.
func TestDisabledPluginIsOneMistake(t *testing.T) {
	const text = `plugin "chess" {
  command = ["bin/plugins/chess"]
  enabled = false
}

plugin "words" {
  command = ["bin/plugins/text"]
  enabled = false
}

intent "chess/best-move" {
  in         = "req/chess.place"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/embedded"]

  done { must = ["schema-valid", "legal-move"] }
}

check "legal-move" { intent = "chess/verify-move" }
`
	ds := loadShipped(t, "ferment.hcl", text, shippedPlugins(t), lock.Ignored)
	require.Equal(t, 1, ds.Count(diag.SeverityError), diag.NewReport(ds, 0, 1, 0).Text(false))
	d := ds[slices.IndexFunc(ds, func(d diag.Diagnostic) bool { return d.Severity == diag.SeverityError })]
	assert.Equal(t, "config/dangling-reference", d.Type)
	lines := []int{d.Range.Start.Line}
	for _, r := range d.Related {
		lines = append(lines, r.Range.Start.Line)
	}
	assert.Equal(t, []int{19, 3, 12, 14}, lines, d.Text())
}

// ISO-002, HCL-021: 0 is no limit, also where a limit has a minimum.
func TestNoLimit(t *testing.T) {
	const text = "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  isolation {\n    memory    = 0\n    processes = 0\n    file_size = \"0B\"\n    cpu       = 0\n  }\n}\n"
	c, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess()}, nil)
	assert.Empty(t, ds, c.Report(0).Text(false))
	assert.Zero(t, c.Plugins[0].Isolation.Limits.Memory)
	assert.Zero(t, c.Plugins[0].Isolation.Limits.FileSize)
}

// HCL-002: a known block or attribute in a wrong place is reported with the places that accept it and with the names
// that its place accepts.
func TestBlocksInAWrongPlace(t *testing.T) {
	for _, tt := range []struct {
		name, text, hint, accepted string
	}{
		{"of another block", "intent \"a/b\" {\n  retry { fallback = 1 }\n}\n", "`dispatch \"NAME\" { ... }`", "candidates"},
		{"at the top", "retry {\n  fallback = 1\n}\n", "`dispatch \"NAME\" { ... }`", "dispatch"},
		{"of the top", "http {\n  judge \"x\" {}\n}\n", "the file", "listen"},
		{"with a similar name in its place", "plugin \"p\" {\n  command = [\"x\"]\n  retry { fallback = 1 }\n}\n",
			"`dispatch \"NAME\" { ... }`", "restart"},
		{"attribute of a block in a block", "dispatch \"d\" {\n  memory = \"1GB\"\n}\n", "`plugin \"NAME\" { isolation { ... } }`", "retry"},
		{"attribute of a block inside", "plugin \"p\" {\n  command = [\"x\"]\n  memory  = \"1GB\"\n}\n", "`isolation { ... }`", "isolation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, ds := configtest.LoadWith(t, tt.text, nil, nil)
			i := slices.IndexFunc(ds, func(d diag.Diagnostic) bool { return d.Type == "config/unknown-name" })
			require.GreaterOrEqual(t, i, 0, diag.NewReport(ds, 0, 1, 0).Text(false))
			assert.Contains(t, ds[i].Hint, tt.hint)
			assert.Contains(t, diag.Plain(ds[i].Expected), tt.accepted)
			assert.Empty(t, ds[i].Nearest)
		})
	}
}

// failing is a describer of plugins that cannot be described.
type failing struct{ err error }

func (f failing) Describe(context.Context, plugins.Plugin, edn.Value) (contract.Description, error) {
	return contract.Description{}, f.err
}

// CONF-001: the hint for a plugin that cannot be described is a whole command: a program may be an interpreter.
func TestConformHintIsTheCommand(t *testing.T) {
	for command, want := range map[string]string{
		`["bin/chess", "main.py", "--name", "it's a test"]`: `bin/chess main.py --name 'it'\''s a test'`,
		`["./run.sh"]`: "./run.sh",
	} {
		path := configtest.Write(t, "plugin \"chess\" {\n  command = "+command+"\n}\n")
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "run.sh"), []byte("program"), 0o755))
		ended := contract.Errorf("runtime/start-failed", "it ended")
		_, ds := config.Load(t.Context(), path, config.Options{Describer: failing{ended}, Env: configtest.NoEnv})
		require.Len(t, ds, 1)
		assert.Equal(t, "config/plugin-unknown", ds[0].Type)
		assert.Contains(t, ds[0].Hint, "`ferment conform -- "+want+"`")
		assert.NotContains(t, ds[0].Message, ended.Type)
	}
}

// ISO-001: the hint for a plugin whose isolation denied a file names the setting that grants it. A program without
// isolation, and one that may read the file, fails for another reason.
func TestHintForADeniedFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     `add "helper.py" to files`,
		"  isolation { level = \"strict\" }\n": `add "helper.py" to files`,
		"  files = [\"helper.py\"]\n":          "ferment conform",
		"  isolation { level = \"none\" }\n":   "ferment conform",
	} {
		for _, says := range []string{
			"PermissionError: [Errno 13] Permission denied: '%s'", "Error: EACCES: permission denied, open '%s'",
			"open %s: permission denied", "ENOENT: no such file, open '%s'",
		} {
			path := configtest.Write(t, "plugin \"x\" {\n  command = [\"./run.sh\"]\n"+text+"}\n")
			dir := filepath.Dir(path)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("program"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "helper.py"), []byte("module"), 0o644))
			ended := contract.Errorf("runtime/start-failed", "it ended; last line: "+says, filepath.Join(dir, "helper.py"))
			_, ds := config.Load(t.Context(), path, config.Options{Describer: failing{ended}, Env: configtest.NoEnv})
			require.NotEmpty(t, ds)
			expected := want
			if strings.HasPrefix(says, "ENOENT") {
				expected = "ferment conform"
			}
			assert.Contains(t, ds[0].Hint, expected, "%q %s", text, says)
		}
	}
}

// ENV-011: what was expected of the metadata of a plugin is complete, whatever was found.
func TestExpectedMetadataIsNotCut(t *testing.T) {
	_, err := contract.ParseCapability(edn.MustRead(`{:cap/id :a/b :cap/kind :solver :cap/version "1" :cap/intents #{:a/b}
		:cap/effects #{:fs/reed} :io/in-schema :req/any :io/out-schema :res/any :cap/stability "` + strings.Repeat("stable ", 60) + `"}`))
	require.Error(t, err)
	fields := contract.AsError(err).Details.Key("invalid-fields")
	first, _ := fields.Nth(0)
	expected := first.Key("expected")
	require.False(t, expected.IsNil(), fields.String())
	_, ds := config.Load(t.Context(), configtest.Write(t, configtest.OnePlugin), config.Options{Describer: failing{err}, Env: configtest.NoEnv})
	require.Len(t, ds, 1)
	assert.Equal(t, "capability/invalid-metadata", ds[0].Type)
	assert.Contains(t, ds[0].Message, "expected "+expected.String())
}

// CALL-013: a plugin whose patterns would need too much memory cannot be used; the host does not compile
// them.
func TestPatternsOfAPluginAreBounded(t *testing.T) {
	many := []edn.Value{edn.K("or")}
	for i := range 40_000 {
		many = append(many, edn.Vector(edn.K("re"), edn.Text(fmt.Sprintf("x{990}%d", i))))
	}
	d := contract.Description{Name: "greedy", Schemas: map[string]edn.Value{"req/greedy": edn.Vector(many...)}}
	_, ds := config.Load(t.Context(), configtest.Write(t, configtest.OnePlugin), config.Options{Describer: describing{d}, Env: configtest.NoEnv})
	require.Len(t, ds, 1)
	assert.Equal(t, "capability/invalid-metadata", ds[0].Type)
	assert.Contains(t, ds[0].Message, "100000 instructions")
}

// describing describes every plugin in the same way.
type describing struct{ d contract.Description }

func (f describing) Describe(context.Context, plugins.Plugin, edn.Value) (contract.Description, error) {
	return f.d, nil
}

// HCL-013: an unknown profile in the environment does not cause diagnostics about the lock file.
func TestWrongProfileOfTheEnvironment(t *testing.T) {
	env := func(name string) (string, bool) { return "nonsense", name == files.ProfileVariable }
	_, ds := config.Load(context.Background(), configtest.Write(t, configtest.OnePlugin), config.Options{Describer: configtest.Describer{"chess": configtest.Chess()}, Env: env})
	assert.Equal(t, []string{"config/range"}, configtest.Types(ds))
}

func loadShipped(t *testing.T, file, text string, d plugins.Describer, locking lock.Mode) diag.Diagnostics {
	t.Helper()
	_, ds := configOf(t, file, text, d, locking)
	return ds
}

func configOf(t *testing.T, file, text string, d plugins.Describer, locking lock.Mode) (*config.Config, diag.Diagnostics) {
	t.Helper()
	path := filepath.Join(layShipped(t, file, text), file)
	return config.Load(context.Background(), path, config.Options{Describer: d, Env: configtest.NoEnv, Locking: locking})
}

// layShipped creates a directory with a file of the repository and the files that the shipped files name.
func layShipped(t *testing.T, file, text string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin/plugins"), 0o755))
	for _, name := range []string{"agent", "chess", "db", "sat", "testrunner", "tools", "text", "judge", "llm", "mlx", "scripted", "workspace"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/plugins", name), []byte("program"), 0o755))
	}
	for _, name := range []string{"talkers.edn", "models.edn"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte("{}"), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(path), "data/in"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(path), "data/out"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(path), "data/db"), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return dir
}

// Mistakes in plans: the file is below examples/plans, typ is the check, and line a part of the line.
var planMistakes = []mistake{
	{name: "op", file: "hello.edn", old: ":op :call", new: ":op :cal", typ: "CHECK-010", line: ":op :cal", nearest: ":call"},
	{name: "second op", file: "hello.edn", old: ":op :emit", new: ":op :emti", typ: "CHECK-010", line: ":op :emti", nearest: ":emit"},
	{name: "key of a node", file: "hello.edn", old: ":intent :text/render", new: ":inten :text/render", typ: "CHECK-010", line: ":inten", nearest: ":intent"},
	{name: "key of the plan", file: "hello.edn", old: ":bindings", new: ":binding", typ: "CHECK-010", line: ":binding", nearest: ":bindings"},
	{name: "intent", file: "hello.edn", old: ":text/render", new: ":text/rendr", typ: "CHECK-011", line: ":text/rendr", nearest: ":text/render"},
	{name: "slot of a binding", file: "hello.edn", old: "{:slot/id :name}", new: "{:slot/id :nmae}", typ: "CHECK-017", line: ":nmae", nearest: ":name"},
	{name: "slot of a node", file: "hello.edn", old: ":input :greeting", new: ":input :greting", typ: "CHECK-017", line: ":greting", nearest: ":greeting"},
	{name: "name of a node", file: "hello.edn", old: ":as :greeting", new: ":as :greting", typ: "CHECK-017", line: ":input :greeting", nearest: ":greting"},
	{name: "op missing", file: "hello.edn", old: "{:op :emit :input :greeting}", new: "{:input :greeting}", typ: "CHECK-015", line: "{:input :greeting}"},
	{name: "text for a map", file: "hello.edn", old: ":nodes [", new: ":nodes 1 #_[", typ: "CHECK-015", line: ":nodes 1"},
	{name: "check", file: "gates.edn", old: "#{:legal-move}", new: "#{:legal-moves}", typ: "CHECK-014", line: ":legal-moves", nearest: ":legal-move"},
	{name: "vector for a set", file: "gates.edn", old: "#{:legal-move}", new: ":legal-move", typ: "CHECK-015", line: ":must :legal-move", nearest: "#{:legal-move}"},
	{name: "score out of range", file: "gates.edn", old: ":score-min 0.8", new: ":score-min 80", typ: "CHECK-015", line: ":score-min 80"},
	{name: "key of done", file: "gates.edn", old: ":score-min 0.8", new: ":score-mn 0.8", typ: "CHECK-010", line: ":score-mn", nearest: ":score-min"},
	{name: "path into a slot", file: "gates.edn", old: "[:move :mate]", new: "[:mve :mate]", typ: "CHECK-017", line: "[:mve :mate]", nearest: ":move"},
	{name: "name twice", file: "slots.edn", old: ":as :letter", new: ":as :summary", typ: "CHECK-016", line: ":as :summary"},
	{name: "body of a map missing", file: "map.edn", old: ":body [{", new: ":bdy [{", typ: "CHECK-010", line: ":bdy", nearest: ":body"},
	{name: "input of a call with a gate", file: "gates.edn", old: ":input {:fen", new: ":inptu {:fen", typ: "CHECK-010", line: ":inptu", nearest: ":input"},
	{name: "key of a gate", file: "gates.edn", old: ":must", new: ":mst", typ: "CHECK-010", line: ":mst", nearest: ":must"},
	{name: "slot of a gate", file: "gates.edn", old: ":as :move", new: ":ass :move", typ: "CHECK-010", line: ":ass :move", nearest: ":as"},
	{name: "colon of a key of the plan", file: "hello.edn", old: ":bindings", new: "bindings", typ: "CHECK-010", line: "bindings", nearest: ":bindings"},
	{name: "colon of a key of a node", file: "hello.edn", old: ":input {", new: "input {", typ: "CHECK-010", line: "input {", nearest: ":input"},
	{name: "colon of a slot", file: "hello.edn", old: "{:slot/id :name}", new: "{slot/id :name}", typ: "CHECK-044", line: "{slot/id", nearest: ":slot/id"},
	{name: "condition", file: "failure.edn", old: ":when {:failed? :move}", new: ":when {:faled? :move}", typ: "CHECK-015", line: ":faled?", nearest: ":failed?"},
	{name: "condition of an emit", file: "failure.edn", old: "{:op :emit :when {:failed?", new: "{:op :emit :when {:faled?", typ: "CHECK-015", line: ":faled?", nearest: ":failed?"},
	{name: "condition inside a condition", file: "failure.edn", old: "{:not {:failed?", new: "{:not {:faled?", typ: "CHECK-015", line: ":faled?", nearest: ":failed?"},
	{name: "negated condition", file: "failure.edn", old: "{:not {:failed?", new: "{:nt {:failed?", typ: "CHECK-015", line: ":nt"},
	{name: "number for a keyword", file: "map.edn", old: "2 :on-item-error :keep", new: "2 :on-item-error 1", typ: "CHECK-015", line: ":on-item-error 1"},
	{name: "vector for a node", file: "hello.edn", old: ":nodes [{", new: ":nodes [[:op] #_{", typ: "CHECK-015", line: "[:op]"},
	{name: "key of a slot of an emit", file: "gates.edn", old: "{:slot/path [:move :mate]}", new: "{:slot/pth [:move :mate]}", typ: "CHECK-044", line: ":slot/pth", nearest: ":slot/path"},
	{name: "word", file: "map.edn", old: "2 :on-item-error :keep", new: "2 :on-item-error :kep", typ: "CHECK-015", line: ":kep", nearest: ":keep"},
}

// CHECK-001: one mistake in a plan gives one finding.
func TestOneMistakeOneFinding(t *testing.T) {
	root := "../../../.."
	raw, err := os.ReadFile(filepath.Join(root, "ferment.hcl"))
	require.NoError(t, err)
	c, _ := configOf(t, "ferment.hcl", string(raw), shippedPlugins(t), lock.Ignored)
	require.NotNil(t, c.Generation)
	env := plan.Env{
		Registry: c.Generation.Registry,
		Policies: c.Generation.Policies,
		Grant:    c.Generation.Effects.Grant(policy.Caller{Roles: []string{policy.RoleAdmin}}),
		Budgets:  c.Generation.Budgets,
	}
	for _, m := range planMistakes {
		t.Run(m.name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(root, "examples/plans", m.file))
			require.NoError(t, err)
			require.Contains(t, string(raw), m.old)
			text := strings.Replace(string(raw), m.old, m.new, 1)
			v, positions, err := edn.ReadWithPositions([]byte(text))
			require.NoError(t, err)
			p, findings := plan.Parse(v, positions)
			if p != nil {
				findings = plan.Check(p, env)
			}
			require.Len(t, findings, 1, "%v", findings)
			f := findings[0]
			assert.Equal(t, m.typ, f.Check)
			assert.Contains(t, strings.Split(text, "\n")[f.Line-1], m.line)
			near := ""
			if !f.Nearest.IsNil() {
				near = f.Nearest.String()
			}
			assert.Equal(t, m.nearest, near, f.Message)
		})
	}
}

func assertOne(t *testing.T, m mistake, text string, ds diag.Diagnostics) {
	t.Helper()
	var told diag.Diagnostics
	for _, d := range ds {
		if d.Severity != diag.SeverityInfo {
			told = append(told, d)
		}
	}
	if !assert.Len(t, told, 1, diag.NewReport(told, 0, 1, 0).Text(false)) {
		return
	}
	d := told[0]
	assert.Equal(t, map[bool]diag.Severity{true: diag.SeverityWarning, false: diag.SeverityError}[m.warning], d.Severity)
	typ := m.typ
	if !strings.Contains(typ, "/") {
		typ = "config/" + typ
	}
	assert.Equal(t, typ, d.Type, d.Text())
	require.NotNil(t, d.Range)
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	assert.Contains(t, lines[d.Range.Start.Line-1], m.line, d.Text())
	assert.Equal(t, m.nearest, d.Nearest, d.Text())
	assert.NotEqual(t, "", strings.TrimSpace(diag.Plain(d.Expected)), d.Text())
	assert.Contains(t, d.Hint, m.says, d.Text())
	assert.False(t, m.hint && d.Hint == "", "says not what to do: %s", d.Text())
	assert.False(t, d.Expected.IsNil() && d.Hint == "", "says neither what was expected nor what to do: %s", d.Text())
}

// HCL-005: a file in a configuration directory that is not read because of its name is reported with the correct name.
func TestUnreadFiles(t *testing.T) {
	for name, near := range map[string]string{
		"common/10.json":             "common/10.hcl.json",
		"common/development/a.hcl":   "common/dev",
		"local/production/a.hcl":     "local/prod",
		"common/elsewhere/a.hcl":     "",
		"common/notes.txt":           "none",
		"common/data.json":           "none", // an expression reads it
		"common/test/a.hcl":          "none", // file of another profile
		"common/fragments/notes.txt": "none",
		"site.hcl":                   "",
		"site.hcl.json":              "",
		"ferment.hcl.bak":            "none", // backup copy
		"terragrunt.hcl":             "none", // file of another program
		"locals/a.hcl":               "local",
		"dev/a.hcl":                  "local/dev",
		"examples/a.hcl":             "none",
		"package.json":               "none",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"ferment.hcl":      "locals { data = file(\"common/data.json\") }\n",
				"common/a.hcl":     "prompts { default = [local.data] }\n",
				"common/data.json": "{}",
				name:               "{}",
			} {
				switch {
				case file == "terragrunt.hcl":
					text = "locals {}\n\nterraform {}\n"
				case file == "site.hcl.json":
					text = `{"ferment": {"max_nodes": 10}}`
				case file == name && strings.HasSuffix(name, ".hcl"):
					text = "ferment { max_nodes = 10 }\n"
				}
				path := filepath.Join(dir, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			_, ds := config.Load(t.Context(), dir, config.Options{Env: configtest.NoEnv, Advise: true})
			if near == "none" {
				assert.Empty(t, ds)
				return
			}
			require.Len(t, ds, 1, diag.NewReport(ds, 0, 1, 0).Text(false))
			assert.Equal(t, "config/unused", ds[0].Type)
			assert.Equal(t, near, ds[0].Nearest)
		})
	}
}

// HCL-017: an unset variable is reported with a similar variable of an .env file.
func TestNearVariable(t *testing.T) {
	path := configtest.Write(t, "locals { key = env(\"OPENAI_MODLE\") }\n")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), ".env"), []byte("OPENAI_MODEL=x\n"), 0o600))
	_, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
	require.Equal(t, []string{"config/env-missing"}, configtest.Types(ds))
	assert.Equal(t, "OPENAI_MODEL", ds[0].Nearest)
}

// HCL-017, HCL-032: a variable that is missing because its line is wrong gives the error of the line only.
func TestVariableOfWrongLine(t *testing.T) {
	for _, use := range []string{
		"locals {\n  key = env(\"KEY\")\n}\nferment {\n  data_dir = \"${local.key}/x\"\n}\n",
		"effects {\n  secret \"key\" {\n    value = secret(\"env:KEY\")\n  }\n}\n",
	} {
		path := configtest.Write(t, use)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), ".env"), []byte("KEY value\n"), 0o600))
		_, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
		require.Equal(t, []string{"config/syntax"}, configtest.Types(ds), use)
		assert.Equal(t, ".env", ds[0].Range.File)
	}
}

// HCL-017, HCL-026: a secret of an unset variable is reported with a similar variable of an .env file.
func TestNearVariableOfSecret(t *testing.T) {
	path := configtest.Write(t, "effects {\n  secret \"key\" {\n    value = secret(\"env:SEARCH_KYE\")\n  }\n}\n")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), ".env"), []byte("SEARCH_KEY=x\n"), 0o600))
	_, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
	require.Equal(t, []string{"config/secret-missing"}, configtest.Types(ds))
	assert.Equal(t, "SEARCH_KEY", ds[0].Nearest)
}

// HCL-017, HCL-032: an unset variable gives one error, regardless of the number of places that read it.
func TestMissingVariableOnce(t *testing.T) {
	_, ds := config.Load(t.Context(), configtest.Write(t, "ferment {\n  mode     = env(\"NOPE\")\n  data_dir = \"${env(\"NOPE\")}/x\"\n  seed     = tonumber(env(\"NOPE\"))\n}\n"), config.Options{Env: configtest.NoEnv})
	require.Equal(t, []string{"config/env-missing"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "NOPE")
	assert.Equal(t, 2, ds[0].More)
	assert.Contains(t, ds[0].Hint, "NOPE")
}

// OPS-002: the default admin socket is in the data directory. A data directory whose path is too long for a socket is
// reported with a hint; an admin_socket elsewhere resolves it.
func TestDeepDataDirectory(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 60), strings.Repeat("e", 60))
	require.NoError(t, os.MkdirAll(deep, 0o755))
	for text, want := range map[string][]string{
		"ferment {\n  max_nodes = 10\n}\n":                                   {"config/range"},
		"ferment {\n  data_dir = \"x\"\n}\n":                                 {"config/range"},
		"http {\n  admin_socket = \"/run/ferment.sock\"\n}\n":                nil,
		"ferment {\n  data_dir = \"/var/lib/ferment\"\n}\n":                  nil,
		"ferment {\n  max_nodes = 10\n}\nhttp {\n  admin_socket = null\n}\n": {"config/range"},
	} {
		path := filepath.Join(deep, "ferment.hcl")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		c, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv, Advise: true})
		require.Equal(t, want, configtest.AllTypes(ds), "%s%s", text, c.Report(0).Text(false))
		assert.NotNil(t, c.Generation, "a run without a daemon needs no socket")
		for _, d := range ds {
			assert.Equal(t, diag.SeverityWarning, d.Severity)
			assert.Contains(t, d.Hint, "admin_socket")
			assert.Contains(t, d.Hint, "data_dir")
			assert.Equal(t, "ferment.hcl", d.Range.File)
		}
	}
}

// HCL-014: a block of a later file with a misspelt label overrides nothing. One finding names the block of the other
// file.
func TestMisspeltLabelOfOverlay(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	shipped := shippedPlugins(t)
	for overlay, want := range map[string]struct{ typ, nearest string }{
		"plugin \"stt\" {\n  optional = true\n}":                               {"config/missing", "sat"},
		"capability \"chess/embeded\" {\n  enabled = false\n}":                 {"config/missing", "chess/embedded"},
		"intent \"chess/best-mve\" {\n  deadline = \"3s\"\n}":                  {"config/missing", "chess/best-move"},
		"intent \"chess/best-mve\" {\n  candidates = [\"chess/embedded\"]\n}":  {"config/missing", "chess/best-move"},
		"check \"legal-mve\" {\n  timeout = \"2s\"\n}":                         {"config/missing", "legal-move"},
		"rubric \"pach\" {\n  version = 3\n}":                                  {"judge/rubric-invalid", "patch"},
		"dispatch \"quality_frist\" {\n  deadline = \"2s\"\n}":                 {"config/unused", "quality_first"},
		"judge \"pach\" {\n  votes = 3\n}":                                     {"config/unused", "patch"},
		"locals {\n  provder = \"x\"\n}":                                       {"config/unused", "provider"},
		"prompts {\n  roles = { vioce = \"A person\" }\n}":                     {"protocol/invalid", "voice"},
		"prompts {\n  intents = { \"text/repsond\" = \"Be short.\" }\n}":       {"protocol/invalid", "text/respond"},
		"effects {\n  scope \"fs/raed\" {\n    enabled = false\n  }\n}":        {"config/unknown-name", "fs/read"},
		"budget \"usr\" {\n  max_usd = 3\n}":                                   {"config/unknown-name", "user"},
		"plugin \"another-one\" {\n  optional = true\n}":                       {"config/missing", ""},
		"capability \"chess/embeded\" {\n  plugin = \"chess\"\n  tags = []\n}": {"config/dangling-reference", "chess/embedded"},
	} {
		t.Run(overlay, func(t *testing.T) {
			dir := layShipped(t, "ferment.hcl", string(raw))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "local"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "local/a.hcl"), []byte(overlay+"\n"), 0o644))
			_, ds := config.Load(t.Context(), dir, config.Options{Describer: shipped, Env: configtest.NoEnv, Locking: lock.Ignored})
			ds = slices.DeleteFunc(ds, func(d diag.Diagnostic) bool { return d.Severity == diag.SeverityInfo })
			require.Len(t, ds, 1, diag.NewReport(ds, 0, 1, 0).Text(false))
			assert.Equal(t, want.typ, ds[0].Type)
			assert.Equal(t, "local/a.hcl", ds[0].Range.File)
			assert.Equal(t, want.nearest, ds[0].Nearest, ds[0].Text())
		})
	}
}

// HCL-002, HCL-014: a required attribute that an overlay sets to null is reported at the null, with the value below it.
func TestNullOfARequiredAttribute(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	dir := layShipped(t, "ferment.hcl", string(raw))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "local"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "local/a.hcl"), []byte("plugin \"sat\" {\n  command = null\n}\n"), 0o644))
	_, ds := config.Load(t.Context(), dir, config.Options{Describer: shippedPlugins(t), Env: configtest.NoEnv, Locking: lock.Ignored})
	ds = slices.DeleteFunc(ds, func(d diag.Diagnostic) bool { return d.Severity == diag.SeverityInfo })
	require.Len(t, ds, 1, diag.NewReport(ds, 0, 1, 0).Text(false))
	assert.Equal(t, "config/missing", ds[0].Type)
	assert.Equal(t, "local/a.hcl", ds[0].Range.File)
	assert.Equal(t, 2, ds[0].Range.Start.Line)
	assert.NotEmpty(t, ds[0].Hint)
	require.Len(t, ds[0].Related, 1)
	assert.Equal(t, "ferment.hcl", ds[0].Related[0].Range.File)
}

// HCL-019: a literal secret in the config of a disabled plugin is never shown.
func TestSecretOfDisabledPlugin(t *testing.T) {
	const secret = "sk-written-out-4711"
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	text := strings.Replace(string(raw), `secret("env:OPENAI_API_KEY")`, diag.Quote(secret), 1)
	for _, wrong := range []string{"", "broken = local.absent\n"} {
		text := strings.Replace(text, diag.Quote(secret)+"\n", diag.Quote(secret)+"\n    "+wrong, 1)
		c, ds := configOf(t, "ferment.hcl", text, shippedPlugins(t), lock.Ignored)
		assert.NotContains(t, diag.NewReport(ds, 0, 1, 0).Text(false), secret)
		for _, defaults := range []bool{false, true} {
			shown, err := view.Show(c, view.ShowOptions{Defaults: defaults})
			require.NoError(t, err)
			assert.NotContains(t, shown, secret)
		}
	}
}

// The shipped files have no finding with LF and CRLF line ends.
func TestShippedFilesAreRight(t *testing.T) {
	shipped := shippedPlugins(t)
	for _, file := range []string{"ferment.hcl", streaming, models, effectful} {
		raw, err := os.ReadFile(filepath.Join("../../../..", file))
		require.NoError(t, err)
		for _, text := range []string{string(raw), "\ufeff" + string(raw), strings.ReplaceAll(string(raw), "\n", "\r\n")} {
			for _, d := range loadShipped(t, file, text, shipped, lock.Ignored) {
				assert.Equal(t, diag.SeverityInfo, d.Severity, d.Text())
			}
		}
	}
}

// A program name is relative to the file; the hint shows the program of that name
// in PATH.
func TestProgramOfPath(t *testing.T) {
	bin := t.TempDir()
	tool := filepath.Join(bin, "tool")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700))
	env := func(name string) (string, bool) { return bin, name == "PATH" }
	for command, hint := range map[string]string{
		"tool":       tool,
		"other":      "install",
		"below/tool": "install",
	} {
		_, ds := config.Load(t.Context(), configtest.Write(t, "plugin \"p\" {\n  command = [\""+command+"\"]\n}\n"), config.Options{Env: env})
		require.Equal(t, []string{"config/plugin-unknown"}, configtest.Types(ds), command)
		assert.Contains(t, ds[0].Hint, hint, command)
	}
}

// Every language model name of the shipped file is known without a model, and its
// error names the variable to set.
func TestShippedModelsAreKnownWithoutAKey(t *testing.T) {
	raw, err := os.ReadFile("../../../../ferment.hcl")
	require.NoError(t, err)
	c, ds := configOf(t, "ferment.hcl", string(raw), shippedPlugins(t), lock.Ignored)
	require.False(t, ds.HasErrors(), "%v", ds)
	for _, id := range []string{"llm/voice", "llm/meta", "llm/solver", "llm/code", "llm/router"} {
		a, ok := c.Generation.Registry.Absent(id)
		require.True(t, ok, id)
		assert.Equal(t, "provider/not-configured", a.Why.Type, id)
		for _, variable := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_MODEL", "MLX_MODEL"} {
			assert.Contains(t, a.Why.Hint, variable, id)
		}
	}
	for i := range c.Plugins {
		if p := &c.Plugins[i]; p.Disabled != nil {
			row, _ := contract.Lookup(p.Disabled.Type)
			assert.NotEqual(t, row.Hint, p.Disabled.Hint, p.Name)
			assert.False(t, p.Starts(), p.Name)
		}
	}
}

// HCL-029: a program that is a link to nothing is said to be one, and is not suggested in its own place.
func TestProgramIsADanglingLink(t *testing.T) {
	path := configtest.Write(t, "plugin \"sat\" {\n  command = [\"bin/sat\"]\n}\n")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(filepath.Dir(path), "bin", "sat")))
	_, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
	require.Equal(t, []string{"config/plugin-unknown"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, `link to "nowhere"`)
	assert.NotContains(t, ds[0].Message, "did you mean")
}

// HCL-031: a dispatch block is checked whether or not a block names it.
func TestUnusedDispatchIsChecked(t *testing.T) {
	_, ds := configtest.Load(t, "dispatch \"x\" {\n  breaker {\n    ramp = [50, 25]\n  }\n}\n")
	require.Equal(t, []string{"config/range"}, configtest.Types(ds))
	assert.Equal(t, 3, ds[0].Range.Start.Line)
}
