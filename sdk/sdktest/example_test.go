package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// A test serves the plugin, sets the answers of its host, calls it, and checks
// its requests to the host.
func ExampleServe() {
	titles := sdk.Plugin{
		Name: "titles", Version: "1.0.0",
		Capabilities: []sdk.Capability{
			sdk.Func("demo/title", sdk.Intents("demo/title"), func(ctx context.Context, in struct {
				Text string `edn:"text"`
			},
			) (string, error) {
				answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{Intent: "context/summarize", Input: in})
				summary, _ := answer.Out().Key("summary").AsString()
				return summary, err
			}),
		},
	}
	t := newExampleT() // the *testing.T of a test
	defer t.end()

	host := &sdktest.Host{}
	host.AnswerValue("context/summarize", edn.MustRead(`{:summary "Bees dance"}`))
	p := sdktest.Serve(t, titles, sdktest.WithHost(host))

	fmt.Println(p.MustInvoke("demo/title", map[string]any{"text": "Bees dance to tell where food is."}))
	fmt.Println(host.Calls()[0].Request.Key("task"))

	_, err := p.Invoke("demo/title", map[string]any{"text": 7})
	fmt.Println(errors.Is(err, contract.OfType("input/invalid")), err)
	// Output:
	// {:text "Bees dance"}
	// {:intent :context/summarize}
	// true :input/invalid: input [:text]: should be a string
}

// exampleT is the part of testing.TB that an example needs.
type exampleT struct {
	testing.TB
	dirs     []string
	cleanups []func()
}

func newExampleT() *exampleT { return &exampleT{} }

func (t *exampleT) Helper()                        {}
func (t *exampleT) Failed() bool                   { return false }
func (t *exampleT) Context() context.Context       { return context.Background() }
func (t *exampleT) Cleanup(f func())               { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, a ...any) { fmt.Printf(format+"\n", a...) }
func (t *exampleT) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func (t *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	t.dirs = append(t.dirs, dir)
	return dir
}

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	for _, dir := range t.dirs {
		_ = os.RemoveAll(dir)
	}
}
