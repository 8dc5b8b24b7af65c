package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

type question struct {
	Text string `edn:"text,omitempty"`
}

// capabilityOf returns a plugin with one capability whose answers have type O.
func capabilityOf[O any](fn func(context.Context, question) (O, error)) sdk.Plugin {
	return sdk.Plugin{Name: "answers", Version: "1.0.0", Capabilities: []sdk.Capability{sdk.Func("t/answer", sdk.Intents("t/answer"), fn)}}
}

func always[O any](out O) sdk.Plugin {
	return capabilityOf(func(context.Context, question) (O, error) { return out, nil })
}

// SDK-001: answers of every Go type fit the schema derived for the type.
func TestAnswersFitTheirSchema(t *testing.T) {
	for name, c := range map[string]struct {
		plugin sdk.Plugin
		want   string
	}{
		"struct":         {always(question{Text: "x"}), `{:text "x"}`},
		"map":            {always(map[string]any{"n": 1}), `{:n 1}`},
		"string":         {always("hello"), `{:text "hello"}`},
		"int":            {always(7), `{:value 7}`},
		"bool":           {always(true), `{:value true}`},
		"strings":        {always([]string{"a", "b"}), `{:value ["a" "b"]}`},
		"pointer":        {always(&question{Text: "x"}), `{:text "x"}`},
		"nil pointer":    {always[*question](nil), `{}`},
		"map of structs": {always(map[string]question{"a": {Text: "x"}}), `{:a {:text "x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := sdktest.Serve(t, c.plugin)
			out := p.MustInvoke("t/answer", question{})
			if name != "map of structs" && name != "map" {
				assert.Equal(t, c.want, out.String())
			}
			d := p.Description()
			spec, published := d.Schemas[d.Capabilities[0].OutSchema.For("t/answer")]
			require.True(t, published)
			s, err := schema.Compile(spec)
			require.NoError(t, err)
			assert.Empty(t, s.Validate(out), "%s against %s", out, spec)
		})
	}
}

// ATT-003: the end of a context of the author is a failure of the capability;
// only the end of the call's context cancels the call.
func TestOwnContextIsNotTheCall(t *testing.T) {
	p := sdktest.Serve(t, capabilityOf(func(ctx context.Context, _ question) (question, error) {
		own, cancel := context.WithTimeout(ctx, time.Nanosecond)
		defer cancel()
		<-own.Done()
		return question{}, fmt.Errorf("fetch: %w", own.Err())
	}))
	_, err := p.Invoke("t/answer", question{})
	require.True(t, errors.Is(err, contract.OfType("runtime/invoke-failed")), "%v", err)
	assert.ErrorContains(t, err, "fetch: context deadline exceeded")
}
