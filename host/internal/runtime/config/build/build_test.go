package build_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked is a describer that answers with functions and records its calls.
type asked struct {
	answer func(p plugins.Plugin, config edn.Value) (contract.Description, error)
	calls  []string
}

func (a *asked) Describe(ctx context.Context, p plugins.Plugin, config edn.Value) (contract.Description, error) {
	a.calls = append(a.calls, p.Name+" "+config.String())
	if err := ctx.Err(); err != nil {
		return contract.Description{}, err
	}
	return a.answer(p, config)
}

// ENV-017, HCL-028: an id defined by two blocks is an error that names both; a
// rename or a disabled capability resolves it.
func TestRename(t *testing.T) {
	two := configtest.OnePlugin + "\nplugin \"second\" {\n  command = [\"bin/chess\"]\n}\n"
	d := configtest.Describer{"chess": configtest.Chess(), "second": configtest.Chess()}
	_, ds := configtest.LoadWith(t, two, d, nil)
	require.Equal(t, []string{"config/duplicate"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, `"chess"`)
	assert.Contains(t, ds[0].Message, `"second"`)

	c, ds := configtest.LoadWith(t, two+"\ncapability \"other/engine\" {\n  plugin   = \"second\"\n  provides = \"chess/engine\"\n}\n", d, nil)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"chess/engine", "other/engine"}, c.Generation.Registry.Capabilities())
	other, _ := c.Generation.Registry.Capability("other/engine")
	assert.Equal(t, "chess/engine", other.Advertised)
	assert.Equal(t, "second", other.Plugin)
	assert.Equal(t, "ferment.hcl:9:1", other.Where)

	c, ds = configtest.LoadWith(t, two+"\ncapability \"other/engine\" {\n  plugin   = \"second\"\n  provides = \"chess/engine\"\n  enabled  = false\n}\n", d, nil)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"chess/engine"}, c.Generation.Registry.Capabilities())

	_, ds = configtest.LoadWith(t, two+"\ncapability \"a/b\" {\n  plugin   = \"second\"\n  provides = \"chess/engine\"\n}\n\ncapability \"a/c\" {\n  plugin   = \"second\"\n  provides = \"chess/engine\"\n}\n", d, nil)
	assert.Equal(t, []string{"config/duplicate"}, configtest.Types(ds), "one block per advertised id")
}

// ENV-010: a block overrides cost, limits and tags, and narrows effects.
func TestNarrow(t *testing.T) {
	full := configtest.Chess()
	full.Capabilities[0].Effects = []string{"fs/read", "net/http"}
	full.Capabilities[0].Limits = contract.Limits{Timeout: 10 * time.Second, MaxInFlight: 4}
	d := configtest.Describer{"chess": full}
	c, ds := configtest.LoadWith(t, configtest.OnePlugin+`
capability "chess/engine" {
  plugin  = "chess"
  tags    = ["b", "a", "b"]
  effects = ["fs/read"]

  cost {
    latency = "1.5s"
    usd     = "0.25"
  }

  limits {
    timeout       = "5s"
    max_in_flight = 2
  }
}
`, d, nil)
	require.Empty(t, configtest.Types(ds))
	got, _ := c.Generation.Registry.Capability("chess/engine")
	assert.Equal(t, []string{"a", "b"}, got.Tags)
	assert.Equal(t, []string{"fs/read"}, got.Effects)
	assert.Equal(t, 1500*time.Millisecond, got.Cost.Latency)
	assert.Equal(t, "0.25M", got.Cost.USD.String())
	assert.Equal(t, contract.Limits{Timeout: 5 * time.Second, MaxInFlight: 2}, got.Limits)

	for _, wider := range []string{"effects = [\"fs/write\"]", "limits { timeout = \"11s\" }", "limits { max_in_flight = 5 }"} {
		_, ds := configtest.LoadWith(t, configtest.OnePlugin+"\ncapability \"chess/engine\" {\n  plugin = \"chess\"\n  "+wider+"\n}\n", d, nil)
		assert.Equal(t, []string{"config/range"}, configtest.Types(ds), wider)
	}
}

