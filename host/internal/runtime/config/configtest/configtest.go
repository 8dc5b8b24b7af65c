package configtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Describer is a plugins.Describer that returns descriptions from a table, by plugin name.
type Describer map[string]contract.Description

// Describe implements plugins.Describer.
func (d Describer) Describe(_ context.Context, p plugins.Plugin, _ edn.Value) (contract.Description, error) {
	return d[p.Name], nil
}

// Chess returns the description of a chess plugin.
func Chess() contract.Description {
	return contract.Description{
		Name: "chess", Version: "1.0.0",
		Capabilities: []contract.Capability{{
			ID: "chess/engine", Kind: "solver", Version: "1.0.0", Intents: []string{"chess/best-move"}, CanProduce: []string{"value"}, Effects: []string{"none"},
			InSchema: contract.SchemaRef{Name: "req/chess.position"}, OutSchema: contract.SchemaRef{Name: "res/chess.move+pv+eval"}, Stability: "stable",
		}},
		Schemas: map[string]edn.Value{"req/chess.position": edn.MustRead(`[:map [:fen :string]]`)},
		ConfigSchema: edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true}
			[:engine {:default "builtin" :doc "search engine"} [:enum "builtin" "uci"]]
			[:depth {:default 6 :doc "search depth in plies"} [:int {:min 1 :max 64}]]
			[:path {:optional true :unit :path :when {:engine "uci"}} :string]
			[:api-key {:optional true :secret true} :string]
			[:model {:block true :labels 1 :optional true} [:map-of {:max 32} :string [:map {:closed true} [:name :string]]]]
			[:extra {:block true :free true :optional true} [:map-of :string :any]]]}`),
	}
}

// Write creates a temporary directory with the text as ferment.hcl and a placeholder program
// bin/chess, and returns the path of the file.
func Write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "chess"), []byte("program"), 0o755))
	path := filepath.Join(dir, "ferment.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Load loads a text with the plugins chess and stockfish described.
func Load(t *testing.T, text string) (*config.Config, diag.Diagnostics) {
	t.Helper()
	return Loader(t)(text)
}

// Loader returns a function that works like [Load], but uses one directory for all texts. It is
// meant for tests that load thousands of texts. It is not safe for concurrent use.
func Loader(t *testing.T) func(text string) (*config.Config, diag.Diagnostics) {
	path := Write(t, "")
	return func(text string) (*config.Config, diag.Diagnostics) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return LoadDir(t, path, config.Options{})
	}
}

// NoEnv is a lookup function for an environment without variables.
func NoEnv(string) (string, bool) { return "", false }

// Sample is a configuration with two chess plugins.
const Sample = `check "short" {
  condition = length(try(result.text, "")) <= 1200
  message   = "keep it below 1200 characters"
}

dispatch "quality_first" {
  switch_on = ["eval/must-failed", "eval/low-score", "timeout/hard", "runtime/crashed", "runtime/not-ready"]
  checks    = [check.short]

  retry { fallback = 2 }
}

plugin "chess" {
  command = ["bin/chess"]

  config {
    depth = 8
  }
}

plugin "stockfish" {
  command = ["bin/chess"]
}

capability "chess/embedded" {
  plugin   = "chess"
  provides = "chess/engine"
}

