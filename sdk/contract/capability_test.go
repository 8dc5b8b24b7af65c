package contract

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

const engine = `{:cap/id :chess/engine  :cap/kind :solver  :cap/version "1.0.0"
 :cap/intents #{:chess/best-move}  :cap/can-produce #{:value}
 :io/in-schema :req/chess.position :io/out-schema :res/chess.move+pv+eval
 :cap/effects #{:none}  :cap/tags #{:embedded}
 :cap/cost {:latency-ms 300 :usd 0} :cap/limits {:timeout-ms 15000 :max-in-flight 4}
 :cap/deterministic? true :cap/idempotent? true :cap/streams? false :cap/repairs? false
 :cap/stability :stable}`

// contracts.md section 3: the example, field by field.
func TestParseCapability(t *testing.T) {
	c, err := ParseCapability(edn.MustRead(engine))
	require.NoError(t, err)
	assert.Equal(t, "chess/engine", c.ID)
	assert.Equal(t, "solver", c.Kind)
	assert.Equal(t, []string{"chess/best-move"}, c.Intents)
	assert.Equal(t, []string{"value"}, c.CanProduce)
	assert.Equal(t, []string{"none"}, c.Effects)
	assert.Equal(t, []string{"embedded"}, c.Tags)
	assert.Equal(t, SchemaRef{Name: "req/chess.position"}, c.InSchema)
	assert.Equal(t, 300*time.Millisecond, c.Cost.Latency)
	assert.True(t, c.Cost.HasLatency)
	assert.Equal(t, "0", c.Cost.USD.String())
	assert.True(t, c.Cost.USDInPerMTok.IsNil(), "unknown is not nothing")
	assert.Equal(t, Limits{Timeout: 15 * time.Second, MaxInFlight: 4}, c.Limits)
	assert.True(t, c.Deterministic && c.Idempotent && !c.Streams && !c.Repairs)
}

// ENV-011, contracts.md section 3: omitted fields have their defaults.
func TestCapabilityDefaults(t *testing.T) {
	c, err := ParseCapability(edn.MustRead(`{:cap/id :a/b :cap/kind :llm :cap/intents #{} :io/in-schema :req/any :io/out-schema :res/any}`))
	require.NoError(t, err)
	assert.Equal(t, Capability{
		ID: "a/b", Kind: "llm", Version: "1.0.0", Intents: []string{}, CanProduce: []string{"value"}, Effects: []string{"none"}, Tags: []string{},
		InSchema: SchemaRef{Name: "req/any"}, OutSchema: SchemaRef{Name: "res/any"}, Stability: "stable",
	}, c)
}