// SCH-014: equal schemas merge, different ones are an error that names both
// plugins, and a block overrides both; SCH-006: a block overrides a built-in schema.
func TestAdvertisedSchemas(t *testing.T) {
	two := configtest.OnePlugin + "\nplugin \"second\" {\n  command = [\"bin/chess\"]\n}\n\ncapability \"other/engine\" {\n  plugin   = \"second\"\n  provides = \"chess/engine\"\n}\n"
	other := configtest.Chess()
	_, ds := configtest.LoadWith(t, two, configtest.Describer{"chess": configtest.Chess(), "second": other}, nil)
	require.Empty(t, configtest.Types(ds))

	other.Schemas = map[string]edn.Value{"req/chess.position": edn.MustRead(`[:map [:fen :keyword]]`)}
	_, ds = configtest.LoadWith(t, two, configtest.Describer{"chess": configtest.Chess(), "second": other}, nil)
	require.Equal(t, []string{"config/duplicate"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, `plugin "second" and plugin "chess"`)

	c, ds := configtest.LoadWith(t, two+"\nschema \"req/chess.position\" {\n  spec = edn(\"[:map [:fen [:ref :ferment/text]]]\")\n}\n", configtest.Describer{"chess": configtest.Chess(), "second": other}, nil)
	require.Empty(t, configtest.Types(ds))
	s, _ := c.Generation.Registry.Schema("req/chess.position")
	assert.False(t, s.Valid(edn.MustRead(`{:fen " "}`)))

	other.Schemas = map[string]edn.Value{"req/broken": edn.MustRead(`[:map [:a [:ref :req/nowhere]]]`)}
	_, ds = configtest.LoadWith(t, two, configtest.Describer{"chess": configtest.Chess(), "second": other}, nil)
	assert.Equal(t, []string{"capability/invalid-metadata"}, configtest.Types(ds))
}

// SCH-015: an intent that a plugin advertises and no block declares is implied.
func TestImpliedIntent(t *testing.T) {
	c, ds := configtest.LoadWith(t, configtest.OnePlugin, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, ds)
	in, ok := c.Generation.Registry.Intent("chess/best-move")
	require.True(t, ok)
	assert.True(t, in.Implied)
	assert.Equal(t, "req/chess.position", in.In)
	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, []string{quality.SchemaValid}, p.Must)
}

// HCL-029: the schemas of a candidate must fit the intent.
func TestKindMismatch(t *testing.T) {
	_, ds := configtest.LoadWith(t, configtest.OnePlugin+"\nintent \"chess/best-move\" {\n  in         = \"req/any\"\n  out        = \"res/text\"\n  candidates = [\"chess/engine\"]\n}\n\nintent \"text/respond\" {\n  in         = \"req/text\"\n  out        = \"res/text\"\n  candidates = [\"chess/engine\"]\n}\n", configtest.Describer{"chess": configtest.Chess()}, nil)
	assert.Equal(t, []string{"config/type", "config/type", "config/type"}, configtest.Types(ds))
}

