package build_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HCL-031: a setting that no candidate supports is a warning with its place; paired
// values must be in order.
func TestCrossChecks(t *testing.T) {
	intent := func(dispatch string) string {
		return "dispatch \"d\" {\n" + dispatch + "}\n\nintent \"chess/best-move\" {\n  in       = \"req/chess.position\"\n  out      = \"res/chess.move+pv+eval\"\n  dispatch = \"d\"\n  effects  = [\"none\", \"fs/write\"]\n}\n\n" + configtest.OnePlugin
	}
	for _, row := range []struct {
		name, text string
		change     func(*describedChess)
		typ, says  string
	}{
		{"repair without a candidate for it", intent("  repair { max = 2 }\n"), nil, "config/unused", "repair has no effect"},
		{"repair with one", intent("  repair { max = 2 }\n"), func(c *describedChess) { c.repairs = true }, "", ""},
		{"race with effects", intent("  strategy = \"race\"\n"), func(c *describedChess) { c.effects = []string{"fs/write"} }, "config/range", `the strategy race`},
		{"hedge with effects", intent("  strategy = \"hedge\"\n"), func(c *describedChess) { c.effects = []string{"fs/write"} }, "config/range", `must not happen twice`},
		{"race of one", intent("  strategy = \"race\"\n"), nil, "config/unused", `only "chess/engine" serves it`},
		{"race of two", intent("  strategy = \"race\"\n"), func(c *describedChess) { c.second = true }, "", ""},
		{"race with effects that the intent does not allow", intent("  strategy = \"race\"\n"), func(c *describedChess) { c.effects = []string{"net/http"} }, "", ""},
		{"cascade with effects", intent(""), func(c *describedChess) { c.effects = []string{"fs/write"} }, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var as describedChess
			if row.change != nil {
				row.change(&as)
			}
			d := configtest.Chess()
			d.Capabilities[0].Repairs = as.repairs
			if as.effects != nil {
				d.Capabilities[0].Effects = as.effects
			}
			if as.second {
				other := d.Capabilities[0]
				other.ID = "chess/other"
				d.Capabilities = append(d.Capabilities, other)
			}
			c, ds := configtest.LoadWith(t, row.text, configtest.Describer{"chess": d}, nil)
			require.NotNil(t, c.Generation, c.Report(0).Text(false))
			if row.typ == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, row.typ, ds[0].Type)
			assert.Equal(t, diag.SeverityWarning, ds[0].Severity)
			assert.Contains(t, ds[0].Message, row.says)
			assert.Equal(t, "intent", ds[0].Path[0])
		})
	}
	for _, block := range []string{"restart {\n    backoff = \"1m\"\n  }", "health {\n    timeout = \"5s\"\n  }", "instances {\n    min = 2\n  }", "quality {\n    min_samples = 30\n  }"} {
		_, ds := configtest.LoadWith(t, "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  "+block+"\n}\n", configtest.Describer{"chess": configtest.Chess()}, nil)
		assert.Equal(t, []string{"config/range"}, configtest.Types(ds), block)
	}
}

// CHECK-022, GATE-009: a must check of an intent that no capability may answer is an error at its
// place. One with effects may not, nor may the only candidate judge itself.
func TestUnjudged(t *testing.T) {
	for name, tc := range map[string]struct {
		judge []string // effects of another capability that serves the intent of the check
		types []string
	}{
		"pure":         {[]string{"none"}, nil},
		"reads":        {[]string{"fs/read"}, nil},
		"effects":      {[]string{"fs/write"}, []string{"config/range"}},
		"its own work": {nil, []string{"config/range"}},
	} {
		d := configtest.Chess()
		if tc.judge != nil {
			other := d.Capabilities[0]
			other.ID, other.Effects = "chess/other", tc.judge
			d.Capabilities = append(d.Capabilities, other)
		}
		text := "check \"g\" {\n  intent = \"chess/best-move\"\n}\n\nintent \"chess/best-move\" {\n  in         = \"req/chess.position\"\n" +
			"  out        = \"res/chess.move+pv+eval\"\n  effects    = [\"none\", \"fs/read\", \"fs/write\"]\n}\n\n" +
			"intent \"chess/mine\" {\n  in         = \"req/chess.position\"\n  out        = \"res/chess.move+pv+eval\"\n  candidates = [\"chess/engine\"]\n\n  done {\n    must = [\"g\"]\n  }\n}\n\n" + configtest.OnePlugin
		d.Capabilities[0].Intents = append(d.Capabilities[0].Intents, "chess/mine")
		c, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": d}, nil)
		assert.Equal(t, tc.types, configtest.Types(ds), "%s: %s", name, c.Report(0).Text(false))
		for _, d := range ds {
			assert.Equal(t, diag.SeverityError, d.Severity)
			assert.Equal(t, []string{"intent", "chess/mine", "done", "must"}, d.Path)
		}
	}
}

