package request

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-051: any input returns an error or a valid request; nothing panics.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		base, seedV03, `"text"`, `{:prompt "x"}`, `nil`, `{}`, `[]`,
		`{:proto 2 :trace 7 :task {:intent "x" :requires {:in-schema 1} :dispatch {:retry {:same-cap-max -1} :candidates [{:cap/ref :a}]}} :input [] :done {:must 1} :effects 7 :budget {:usd 0.1 :max-tokens -1}}`,
		`{:messages [{:role 1 :content nil}] :steps [{:op :x}] :requires {:quality/must [1 "a"]} :context {:lang ""}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.Read(text, edn.WithLimits(edn.Body))
		if err != nil {
			return
		}
		translated, _, err := Translate(v, DefaultTrace("t"))
		if err != nil {
			requireInvalid(t, contract.AsError(err))
			return
		}
		for _, env := range []Env{{}, testEnv()} {
			r, bad := parse(translated, env)
			if bad != nil {
				requireInvalid(t, bad)
				continue
			}
			AnswerV03(r, v)
		}
	})
}

func requireInvalid(t *testing.T, e *contract.Error) {
	t.Helper()
	require.Equal(t, "invalid-request", e.Type)
	assert.LessOrEqual(t, len([]rune(e.FullMessage())), contract.MaxMessage)
	assert.NotContains(t, e.Error(), "\n")
	assert.False(t, e.Details.Key("reason").IsNil())
}