// HCL-029, OPS-001: a plugin that is absent.
func TestAbsentPlugin(t *testing.T) {
	intent := "\nintent \"chess/best-move\" {\n  in         = \"req/any\"\n  out        = \"res/any\"\n  candidates = [\"gone/engine\"]\n}\n"
	block := "\ncapability \"gone/engine\" {\n  plugin   = \"gone\"\n  provides = \"chess/engine\"\n}\n"
	gone := "plugin \"gone\" {\n  command = [\"bin/gone\"]\n}\n"
	optional := strings.Replace(gone, "\n}", "\n  optional = true\n}", 1)

	_, ds := configtest.LoadWith(t, gone+block+intent, configtest.Describer{}, nil)
	assert.Equal(t, []string{"config/plugin-unknown"}, configtest.Types(ds), "what follows from it is not said")
	c, ds := configtest.LoadWith(t, optional+block+intent, configtest.Describer{}, nil)
	assert.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"gone/engine"}, c.Generation.Registry.Candidates("chess/best-move"))
	_, ds = configtest.LoadWith(t, optional+intent, configtest.Describer{}, nil)
	assert.Equal(t, []string{"config/dangling-reference"}, configtest.Types(ds))
	c, ds = configtest.LoadWith(t, strings.Replace(gone, "\n}", "\n  enabled = false\n}", 1)+block+intent, configtest.Describer{}, nil)
	assert.Empty(t, configtest.Types(ds))
	assert.False(t, c.Plugins[0].Enabled)
}

// HCL-003, HCL-037: Describe is called without and then with the resolved
// configuration, every secret nil; a plugin that was not started is not checked.
func TestDescribe(t *testing.T) {
	d := &asked{answer: func(plugins.Plugin, edn.Value) (contract.Description, error) { return configtest.Chess(), nil }}
	c, ds := configtest.LoadWith(t, "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  config {\n    api_key = secret(\"env:KEY\")\n    engine  = \"uci\"\n    path    = \"data/engine\"\n\n    model \"a\" {\n      name = \"x\"\n    }\n\n    extra {\n      x_y = [1, 0.5, { \"k\" = true }]\n    }\n  }\n}\n", d, map[string]string{"KEY": "canary"})
	require.Empty(t, ds)
	p := c.Plugins[0]
	abs := filepath.Join(c.Root, "data/engine")
	want := `{:api-key nil :depth 6 :engine "uci" :extra {"x_y" [1 0.5M {"k" true}]} :model {"a" {:name "x"}} :path "` + abs + `"}`
	assert.Equal(t, []string{"chess nil", "chess " + want}, d.calls)
	assert.Equal(t, []string{abs}, p.Reads)
	secrets, err := p.SecretTexts()
	require.NoError(t, err)
	assert.Equal(t, `{[:api-key] "canary"}`, secrets.String())
	require.NotNil(t, p.Place([]edn.Value{edn.K("model"), edn.Text("a"), edn.K("name")}))
	assert.Equal(t, 10, p.Place([]edn.Value{edn.K("model"), edn.Text("a"), edn.K("name")}).Start.Line)
	assert.Equal(t, 14, p.Place([]edn.Value{edn.K("extra"), edn.Text("x_y"), edn.Int(1)}).Start.Line)

	for name, row := range map[string]struct {
		err      error
		typ      string
		severity diag.Severity
	}{
		"not started": {plugins.ErrNotStarted, "config/plugin-unknown", diag.SeverityWarning},
		"fails":       {errors.New("exit status 3"), "config/plugin-unknown", diag.SeverityError},
		"metadata":    {contract.Errorf("capability/invalid-metadata", "no id"), "capability/invalid-metadata", diag.SeverityError},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := configtest.LoadWith(t, configtest.OnePlugin, &asked{answer: func(plugins.Plugin, edn.Value) (contract.Description, error) { return contract.Description{}, row.err }}, nil)
			require.Len(t, ds, 1)
			assert.Equal(t, row.typ, ds[0].Type)
			assert.Equal(t, row.severity, ds[0].Severity)
		})
	}
}