// ATT-002: retries are reported as idle where no failure can lead to another attempt, and only there.
func TestIdleRetries(t *testing.T) {
	block := func(name, body string) string { return "dispatch \"" + name + "\" {\n" + body + "}\n\n" }
	const empty, retry = "  switch_on = []\n", "  retry { fallback = 1 }\n"
	const used = "intent \"chess/best-move\" {\n  in       = \"req/chess.position\"\n  out      = \"res/chess.move+pv+eval\"\n  dispatch = \"d\"\n}\n\n"
	for _, row := range []struct {
		name, text string
		warnings   int
	}{
		{"empty", block("d", empty+retry), 1},
		{"empty replacement", block("d", "  switch_on_replace = []\n"+retry), 1},
		{"both kinds of retries", block("d", empty+"  retry {\n    fallback        = 1\n    same_capability = 2\n  }\n"), 2},
		{"retries of the default", block("default", retry) + block("d", empty), 1},
		{"set of the default", block("default", "  switch_on = [\"runtime/crashed\"]\n") + block("d", empty+retry), 0},
		{"set of the default replaced", block("default", "  switch_on = [\"runtime/crashed\"]\n") + block("d", "  switch_on_replace = []\n"+retry), 1},
		{"not written", block("d", retry), 0},
		{"no retries", block("d", empty), 0},
		{"retries of zero", block("d", empty+"  retry { fallback = 0 }\n"), 0},
		{"race", block("d", "  strategy  = \"race\"\n"+empty+retry), 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := configtest.Chess()
			other := d.Capabilities[0]
			other.ID = "chess/other"
			d.Capabilities = append(d.Capabilities, other)
			c, ds := configtest.LoadWith(t, row.text+used+configtest.OnePlugin, configtest.Describer{"chess": d}, nil)
			assert.Len(t, ds, row.warnings, c.Report(0).Text(false))
			assert.Equal(t, row.warnings, ds.Count(diag.SeverityWarning))
		})
	}
}

// HCL-031: a listed candidate that no call may reach is a warning at its place, and an error if it has no other. So
// is a money limit that no candidate can be called under. An effect that the
// intent leaves to requests is none.
func TestCandidatesThatCannotBeCalled(t *testing.T) {
	intent := func(attrs string) string {
		return "intent \"chess/best-move\" {\n  in         = \"req/chess.position\"\n  out        = \"res/chess.move+pv+eval\"\n" +
			"  candidates = [\"chess/engine\"]\n" + attrs + "}\n\n" + configtest.OnePlugin
	}
	const enabled = "\neffects {\n  scope \"fs/write\" {\n    enabled = true\n    roots   = [\"out\"]\n    allow   = [\"x\"]\n  }\n}\n"
	const money = "  budget { max_usd = 1 }\n"
	const price = "\ncapability \"chess/engine\" {\n  plugin = \"chess\"\n\n  cost { usd = 0 }\n}\n"
	const listed = "  effects    = [\"fs/write\"]\n"
	implied := strings.Replace(intent(listed), "  candidates = [\"chess/engine\"]\n", "", 1)
	withPure := strings.Replace(intent(listed), "[\"chess/engine\"]", "[\"chess/engine\", \"chess/pure\"]", 1)
	for _, row := range []struct {
		name, text string
		effects    []string
		line       string // of the finding; empty: none
		hint       string
	}{
		{"one of two", withPure, []string{"fs/write"}, "candidates = ", "enabled = true"},
		{"scope disabled", intent(listed), []string{"fs/write"}, "candidates = ", "enabled = true"},
		{"candidates that the plugins imply", implied, []string{"fs/write"}, "", ""},
		{"scope disabled by the capability", intent(listed) + enabled + "\ncapability \"chess/engine\" {\n  plugin = \"chess\"\n\n  scope \"fs/write\" { enabled = false }\n}\n", []string{"fs/write"}, "candidates = ", "enabled = true"},
		{"effect left to requests", intent("") + enabled, []string{"fs/write"}, "", ""},
		{"effect listed and enabled", intent(listed) + enabled, []string{"fs/write"}, "", ""},
		{"no effects", intent(""), []string{"none"}, "", ""},
		{"money and no price", intent(money), []string{"none"}, "max_usd", "cost { usd = .. }"},
		{"money and a price", intent(money) + price, []string{"none"}, "", ""},
		{"money and a permitted unknown price", intent(money) + "\nbudget \"run\" {\n  max_usd       = 1\n  unknown_price = \"at-least\"\n}\n", []string{"none"}, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := configtest.Chess()
			d.Capabilities[0].Effects = row.effects
			severity := diag.SeverityWarning
			if strings.Contains(row.text, "chess/pure") {
				pure := configtest.Chess().Capabilities[0]
				pure.ID = "chess/pure"
				d.Capabilities = append(d.Capabilities, pure)
			} else if row.effects[0] != "none" {
				severity = diag.SeverityError
			}
			path := configtest.Write(t, row.text)
			require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(path), "out", "x"), 0o700))
			c, ds := config.Load(t.Context(), path, config.Options{Describer: configtest.Describer{"chess": d}, Env: configtest.NoEnv})
			if row.line == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, severity, ds[0].Severity)
			assert.Contains(t, strings.Split(row.text, "\n")[ds[0].Range.Start.Line-1], row.line)
			assert.Contains(t, ds[0].Hint, row.hint)
		})
	}
}

