package sdktest_test

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

type greeting struct {
	Name string `edn:"name"`
}

type greeted struct {
	Text string `edn:"text"`
}

func greet(_ context.Context, in greeting) (greeted, error) {
	if in.Name == "" {
		return greeted{}, errors.New("nobody to greet")
	}
	return greeted{"Hello, " + in.Name}, nil
}

func newGreeter() sdk.Plugin {
	return sdk.Plugin{
		Name: "greeter", Version: "1.0.0",
		Capabilities: []sdk.Capability{sdk.Func("demo/greeter", sdk.Intents("demo/greet"), greet)},
	}
}

func TestMain(m *testing.M) { sdktest.Main(m, newGreeter()) }

// SDK-004: a plugin in this process and one in its own give the same answers.
func TestServeAndStart(t *testing.T) {
	for name, p := range map[string]*sdktest.Plugin{"served": sdktest.Serve(t, newGreeter()), "started": sdktest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			out := p.MustInvoke("demo/greeter", greeting{"Ada"})
			assert.Equal(t, `{:text "Hello, Ada"}`, out.String())
			_, err := p.Invoke("demo/greeter", map[string]any{})
			require.Error(t, err)
			assert.Contains(t, err.Error(), ":input/invalid")
		})
	}
}

// SDK-004: the conformance checks run as subtests, in process and on a process.
func TestConform(t *testing.T) {
	t.Run("in process", func(t *testing.T) { sdktest.Conform(t, newGreeter()) })
	// A process costs a start; what differs from the above is how it ends.
	some := conformance.Options{Only: regexp.MustCompile(`^core/(describe/pure|invoke/(answer|large)|malformed/too-large|drain|shutdown)`)}
	t.Run("process", func(t *testing.T) { sdktest.ConformSelf(t, some) })
}