// HCL-036: a program that may not be executed is reported although its description is cached.
func TestProgramThatIsNotExecutable(t *testing.T) {
	path := configtest.Write(t, configtest.OnePlugin)
	require.NoError(t, os.Chmod(filepath.Join(filepath.Dir(path), "bin", "chess"), 0o644))
	d := &asked{answer: func(plugins.Plugin, edn.Value) (contract.Description, error) { return configtest.Chess(), nil }}
	_, ds := config.Load(t.Context(), path, config.Options{Describer: d, Env: configtest.NoEnv})
	require.Equal(t, []string{"config/plugin-unknown"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "permission denied")
	assert.Contains(t, ds[0].Hint, "chmod")
}

// An optional plugin that is left out keeps the reason, for status, for inspect and for a request whose intent has its
// name as namespace.
func TestReasonOfAnOptionalPlugin(t *testing.T) {
	text := strings.Replace(configtest.OnePlugin, "{\n", "{\n  optional = true\n", 1)
	for name, err := range map[string]error{
		"not started": plugins.ErrNotStarted,
		"fails":       errors.New("exit status 3"),
		"metadata":    contract.Errorf("capability/invalid-metadata", "no id"),
	} {
		t.Run(name, func(t *testing.T) {
			d := &asked{answer: func(plugins.Plugin, edn.Value) (contract.Description, error) { return contract.Description{}, err }}
			c, ds := configtest.LoadWith(t, text, d, nil)
			require.Len(t, ds, 1)
			require.NotNil(t, c.Generation)
			why := c.Plugins[0].Problem()
			require.NotNil(t, why)
			assert.Equal(t, ds[0].Type, why.Type)
			assert.Equal(t, ds[0].Message, why.Message)
			u, ok := c.Generation.Registry.Undescribed("chess/best-move")
			require.True(t, ok)
			assert.Equal(t, why, u.Why)
			_, ok = c.Generation.Registry.Undescribed("text/render")
			assert.False(t, ok)
		})
	}
}

// HCL-036: findings of the plugin itself are printed with the place in the file.
func TestPluginFindings(t *testing.T) {
	d := &asked{answer: func(_ plugins.Plugin, config edn.Value) (contract.Description, error) {
		if config.IsNil() {
			return configtest.Chess(), nil
		}
		return contract.Description{}, plugins.Findings{{Path: []edn.Value{edn.K("depth")}, Message: "is too deep for this machine", Got: edn.Int(8)}, {Message: "is odd as a whole"}}
	}}
	_, ds := configtest.LoadWith(t, "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  config {\n    depth = 8\n  }\n}\n", d, nil)
	require.Len(t, ds, 2)
	assert.Contains(t, ds[0].Message, "it is odd as a whole")
	assert.Equal(t, 4, ds[0].Range.Start.Line)
	assert.Contains(t, ds[1].Message, "depth is too deep")
	assert.Equal(t, 5, ds[1].Range.Start.Line)
}

// HCL-010: a plugin that never answers, or answers with too much data or invalid
// schemas, gives one diagnostic, and the others are checked.
func TestHostilePlugins(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context) contract.Description{
		"never": func(ctx context.Context) contract.Description { <-ctx.Done(); return contract.Description{} },
		"8 MiB": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.Schemas["req/big"] = edn.MustRead(`[:enum "` + strings.Repeat("x", 8<<20) + `"]`)
			return d
		},
		"cyclic ref": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.Schemas["req/ring"] = edn.MustRead(`[:ref :req/ring]`)
			return d
		},
		"config schema no map": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema :int}`)
			return d
		},
		"config schema of the future": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.ConfigSchema = edn.MustRead(`{:config/v 2 :config/schema [:map]}`)
			return d
		},
		"labels over 2": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map [:a {:block true :labels 3} [:map-of :string [:map-of :string [:map-of :string [:map]]]]]]}`)
			return d
		},
		"too deep": func(context.Context) contract.Description {
			d := configtest.Chess()
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema ` + strings.Repeat("[:map [:a {:block true} ", 9) + "[:map]" + strings.Repeat("]]", 9) + "}")
			return d
		},
		"too many entries": func(context.Context) contract.Description {
			d := configtest.Chess()
			var b strings.Builder
			for i := range 513 {
				b.WriteString(" [:k" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + " {:optional true} :int]")
			}
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map` + b.String() + `]}`)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			d := describeFunc(func(ctx context.Context, p plugins.Plugin) (contract.Description, error) {
				if p.Name == "hostile" {
					return answer(ctx), ctx.Err()
				}
				return configtest.Chess(), nil
			})
			_, ds := configtest.LoadWith(t, "plugin \"hostile\" {\n  command = [\"bin/chess\"]\n}\n\n"+strings.Replace(configtest.OnePlugin, "\n}", "\n\n  config {\n    depth = 99\n  }\n}", 1)+"\ncapability \"other/engine\" {\n  plugin   = \"chess\"\n  provides = \"chess/engine\"\n}\n", d, nil)
			assert.Less(t, time.Since(start), 5*time.Second)
			require.Len(t, configtest.Types(ds), 2, "%s", diag.NewReport(ds, 0, 1, 9).Text(false))
			assert.Contains(t, []string{"capability/invalid-metadata", "config/plugin-unknown"}, configtest.Types(ds)[0])
			assert.Equal(t, "config/plugin-schema", configtest.Types(ds)[1])
		})
	}
}