// contracts.md section 3: every field, and the fields with two spellings.
func TestCapabilityFields(t *testing.T) {
	c, err := ParseCapability(edn.MustRead(`{:cap/id :tools/fs :cap/kind :tool :cap/intents [:b/b :a/a :a/a] :cap/can-produce #{:plan :stream} :cap/effects-allowed #{:none :fs/write :fs/read}
	 :io/in-schema {:a/a :req/a :b/b :req/b} :io/out-schema :res/any :cap/cost {:usd-in-per-mtok 0.15M :usd-cached-in-per-mtok 0.07M :usd-out-per-mtok 1 :usd 0.5M}
	 :cap/limits {:max-tokens 5 :max-input-bytes 6 :context-tokens 7} :cap/recovery-rules [[[:append?] true :once] [[:a 0] nil :none]]
	 :cap/role :coder :cap/model "m" :cap/family "f" :cap/stability :experimental :cap/description "d" :x/note 1 :cap/streams? true :cap/repairs? true}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"a/a", "b/b"}, c.Intents)
	assert.Equal(t, []string{"fs/read", "fs/write"}, c.Effects, "none beside others says nothing")
	assert.Equal(t, "req/b", c.InSchema.For("b/b"))
	assert.Equal(t, "", c.InSchema.For("c/c"))
	assert.Equal(t, "res/any", c.OutSchema.For("c/c"))
	assert.Equal(t, Limits{MaxTokens: 5, MaxInputBytes: 6, ContextTokens: 7}, c.Limits)
	assert.Equal(t, []string{"coder", "m", "f", "experimental", "d"}, []string{c.Role, c.Model, c.Family, c.Stability, c.Description})
	assert.Equal(t, "{:x/note 1}", c.Extra.String())
	assert.Len(t, c.RecoveryRules, 2)

	back, err := ParseCapability(c.Value())
	require.NoError(t, err)
	assert.Equal(t, c.Value().String(), back.Value().String())
}

// ENV-011, ENV-017, ENV-019, ENV-024, contracts.md section 7: all invalid
// fields are reported at once, each with the expected value and the nearest
// name.
func TestCapabilityFaults(t *testing.T) {
	_, err := ParseCapability(edn.MustRead(`{:cap/id :engine :cap/intents :chess/best-move :io/in-schema "req/any" :io/out-schema {}
	 :cap/version " " :cap/can-produce #{:valu} :cap/effects #{:fs/wirte} :cap/tags #{1} :cap/cost {:usd 0.5 :usd-in 1 :latency-ms -1} :cap/limits {:timeout-ms 0 :max-in-fligt 1 :max-tokens 1.5}
	 :cap/deterministic? "yes" :cap/recovery-rules [[[:a] 1 :twice] [[] 1 :once] :x] :cap/role "coder" :cap/stability :rock :cap/tag #{:a} "cap/kind" :solver}`))
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "capability/invalid-metadata", e.Type)
	assert.Equal(t, `[:cap/kind]`, e.Details.Key("missing").String())
	got := map[string]string{}
	for f := range e.Details.Key("invalid-fields").Elems() {
		got[f.Key("path").String()+" "+f.Key("got").String()] = f.Key("nearest").String()
		assert.NotEmpty(t, f.Key("message").String())
	}
	assert.Equal(t, map[string]string{
		`[:cap/id] :engine`:                       "nil",
		`[:cap/intents] :chess/best-move`:         "nil",
		`[:io/in-schema] "req/any"`:               "nil",
		`[:io/out-schema] {}`:                     "nil",
		`[:cap/version] " "`:                      "nil",
		`[:cap/can-produce] :valu`:                ":value",
		`[:cap/effects] :fs/wirte`:                ":fs/write",
		`[:cap/tags] #{1}`:                        "nil",
		`[:cap/cost :usd] 0.5`:                    "nil",
		`[:cap/cost] :usd-in`:                     "nil",
		`[:cap/cost :latency-ms] -1`:              "nil",
		`[:cap/limits :timeout-ms] 0`:             "nil",
		`[:cap/limits] :max-in-fligt`:             ":max-in-flight",
		`[:cap/limits :max-tokens] 1.5`:           "nil",
		`[:cap/deterministic?] "yes"`:             "nil",
		`[:cap/recovery-rules 0] [[:a] 1 :twice]`: "nil",
		`[:cap/recovery-rules 1] [[] 1 :once]`:    "nil",
		`[:cap/recovery-rules 2] :x`:              "nil",
		`[:cap/role] "coder"`:                     "nil",
		`[:cap/stability] :rock`:                  "nil",
		`[] :cap/tag`:                             ":cap/tags",
		`[] "cap/kind"`:                           "nil",
	}, got)
}

func TestCapabilityFaultsOneByOne(t *testing.T) {
	for field, value := range map[string]string{
		"cap/effects-allowed": `#{:fs/read}`, // not :cap/effects
		"cap/cost":            `[]`,
		"cap/limits":          `7`,
		"cap/recovery-rules":  `{}`,
		"cap/description":     `7`,
		"cap/model":           `:m`,
		"io/in-schema":        `{"a" :b}`,
		"other/field":         `1`,
	} {
		_, err := ParseCapability(edn.MustRead(engine).AssocKey(field, edn.MustRead(value)))
		assert.ErrorIs(t, err, OfType("capability/invalid-metadata"), field)
	}
	for _, v := range []string{`nil`, `[]`, `{}`, `"x"`} {
		_, err := ParseCapability(edn.MustRead(v))
		assert.ErrorIs(t, err, OfType("capability/invalid-metadata"), v)
	}
	long := edn.MustRead(engine).AssocKey("cap/description", edn.Text(string(make([]byte, 501))))
	_, err := ParseCapability(long)
	assert.ErrorContains(t, err, "too long")
}

// ENV-030: the registry entry of the design lacks the intents that the contract
// requires; with them it is accepted unchanged.
func TestSeedCapability(t *testing.T) {
	v := edn.MustRead(`{:cap/id :llm/code :cap/kind :llm :io/in-schema  :req/code :io/out-schema :res/patch+tests :cap/version "2026-02-15"
	 :cap/cost {:latency-ms 1200} :cap/limits {:timeout-ms 15000} :cap/tags #{:coding :clojure}}`)
	_, err := ParseCapability(v)
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "{:missing [:cap/intents]}", e.Details.String())
	v = v.AssocKey("cap/intents", edn.Keywords("code/patch"))
	c, err := ParseCapability(v)
	require.NoError(t, err)
	assert.True(t, edn.Equal(v, c.Value()))
}

// JRN-041, ENV-024: the recovery class follows from rules, effects and the
// idempotence flag.
func TestRecovery(t *testing.T) {
	parse := func(extra string) Capability {
		c, err := ParseCapability(edn.MustRead(`{:cap/id :a/b :cap/kind :tool :cap/intents #{} :io/in-schema :req/any :io/out-schema :res/any}`).Merge(edn.MustRead(extra)))
		require.NoError(t, err)
		return c
	}
	for _, tt := range []struct {
		extra, input string
		want         RecoveryClass
		strictest    RecoveryClass
	}{
		{`{}`, `{}`, RecoveryNone, RecoveryNone},
		{`{:cap/effects #{}}`, `{}`, RecoveryNone, RecoveryNone},
		{`{:cap/effects #{:fs/read :db/read}}`, `{}`, RecoveryNone, RecoveryNone},
		{`{:cap/effects #{:fs/write}}`, `{}`, RecoveryOnce, RecoveryOnce},
		{`{:cap/effects #{:fs/read :fs/write} :cap/idempotent? true}`, `{}`, RecoveryIdempotent, RecoveryIdempotent},
		{`{:cap/idempotent? true}`, `{}`, RecoveryNone, RecoveryNone},
		{`{:cap/effects #{:fs/write} :cap/idempotent? true :cap/recovery-rules [[[:append?] true :once]]}`, `{:append? true}`, RecoveryOnce, RecoveryOnce},
		{`{:cap/effects #{:fs/write} :cap/idempotent? true :cap/recovery-rules [[[:append?] true :once]]}`, `{:append? false}`, RecoveryIdempotent, RecoveryOnce},
		{`{:cap/effects #{:net/http} :cap/recovery-rules [[[:method] "GET" :none] [[:method] nil :none]]}`, `{:method "GET"}`, RecoveryNone, RecoveryOnce},
		{`{:cap/effects #{:net/http} :cap/recovery-rules [[[:method] "GET" :none] [[:method] nil :none]]}`, `{}`, RecoveryNone, RecoveryOnce},
		{`{:cap/effects #{:net/http} :cap/recovery-rules [[[:method] "GET" :none] [[:method] nil :none]]}`, `{:method "POST"}`, RecoveryOnce, RecoveryOnce},
		{`{:cap/effects #{:net/http} :cap/recovery-rules [[[:a 1 :b] 2 :idempotent] [[:a] [1] :none]]}`, `{:a [0 {:b 2}]}`, RecoveryIdempotent, RecoveryOnce},
		{`{:cap/recovery-rules [[[:danger] true :once]]}`, `nil`, RecoveryNone, RecoveryOnce},
		{`{:cap/recovery-rules [[[:a] 1 :idempotent] [[:a] 1 :once]]}`, `{:a 1}`, RecoveryIdempotent, RecoveryOnce},
	} {
		c := parse(tt.extra)
		assert.Equal(t, tt.want.String(), c.Recovery(edn.MustRead(tt.input)).String(), "%s %s", tt.extra, tt.input)
		assert.Equal(t, tt.strictest.String(), c.StrictestRecovery().String(), tt.extra)
	}
	for _, class := range []RecoveryClass{RecoveryNone, RecoveryIdempotent, RecoveryOnce} {
		got, ok := ParseRecoveryClass(class.String())
		assert.True(t, ok)
		assert.Equal(t, class, got)
	}
	_, ok := ParseRecoveryClass("twice")
	assert.False(t, ok)
	assert.Equal(t, "invalid", RecoveryClass(9).String())
}

// ENV-024: no input has a class stricter than StrictestRecovery.
func TestStrictestRecoveryBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Capability{Idempotent: rapid.Bool().Draw(t, "idempotent"), Effects: rapid.SliceOf(rapid.SampledFrom(effectNames)).Draw(t, "effects")}
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			c.RecoveryRules = append(c.RecoveryRules, RecoveryRule{
				Path: path(edn.K("k")), Match: edn.Int(int64(i)), Class: RecoveryClass(rapid.IntRange(0, 2).Draw(t, "class")),
			})
		}
		input := edn.MustMap(edn.K("k"), edn.Int(rapid.Int64Range(0, 4).Draw(t, "k")))
		assert.LessOrEqual(t, c.Recovery(input), c.StrictestRecovery())
	})
}

