package contract

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// fuzzSeeds are valid and invalid envelopes of every kind.
var fuzzSeeds = []string{
	engine, `"text"`, `nil`, `{}`, `[]`,
	`{:result {:type :value :out 1 :usage {:tokens-in "x"}} :error nil :x 1}`, `{:result {:type :stream :stream [{:event :delta :text "a"} {:event :done}]}}`,
	`{:result {:type :plan :plan {} :bindings 7}}`, `{:result {:type :error :error {:type :a/b :where :x :cause {:type 1}}}}`,
	`{:type :runtime/x :message "a\nb" :class :stop! :source :host :where {:line 1} :details 7 :cause {:type :plan/invalid}}`,
	`{:plugin/name "x" :capabilities [` + engine + ` 7 {}] :schemas {1 2} :config 7 :features "x"}`,
}

// VAL-051: any input returns an error or a valid value; nothing panics.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	out := schema.MustCompile(edn.MustRead(`[:map [:text :string]]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.Read(text, edn.WithLimits(edn.Body))
		if err != nil {
			assert.NotEmpty(t, SyntaxError("invalid-request", err).Error())
			return
		}
		fuzzResponse(t, v, ResultRules{OutSchema: out, CanProduce: []string{"value", "plan"}})
		fuzzResponse(t, v, ResultRules{})
		fuzzError(t, v)
		fuzzMetadata(t, v)
	})
}

func fuzzResponse(t *testing.T, v edn.Value, want ResultRules) {
	checked, bad := CheckResponse(v, want)
	if bad != nil {
		requireTyped(t, bad, "")
		return
	}
	again, bad := CheckResponse(checked, want)
	require.Nil(t, bad)
	assert.True(t, edn.Equal(checked, again))
	EmitOut(checked.Key("result").Key("out"))
}

func fuzzError(t *testing.T, v edn.Value) {
	for _, from := range []Source{SourcePlugin, SourceHost} {
		e := ErrorFromValue(v, from)
		require.NotNil(t, e)
		back := ErrorFromValue(e.Value(), from)
		assert.Equal(t, e.Value().String(), back.Value().String())
		assert.NotEmpty(t, e.Text(SourceText{Name: "x", Text: []byte("a\nb")}))
		assert.NotEmpty(t, e.JSON())
	}
}

func fuzzMetadata(t *testing.T, v edn.Value) {
	if c, err := ParseCapability(v); err != nil {
		requireTyped(t, err, "capability/invalid-metadata")
	} else {
		again, err := ParseCapability(c.Value())
		require.NoError(t, err)
		assert.Equal(t, c.Value().String(), again.Value().String())
		assert.LessOrEqual(t, c.Recovery(v), c.StrictestRecovery())
	}
	if d, err := ParseDescription(v); err != nil {
		requireTyped(t, err, "capability/invalid-metadata")
	} else {
		again, err := ParseDescription(d.Value())
		require.NoError(t, err)
		assert.Equal(t, d.Value().String(), again.Value().String())
	}
}

func requireTyped(t *testing.T, err error, typ string) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.LessOrEqual(t, len([]rune(e.FullMessage())), MaxMessage)
	assert.NotContains(t, e.Error(), "\n")
	if typ != "" {
		assert.Equal(t, typ, e.Type)
	}
}