// HCL-010: a plugin that may take longer than usual to start has that time for its
// description too.
func TestTimeToDescribe(t *testing.T) {
	for text, want := range map[string]time.Duration{"2s": 50 * time.Millisecond, "10m": 10 * time.Minute} {
		var given time.Duration
		d := describeFunc(func(ctx context.Context, _ plugins.Plugin) (contract.Description, error) {
			until, _ := ctx.Deadline()
			given = time.Until(until)
			return configtest.Chess(), nil
		})
		configtest.LoadWith(t, configtest.ChessWith("  start_timeout = \""+text+"\""), d, nil)
		assert.LessOrEqual(t, given, want, text)
		assert.Greater(t, given, want-5*time.Minute, text)
	}
}

type describeFunc func(ctx context.Context, p plugins.Plugin) (contract.Description, error)

func (f describeFunc) Describe(ctx context.Context, p plugins.Plugin, _ edn.Value) (contract.Description, error) {
	return f(ctx, p)
}

// GATE-002: built-in checks that call an intent, and check blocks that rebind them.
func TestChecks(t *testing.T) {
	c, ds := configtest.LoadWith(t, `check "tests-pass" {
  intent = "chess/best-move"

  params = {
    fen  = "x"
    want = { pv = 5 }
  }
}

check "short" {
  condition = length(try(result.text, "")) <= 3
  message   = "${length(result.text)} is over 3"
  applies   = can(result.text)
}

check "tiny" {
  builtin = "max-chars"
  params  = { max = 2 }
}

dispatch "default" {
  checks = ["tests-pass", "short", "tiny"]
}

`+configtest.OnePlugin, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, configtest.Types(ds))
	reg := c.Generation.Registry
	bound, _ := reg.Check("tests-pass")
	assert.Equal(t, registry.CheckCapability, bound.Kind)
	assert.Equal(t, "chess/best-move", bound.Intent)
	assert.Equal(t, `{:fen "x" :want {:pv 5}}`, bound.Params.String())
	applies, _ := reg.Check("patch-applies")
	assert.Equal(t, "code/apply-patch", applies.Intent)

	short, _ := c.Generation.Checks.Check("short")
	assert.True(t, short.Run(quality.Subject{Result: edn.MustRead(`{:text "abc"}`)}).Pass)
	out := short.Run(quality.Subject{Result: edn.MustRead(`{:text "abcd"}`)})
	require.Len(t, out.Findings, 1)
	assert.Equal(t, "4 is over 3", out.Findings[0].Message)
	assert.True(t, short.Run(quality.Subject{Result: edn.MustRead(`{}`)}).NotApplicable)
	tiny, _ := c.Generation.Checks.Check("tiny")
	assert.False(t, tiny.Run(quality.Subject{Result: edn.MustRead(`{:text "abc"}`)}).Pass)
}