capability "chess/stockfish" {
  plugin   = plugin.stockfish
  provides = "chess/engine"
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/stockfish", capability["chess/embedded"]]
  dispatch   = dispatch.quality_first

  done { must = ["schema-valid"] }
}
`

// Lay writes files below a new directory and returns it. A content that begins with "-> " is the
// target of a symbolic link.
func Lay(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700)) // executable, because some of them are programs
	}
	return dir
}

// LoadDir loads a directory or a file, with the plugins chess and stockfish described unless opts
// has a Describer. It fails the test if an error has no expectation and no hint.
func LoadDir(t testing.TB, dir string, opts config.Options) (*config.Config, diag.Diagnostics) {
	t.Helper()
	if opts.Env == nil {
		opts.Env = NoEnv
	}
	if opts.Describer == nil {
		opts.Describer = Describer{"chess": Chess(), "stockfish": Chess()}
	}
	c, ds := config.Load(context.Background(), dir, opts)
	for _, d := range ds {
		if d.Severity == diag.SeverityError && d.Hint == "" && d.Nearest == "" && d.Expected.IsNil() {
			t.Errorf("an error says neither what was expected nor what to do:\n%s", d.Text())
		}
	}
	return c, ds
}

// Types returns the types of the errors in ds.
func Types(ds diag.Diagnostics) []string {
	var out []string
	for _, d := range ds {
		if d.Severity == diag.SeverityError {
			out = append(out, d.Type)
		}
	}
	return out
}

// OnePlugin is the smallest configuration with the chess plugin.
const OnePlugin = "plugin \"chess\" {\n  command = [\"bin/chess\"]\n}\n"

// LoadWith loads a text with a describer and environment variables.
func LoadWith(t *testing.T, text string, d plugins.Describer, env map[string]string) (*config.Config, diag.Diagnostics) {
	t.Helper()
	return config.Load(context.Background(), Write(t, text), config.Options{Describer: d, DescribeTimeout: 50 * time.Millisecond,
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
}

const chessPlugin = "plugin \"chess\" {\n  command = [\"bin/chess\"]\n%s\n}\n"

// ChessWith returns a plugin block for chess with further lines in it.
func ChessWith(lines string) string { return strings.Replace(chessPlugin, "%s", lines, 1) }

// SecretText returns the text of the only secret of a plugin.
func SecretText(t *testing.T, p plugins.Plugin) string {
	t.Helper()
	v, err := p.SecretTexts()
	require.NoError(t, err)
	for _, x := range v.Entries() {
		s, _ := x.AsString()
		return s
	}
	return ""
}

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares a text with a committed file; with -update it writes the file.
func Golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "%s", path)
}

// AFile generates a small configuration file from few names, so that generated files overlap.
func AFile(t *rapid.T, label string) string {
	var b strings.Builder
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label+what) }
	maybe := func(what string, write func()) {
		if rapid.Bool().Draw(t, label+what) {
			write()
		}
	}
	maybe("host", func() {
		b.WriteString("ferment {\n")
		maybe("seed", func() { fmt.Fprintf(&b, "  seed = %s\n", pick("seed value", "1", "2", "null", "local.n")) })
		maybe("mode", func() { fmt.Fprintf(&b, "  mode = %s\n", pick("mode value", `"lazy"`, `"strict"`, "null")) })
		b.WriteString("}\n")
	})
	maybe("locals", func() { fmt.Fprintf(&b, "locals {\n  n = %s\n}\n", pick("local value", "5", "6")) })
	for _, name := range []string{"chess", "stockfish"} {
		maybe("plugin "+name, func() {
			fmt.Fprintf(&b, "plugin %q {\n  command = [\"../bin/chess\"]\n", name)
			maybe(name+" env", func() {
				fmt.Fprintf(&b, "  env = %s\n", pick(name+" env value", "{ A = \"1\" }", "{ A = \"2\", B = \"3\" }", "{ \"B\" = null }", "null", "{}", "local.e"))
			})
			maybe(name+" restart", func() {
				fmt.Fprintf(&b, "  restart {\n    max = %s\n  }\n", pick(name+" max", "1", "2", "null"))
			})
			maybe(name+" config", func() {
				fmt.Fprintf(&b, "  config {\n    depth = %s\n%s  }\n", pick(name+" depth", "1", "2", "null"),
					pick(name+" inner", "", "    model \"m\" {\n      name = \"a\"\n    }\n", "    model \"m\" {\n      name = \"b\"\n    }\n    extra {\n      x = 1\n    }\n", "    extra {\n      x = null\n      y = 2\n    }\n"))
			})
			b.WriteString("}\n")
		})
	}
	return b.String()
}

// AllTypes returns the types of all diagnostics in ds.
func AllTypes(ds []diag.Diagnostic) []string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Type)
	}
	return out
}

// SecretEnv returns a lookup function for an environment in which all variables that begin with KEY
// have the value.
func SecretEnv(value string) func(string) (string, bool) {
	return func(name string) (string, bool) { return value, strings.HasPrefix(name, "KEY") }
}

// PEMPair returns a certificate that is valid for lasts from now, and its key.
func PEMPair(t *testing.T, lasts time.Duration) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// Large returns a configuration of about 64 KiB.
func Large() string {
	var b strings.Builder
	b.WriteString(Sample)
	for i := 0; b.Len() < 64<<10; i++ {
		fmt.Fprintf(&b, "\nintent \"bench/i%d\" {\n  in       = \"req/any\"\n  out      = \"res/any\"\n  deadline = \"20s\"\n\n  done {\n    must      = [\"schema-valid\", \"short\"]\n    score_min = 0.5\n  }\n}\n", i)
	}
	return b.String()
}

// JSONSample is a configuration in JSON.
const JSONSample = `{
  "//": "a comment, as the mapping has it",
  "locals": {"n": 3, "greeting": "hi ${upper(\"x\")}"},
  "ferment": {"seed": "${local.n + 1}", "mode": "lazy"},
  "check": {
    "short": {
      "condition": "${length(try(result.text, \"\")) <= 1200}",
      "message": "keep \"${request.intent}\" short",
      "applies": true
    },
    "named": {"builtin": "json-valid"}
  },
  "dispatch": {"quality_first": {"checks": ["short", "named"], "retry": {"fallback": 2}}},
  "plugin": [
    {"chess": {
      "command": ["bin/chess", "$${literal}"],
      "env": {"A": "${local.greeting}", "B": "1"},
      "config": {"depth": "${2 * 4}", "api_key": "${secret(\"env:KEY\")}", "model": {"m": {"name": "x"}}, "extra": {"a": {"x": 1}, "b": {"max-chars": 3, "list": [1, "a", null], "with_bar": true}}}
    }},
    {"stockfish": {"command": ["bin/chess"]}}
  ],
  "capability": {
    "chess/embedded": {"plugin": "chess", "provides": "chess/engine"},
    "chess/stockfish": {"plugin": "${plugin.stockfish}", "provides": "chess/engine"}
  },
  "intent": {"chess/best-move": {
    "in": "req/chess.position", "out": "res/chess.move+pv+eval",
    "candidates": ["chess/stockfish", "${capability[\"chess/embedded\"]}"],
    "dispatch": "${dispatch.quality_first}", "done": {"must": ["schema-valid"]}
  }}
}
`