// HCL-031: a check expression that reads a key missing in the schema of its intent
// is a warning if the schema has a similar key.
func TestChecksReadWhatIsNamed(t *testing.T) {
	const intent = `
intent "chess/best-move" {
  in  = "req/chess.position"
  out = "res/chess.move+pv+eval"

  done { must = ["c"] }
}

` + configtest.OnePlugin
	for _, attrs := range []string{
		"  condition = can(%s)",
		"  condition = true\n  applies   = can(%s)",
		"  condition = false\n  message   = \"found ${%s}\"",
	} {
		for read, near := range map[string]string{"result.move": "", "result.mvoe": "move", "result.anything_else": ""} {
			text := "check \"c\" {\n" + fmt.Sprintf(attrs, read) + "\n}\n" + intent
			c, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess()}, nil)
			require.NotNil(t, c.Generation, c.Report(0).Text(false))
			if near == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				continue
			}
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, "config/unknown-name", ds[0].Type)
			assert.Equal(t, near, ds[0].Nearest)
			assert.Equal(t, 2+strings.Count(attrs, "\n"), ds[0].Range.Start.Line)
		}
	}
}

// HCL-031: a candidate whose block is disabled serves nothing.
func TestDisabledCandidate(t *testing.T) {
	for enabled, warnings := range map[string]int{"true": 0, "false": 1} {
		text := configtest.OnePlugin + `
capability "fast/engine" {
  plugin   = "second"
  provides = "chess/engine"
  enabled  = ` + enabled + `
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/engine", "fast/engine"]
}

plugin "second" {
  command = ["bin/chess"]
}
`
		c, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess(), "second": configtest.Chess()}, nil)
		require.False(t, ds.HasErrors(), "%v", ds)
		_, there := c.Generation.Registry.Capability("fast/engine")
		assert.Equal(t, enabled == "true", there, "enabled = %s", enabled)
		require.Len(t, ds, warnings, enabled)
		for _, d := range ds {
			assert.Equal(t, diag.SeverityWarning, d.Severity)
			assert.Equal(t, "config/range", d.Type)
			assert.Contains(t, d.Message, `names the candidate "fast/engine", which is disabled`)
			assert.Equal(t, 14, d.Range.Start.Line)
			require.Len(t, d.Related, 1)
			assert.Equal(t, 5, d.Related[0].Range.Start.Line)
		}
	}
}

type describedChess struct {
	second  bool // with a second engine
	repairs bool
	effects []string
}