// POL-001, ATT-009: layers with their places; a configured switch set, even an
// empty one, replaces the default one.
func TestPolicies(t *testing.T) {
	c, ds := configtest.LoadWith(t, `dispatch "default" {
  switch_on = ["runtime/crashed"]
  deadline  = "1m"

  retry {
    same_capability = 1
    backoff         = "10ms"
  }
}

dispatch "strict" {
  switch_on_replace = []
  fallback_to       = ["chess/engine"]

  retry {
    fallback = 3
  }
}

intent "chess/best-move" {
  in          = "req/chess.position"
  out         = "res/chess.move+pv+eval"
  dispatch    = "strict"
  deadline    = "20s"
  constraints = { language = "pl", max_chars = 100, my_own = [1] }

  done {
    should    = ["json-valid"]
    score_min = 0.8
  }
}

`+configtest.OnePlugin, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, configtest.Types(ds))
	l := c.Generation.Policies.For("chess/best-move")
	p, err := l.Resolve()
	require.NoError(t, err)
	assert.Equal(t, 1, p.SameCapMax)
	assert.Equal(t, 3, p.FallbackMax)
	assert.Equal(t, 10*time.Millisecond, p.Backoff)
	assert.Equal(t, 20*time.Second, p.Deadline)
	assert.Equal(t, []string{}, p.SwitchOnNames)
	assert.Equal(t, []string{"chess/engine"}, p.Fallbacks)
	assert.Equal(t, []string{"json-valid"}, p.Should)
	assert.Equal(t, `{:language :pl :max-chars 100 :my-own [1]}`, p.Constraints.String())
	assert.Equal(t, "0.8M", p.ScoreMin.String())
	assert.Equal(t, "ferment.hcl:24:17", l.Deadline.Origin.Where)
	assert.Equal(t, "ferment.hcl:6:23", l.SameCapMax.Origin.Where)

	other, err := c.Generation.Policies.For("other/intent").Resolve()
	require.NoError(t, err)
	assert.Equal(t, []string{"runtime/crashed"}, other.SwitchOnNames)

	_, ds = configtest.LoadWith(t, "intent \"a/b\" {\n  in          = \"req/any\"\n  out         = \"res/any\"\n  constraints = { language = 5, max_chars = 0 }\n}\n", configtest.Describer{}, nil)
	assert.Equal(t, []string{"config/type", "config/type"}, configtest.Types(ds))
}