// ENV-010, ENV-019, HCL-035, WIRE-005: the description of a plugin.
func TestParseDescription(t *testing.T) {
	v := edn.MustRead(`{:plugin/name "chess" :plugin/version "2.1.0" :capabilities [` + engine + `] :schemas {:req/chess.position [:map]}
	 :config {:config/v 1 :config/schema [:map {:closed true}]} :plugin/needs #{:process/run :net/loopback} :plugin/ports #{11434 443} :features #{"mux" :later} :limits {:max-in-flight 8} :unknown 1}`)
	d, err := ParseDescription(v)
	require.NoError(t, err)
	assert.Equal(t, "chess", d.Name)
	assert.Equal(t, "2.1.0", d.Version)
	assert.Len(t, d.Capabilities, 1)
	assert.Equal(t, "[:map]", d.Schemas["req/chess.position"].String())
	assert.Equal(t, "1", d.ConfigSchema.Key("config/v").String())
	assert.Equal(t, []string{"net/loopback", "process/run"}, d.Needs)
	assert.Equal(t, []uint16{443, 11434}, d.Ports)
	assert.Equal(t, []string{"later", "mux"}, d.Features)
	assert.Equal(t, "{:max-in-flight 8}", d.Limits.String())

	back, err := ParseDescription(d.Value())
	require.NoError(t, err)
	assert.Equal(t, d.Value().String(), back.Value().String())

	minimal, err := ParseDescription(edn.MustRead(`{:plugin/name "x" :capabilities []}`))
	require.NoError(t, err)
	assert.Empty(t, minimal.Capabilities)
	assert.True(t, minimal.ConfigSchema.IsNil())
	assert.Equal(t, `{:capabilities [] :plugin/name "x" :plugin/version "1.0.0"}`, minimal.Value().String())
}