// HCL-027: valid labels of each kind, and labels that are easily confused.
func TestLabels(t *testing.T) {
	long := "a123456789a123456789a123456789a123456789a123456789a123456789a123"
	for block, labels := range map[string]struct{ good, bad []string }{
		"check \"%\" {\n  condition = true\n}\n\ndispatch \"default\" {\n  checks = [\"%\"]\n}\n": {
			[]string{"a", "0a", "a.b_c+d-e", long}, []string{"", "A", "_a", "a b", "ä", "a/b", long + "x"},
		},
		"intent \"%\" {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\n": {
			[]string{"a/b", "a.b-c/0d?", "a/b*+!", "a/" + strings.Repeat("b", 126)},
			[]string{"a", "A/b", "a/", "/b", "0a/b", "a/b/c", "a/B", "ferment/x", "session/x", "conversation/x", "a/" + strings.Repeat("b", 127)},
		},
		"schema \"%\" {\n  spec = edn(\":any\")\n}\n\nintent \"a/b\" {\n  in  = \"%\"\n  out = \"res/any\"\n}\n": {
			[]string{"req/mine"}, []string{"mine", "req/Mine", "session/x"},
		},
		"rubric \"%\" {\n  rules = [{ rule = \"length\", max = 9 }]\n}\n": {[]string{"r", "rubric/r"}, []string{"", "R", "role/r"}},
		"dispatch \"%\" {}\n":                   {[]string{"default"}, []string{"", "De", "a b", long + "x"}},
		"judge \"%\" {\n  enabled = false\n}\n": {nil, []string{"", "J", "a/b"}},
		"role \"%\" {}\n":                       {[]string{"clerk", "role/clerk"}, []string{"", "Clerk", "a b", "rule/clerk"}},
	} {
		for _, label := range labels.good {
			_, ds := configtest.Load(t, strings.ReplaceAll(block, "%", label))
			assert.Empty(t, configtest.Types(ds), "%s: %s", label, block)
		}
		for _, label := range labels.bad {
			_, ds := configtest.Load(t, strings.ReplaceAll(block, "%", label))
			require.NotEmpty(t, configtest.Types(ds), "%s: %s", label, block)
			assert.Equal(t, "config/syntax", configtest.Types(ds)[0], "%s: %s", label, block)
			assert.Equal(t, 1, ds[0].Range.Start.Line)
		}
	}
	_, ds := configtest.Load(t, "dispatch \"a_b\" {}\n\ndispatch \"a-b\" {}\n")
	assert.Empty(t, configtest.Types(ds))
	assert.Contains(t, ds[0].Message+ds[1].Message+ds[2].Message, "differ only in - and _")
}

// HCL-015, HCL-018: files override the default of the profile, which overrides the
// built-in default; no environment variable sets an attribute by its name.
func TestLayersOfDefaults(t *testing.T) {
	env := map[string]string{"FERMENT_SEED": "7", "FERMENT_AUTO_RELOAD": "true", "FERMENT_FERMENT_AUTO_RELOAD": "true", "auto_reload": "true", "TF_VAR_auto_reload": "true"}
	for _, row := range []struct {
		text, profile string
		want          bool
	}{
		{"", language.ProfileProd, false}, {"", language.ProfileDev, true}, {"", language.ProfileTest, false},
		{"ferment {\n  auto_reload = false\n}\n", language.ProfileDev, false}, {"ferment {\n  auto_reload = true\n}\n", language.ProfileProd, true},
		{"ferment {\n  auto_reload = null\n}\n", language.ProfileDev, true},
	} {
		env[files.ProfileVariable] = row.profile
		c, ds := configtest.LoadWith(t, row.text, configtest.Describer{}, env)
		require.Empty(t, configtest.Types(ds))
		assert.Equal(t, row.want, c.Host.AutoReload, "%s in %s", row.text, row.profile)
		assert.Zero(t, c.Host.Seed)
	}
	// The table of the profiles, without features that this build lacks.
	for profile, want := range map[string][3]string{
		language.ProfileProd: {"[127.0.0.1:7180]", "false", "strict"}, language.ProfileDev: {"[127.0.0.1:7180]", "true", "best-effort"}, language.ProfileAdmin: {"[]", "false", "strict"},
		language.ProfileTest: {"[127.0.0.1:0]", "false", "strict"}, language.ProfileTestLive: {"[127.0.0.1:7180]", "false", "strict"},
	} {
		env[files.ProfileVariable] = profile
		c, ds := configtest.LoadWith(t, "", configtest.Describer{}, env)
		require.Empty(t, configtest.Types(ds))
		v, err := view.ShowValue(c, view.ShowOptions{Defaults: true})
		require.NoError(t, err)
		enforcement, _ := v.Key("effects").Key("enforcement").AsString()
		if enforcement == "" {
			enforcement = c.Tree.Block("effects").Text("enforcement")
		}
		assert.Equal(t, want, [3]string{fmt.Sprint(c.HTTP.Listen), fmt.Sprint(c.Host.AutoReload), enforcement}, profile)
	}
}