// HCL-006: the smallest useful file (HCL-011), without a plugin description.
func TestSmallestFile(t *testing.T) {
	text := "plugin \"mock\" {\n  command = [\"bin/chess\"]\n  config {\n    script = \"script.edn\"\n  }\n}\n\nintent \"text/respond\" {\n  in         = \"req/text\"\n  out        = \"res/text\"\n  candidates = [\"llm/voice-a\"]\n}\n"
	mock := configtest.Chess()
	mock.Capabilities = nil
	mock.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true} [:script {:unit :path} :string]]}`)
	d := &asked{answer: func(_ plugins.Plugin, config edn.Value) (contract.Description, error) {
		out := mock
		if !config.IsNil() {
			out.Capabilities = []contract.Capability{{ID: "llm/voice-a", Kind: "llm", Intents: []string{"text/respond"}, CanProduce: []string{"value"}, Effects: []string{"none"},
				InSchema: contract.SchemaRef{Name: "req/text"}, OutSchema: contract.SchemaRef{Name: "res/text"}}}
		}
		return out, nil
	}}
	c, ds := configtest.LoadWith(t, text, d, nil)
	require.Empty(t, ds)
	assert.Equal(t, []string{"llm/voice-a"}, c.Generation.Registry.Candidates("text/respond"))
	_, ds = configtest.LoadWith(t, text, nil, nil)
	require.Len(t, ds, 1)
	assert.Equal(t, "config/plugin-unknown", ds[0].Type)
	assert.Equal(t, diag.SeverityWarning, ds[0].Severity)
}

// HCL-026: no output contains a secret, no hash contains its plain value, and only
// secret attributes accept it.
func TestSecrets(t *testing.T) {
	const canary = "canary-7f3a"
	text := "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  config {\n    api_key = secret(\"file:key\")\n    depth   = 99\n    extra {\n      a = secret(\"env:KEY\")\n    }\n  }\n}\n\nlocals {\n  s = secret(\"env:KEY\")\n  t = \"${local.s}\"\n}\n\nferment {\n  mode = local.s\n}\n"
	path := configtest.Write(t, text)
	key := filepath.Join(filepath.Dir(path), "key")
	require.NoError(t, os.WriteFile(key, []byte(canary+"\n"), 0o600))
	env := func(string) (string, bool) { return canary, true }
	c, ds := config.Load(context.Background(), path, config.Options{Env: env, Describer: configtest.Describer{"chess": configtest.Chess()}})
	require.NotEmpty(t, configtest.Types(ds))
	out, err := c.Report(0).JSON()
	require.NoError(t, err)
	for _, s := range []string{c.Report(0).Text(true), string(out), c.Report(0).Value().String(), c.Hash, c.Plugins[0].Config.String()} {
		assert.NotContains(t, s, canary)
	}

	fine := "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  config {\n    api_key = secret(\"file:key\")\n  }\n}\n"
	require.NoError(t, os.WriteFile(path, []byte(fine), 0o644))
	c, ds = config.Load(context.Background(), path, config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess()}})
	require.Empty(t, ds)
	texts, err := c.Plugins[0].SecretTexts()
	require.NoError(t, err)
	assert.Contains(t, texts.String(), canary)

	require.NoError(t, os.Chmod(key, 0o644))
	_, ds = config.Load(context.Background(), path, config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess()}})
	assert.Equal(t, []string{"config/secret-missing"}, configtest.Types(ds), "a secret that others may read")
}

// HCL-026: a literal in the place of a secret is rejected and never quoted, neither
// in its own diagnostic nor in the excerpt of another one; nor is the password of a
// URL. A reference to a secret is quoted.
func TestPlainSecretsAreNotQuoted(t *testing.T) {
	const canary = "canary-7f3a"
	inBlock := func(body string) string {
		return "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  config {\n" + body + "  }\n}\n"
	}
	for name, row := range map[string]struct{ text, want string }{
		"text":        {inBlock("    api_key = \"" + canary + "\"\n"), `api_key = "***********"`},
		"next line":   {inBlock("    api_key = \"" + canary + "\"\n    nothing = 1\n"), `api_key = "***********"`},
		"list":        {inBlock("    api_key = [\"x\", \"" + canary + "\"]\n"), `api_key = *"*"**"***********"*`},
		"heredoc":     {inBlock("    api_key = <<E\n" + canary + "\nE\n    nothing = 1\n"), `api_key = ***`},
		"template":    {inBlock("    api_key = \"${upper(\"x\")}" + canary + "\"\n"), `api_key = "**`},
		"where it is": {inBlock("    api_key = env(\"KEY\", \"\")\n"), `api_key = env("KEY", "")`},
		"password":    {inBlock("    nothing = \"http://user:" + canary + "@host/v1\"\n"), `nothing = "http://user:***********@host/v1"`},
		"found":       {inBlock("    depth = \"http://user:" + canary + "@host/v1\"\n"), `found: "http://user:***********@host/v1"`},
		"effects":     {"effects {\n  secret \"x\" {\n    value = \"" + canary + "\"\n  }\n}\n", `value = "***********"`},
	} {
		t.Run(name, func(t *testing.T) {
			c, ds := config.Load(context.Background(), configtest.Write(t, row.text), config.Options{Env: configtest.SecretEnv(canary), Describer: configtest.Describer{"chess": configtest.Chess()}})
			require.NotEmpty(t, ds)
			out, err := c.Report(0).JSON()
			require.NoError(t, err)
			shown := c.Report(0).Text(false)
			assert.Contains(t, shown, row.want)
			for _, s := range []string{shown, string(out), c.Report(0).Value().String()} {
				assert.NotContains(t, s, canary)
			}
		})
	}
}