// ENV-017, contracts.md section 7: all problems of a description are reported.
func TestDescriptionFaults(t *testing.T) {
	v := edn.MustRead(`{:capabilities [` + engine + ` {:cap/id :chess/engine :cap/kind :solver :cap/intents #{} :io/in-schema :req/any} 7]
	 :schemas {"req/x" [:map]} :config {:config/v 2} :plugin/needs #{:net/conect} :features [1] :limits 3}`)
	_, err := ParseDescription(v)
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "capability/invalid-metadata", e.Type)
	assert.Equal(t, `[[:config :config/schema] :plugin/name [:capabilities 1 :io/out-schema]]`, e.Details.Key("missing").String())
	var paths []string
	for f := range e.Details.Key("invalid-fields").Elems() {
		paths = append(paths, f.Key("path").String())
	}
	assert.ElementsMatch(t, []string{
		`[:schemas]`, `[:config :config/v]`, `[:plugin/needs]`, `[:features]`, `[:limits]`, `[:capabilities 1 :cap/id]`, `[:capabilities 2]`,
	}, paths)
	for _, ports := range []string{`#{0}`, `#{65536}`, `#{"443"}`, `443`, `{}`} {
		_, err := ParseDescription(edn.MustRead(`{:plugin/name "x" :capabilities [] :plugin/needs #{:net/connect} :plugin/ports ` + ports + `}`))
		assert.ErrorIs(t, err, OfType("capability/invalid-metadata"), ports)
	}
	_, err = ParseDescription(edn.MustRead(`{:plugin/name "x" :capabilities [] :plugin/needs #{:fs/read} :plugin/ports #{443}}`))
	assert.ErrorContains(t, err, "no need is about a network")
	for _, bad := range []string{`7`, `{:plugin/name "x"}`, `{:plugin/name "x" :capabilities {}}`, `{:plugin/name " " :capabilities []}`, `{:plugin/name "x" :capabilities [] :features "mux"}`} {
		_, err := ParseDescription(edn.MustRead(bad))
		assert.ErrorIs(t, err, OfType("capability/invalid-metadata"), bad)
	}
}

func TestNeedsAndEffectsAreCopies(t *testing.T) {
	Needs()[0], Effects()[0] = "x", "x"
	assert.Equal(t, "fs/read", Needs()[0])
	assert.Equal(t, "db/read", Effects()[0])
}