// HCL-020: an HCL name is the EDN name with underscores for dashes and without a
// trailing question mark, with three exceptions. Conditions use the keys of values
// unchanged (HCL-023).
func TestNamesInEDN(t *testing.T) {
	asking := configtest.Chess()
	asking.ConfigSchema = edn.MustRead(`{:config/v 1
	  :config/schema [:map {:closed true} [:is-verbose? :boolean] [:max-depth :int]]}`)
	c, ds := configtest.LoadWith(t, `plugin "chess" {
  command = ["bin/chess"]
  config {
    is_verbose = true
    max_depth  = 7
  }
}

dispatch "default" {
  retry {
    same_capability = 2
    fallback        = 3
    max_backoff     = "4s"
  }
}

check "c" {
  builtin = "max-chars"
  params  = { max = 5 }
}

intent "a/b" {
  in          = "req/any"
  out         = "res/any"
  checks      = ["c"]
  constraints = { max_chars = 9, "kept_as" = 1 }
  budget {
    max_wall       = "1m30s"
    max_roundtrips = 4
  }
}
`, configtest.Describer{"chess": asking}, nil)
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	p, err := c.Generation.Policies.For("a/b").Resolve()
	require.NoError(t, err)
	assert.Equal(t, []int{2, 3}, []int{p.SameCapMax, p.FallbackMax}, ":same-cap-max and :fallback-max")
	assert.Equal(t, `{"kept_as" 1 :max-chars 9}`, p.Constraints.String(), "what is in quotes keeps its text")
	assert.Equal(t, "{:max-roundtrips 4 :max-wall-ms 90000}", p.Budget.String(), "durations are milliseconds in EDN")
	assert.Equal(t, "{:is-verbose? true :max-depth 7}", c.Plugins[0].Config.String())
	var params string
	for _, check := range c.Generation.Checks.Declarations() {
		if check.Name == "c" {
			params = check.Params.String()
		}
	}
	assert.Equal(t, "{:max 5}", params)
}

// HCL-004: the inputs of expressions are recorded with a hash, never with a value,
// and change the hash of the configuration; nothing else does.
func TestInputsAreRecorded(t *testing.T) {
	const text = "locals {\n  a = env(\"A\", \"x\")\n  b = trimspace(file(\"note.txt\"))\n}\n\ncheck \"c\" {\n  builtin = \"max-chars\"\n  params  = { max = length(\"${local.a}${local.b}\") }\n}\n\ndispatch \"default\" {\n  checks = [\"c\"]\n}\n"
	one := func(a, note string) *config.Config {
		dir := configtest.Lay(t, map[string]string{"ferment.hcl": text, "note.txt": note})
		c, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{Env: func(name string) (string, bool) { return a, name == "A" && a != "" }})
		require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
		return c
	}
	c := one("canary-a", "canary-b\n")
	require.Len(t, c.Inputs, 2)
	for i, want := range [][2]string{{"env", "A"}, {"file", "note.txt"}} {
		assert.Equal(t, want, [2]string{c.Inputs[i].Kind, c.Inputs[i].Name})
		assert.Regexp(t, "^[0-9a-f]{64}$", c.Inputs[i].Hash)
		assert.NotContains(t, c.Inputs[i].Hash, "canary")
	}
	assert.Equal(t, c.Hash, one("canary-a", "canary-b\n").Hash)
	assert.NotEqual(t, c.Hash, one("canary-aa", "canary-b\n").Hash)
	assert.NotEqual(t, c.Hash, one("canary-a", "canary-bb\n").Hash)
	assert.Empty(t, one("", "b").Inputs[0].Hash, "what is absent is recorded as absent")
}