// HCL-023: keys are kept, and values are converted to the kinds of the schema.
func TestFit(t *testing.T) {
	s := schema.MustCompile(edn.MustRead(`[:map [:kw :keyword] [:set [:set :keyword]] [:f :double] [:d :decimal] [:e [:enum :a "b"]] [:m [:map-of :string :int]] [:mk [:map-of :keyword :any]] [:or [:or [:set :int] :string]] [:t [:tuple :keyword :double]] [:maybe [:maybe :keyword]] [:id :uuid] [:at :inst] [:l [:list :int]] [:n :number]]`))
	got := decode.Fit(s, edn.MustRead(`{:kw "a/b" :set ["x" "y"] :f 1 :d 2 :e "a" :m {:x 1} :mk {"y" "z"} :or [1 2] :t ["k" 1.5M] :maybe "m" :id "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" :at "2026-11-20T10:00:00Z" :l [1] :n 1.5M}`))
	assert.Empty(t, s.Validate(got), got.String())
	assert.Equal(t, `{:at #inst "2026-11-20T10:00:00.000Z" :d 2M :e :a :f 1.0 :id #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" :kw :a/b :l (1) :m {"x" 1} :maybe :m :mk {:y "z"} :n 1.5M :or #{1 2} :set #{:x :y} :t [:k 1.5]}`, got.String())
	// A string never becomes a number.
	ints := schema.MustCompile(edn.MustRead(`[:map [:a :int] [:b :double] [:c :boolean]]`))
	assert.Equal(t, `{:a "6" :b "1.5" :c "true"}`, decode.Fit(ints, edn.MustRead(`{:a "6" :b "1.5" :c "true"}`)).String())
}

// The order of blocks and the root do not change the hash; values do.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		c, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess()}, map[string]string{"D": "1s"})
		require.Empty(t, configtest.Types(ds), text)
		return c.Hash
	}
	a := "ferment {\n  seed = 1\n}\n\n" + configtest.OnePlugin
	b := configtest.OnePlugin + "\nferment {\n  seed     = 1 # the same\n  data_dir = \"./var\"\n}\n"
	assert.Equal(t, hash(a), hash(b))
	assert.NotEqual(t, hash(a), hash(strings.Replace(a, "seed = 1", "seed = 2", 1)))
	assert.NotEqual(t, hash(a), hash(a+"\ndispatch \"default\" {\n  deadline = env(\"D\")\n}\n"))
}

// HCL-002: the names of a plugin with an invalid block are still known, so other errors are reported in the same load.
func TestErrorsBesideAWrongPlugin(t *testing.T) {
	intent := "\nintent \"chess/best-move\" {\n  in         = \"req/chess.position\"\n" +
		"  out        = \"res/chess.move+pv+eval\"\n  candidates = [\"chess/engin\"]\n}\n"
	for _, wrong := range []string{"config {\n    depht = 4\n  }", "config {\n    depth = 400\n  }", "optinal = true", "enabled = 1"} {
		d := &asked{answer: func(_ plugins.Plugin, config edn.Value) (contract.Description, error) {
			d := configtest.Chess()
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map [:depth {:default 6} [:int {:min 1 :max 64}]]]}`)
			if config.IsNil() {
				d.Capabilities = nil
			}
			return d, nil
		}}
		_, ds := configtest.LoadWith(t, strings.Replace(configtest.OnePlugin, "\n}", "\n  "+wrong+"\n}", 1)+intent, d, nil)
		require.Len(t, ds, 2, wrong)
		assert.Equal(t, "config/dangling-reference", ds[1].Type, wrong)
	}
}
