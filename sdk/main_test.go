package sdk_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Main(m, fixture()) }

type settings struct {
	Greeting string `edn:"greeting" doc:"what comes before the name"`
	Times    int    `edn:"times" min:"1" max:"3"`
	Key      string `edn:"key" secret:"true"`
	File     string `edn:"file,omitempty" unit:"path"`
}

// fixture is the plugin for tests that need a process: its capabilities inspect
// the process or disturb it.
func fixture() sdk.Plugin {
	type empty struct{}
	return sdk.Plugin{
		Name: "fixture", Version: "0.1.0",
		Config: sdk.Config[settings]{Default: settings{Greeting: "Hello", Times: 1}},
		Capabilities: []sdk.Capability{
			sdk.Func("test/env", sdk.Intents("test/env"), func(context.Context, empty) ([]string, error) { return os.Environ(), nil }),
			sdk.Func("test/memory", sdk.Intents("test/memory"), func(context.Context, empty) (string, error) {
				status, err := os.ReadFile("/proc/self/status")
				return string(status), err
			}),
			sdk.Func("test/child", sdk.Intents("test/child"), func(ctx context.Context, _ empty) (string, error) {
				out, err := exec.CommandContext(ctx, "/bin/sh", "-c", "env").CombinedOutput()
				return string(out), err
			}),
			sdk.Func("test/print", sdk.Intents("test/print"), func(ctx context.Context, _ empty) (empty, error) {
				fmt.Println("a stray line on stdout")
				sdk.Logger(ctx).Warn("a line of the log", "n", 7)
				sdk.Logger(ctx).Debug("a detail")
				return empty{}, nil
			}),
			sdk.Func("test/panic", sdk.Intents("test/panic"), func(context.Context, empty) (empty, error) { panic("as asked") }),
			sdk.Func("test/wait", sdk.Intents("test/wait"), func(ctx context.Context, _ empty) (empty, error) {
				<-ctx.Done()
				return empty{}, ctx.Err()
			}),
			sdk.Func("test/stubborn", sdk.Intents("test/stubborn"), func(context.Context, empty) (empty, error) {
				time.Sleep(time.Minute)
				return empty{}, nil
			}),
			sdk.Func("test/collector", sdk.Intents("test/collector"), collector),
			sdk.Func("test/root", sdk.Intents("test/root"), func(ctx context.Context, _ empty) (string, error) { return sdk.Root(ctx), nil }),
		},
		Close: func(ctx context.Context) error {
			if root := sdk.Root(ctx); root != "" {
				return os.WriteFile(root+"/closed", nil, 0o600)
			}
			return nil
		},
	}
}

type collected struct {
	Percent int   `edn:"percent"`
	Limit   int64 `edn:"limit"`
}

// collector holds the given MiB of live heap over some collections and returns
// the settings of the collector.
func collector(ctx context.Context, x struct {
	MiB int `edn:"mib"`
}) (collected, error) {
	live := make([]byte, x.MiB<<20)
	var c collected
	for last := int64(-1); c.Limit != last && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		last = c.Limit
		runtime.GC()
		time.Sleep(20 * time.Millisecond) // cleanups run after the collection
		c.Limit = debug.SetMemoryLimit(-1)
	}
	c.Percent = debug.SetGCPercent(100)
	debug.SetGCPercent(c.Percent)
	runtime.KeepAlive(live)
	return c, ctx.Err()
}

// text returns the text of an answer.
func text(v edn.Value) string {
	s, _ := v.Key("text").AsString()
	return s
}
