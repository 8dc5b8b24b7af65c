package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The test binary is the host's reaper and, under another name, its plugin.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "as-plugin" {
		sdk.Serve(asking())
	}
	os.Exit(m.Run())
}

type line struct {
	Text string `edn:"text"`
}

// asking is a plugin with three capabilities: one shouts, one calls the first
// through the host and adds a word, one calls itself through the host without
// end.
func asking() sdk.Plugin {
	ask := func(ctx context.Context, intent, text string, fields edn.Value) (line, error) {
		answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{Intent: intent, Input: line{text}, Fields: fields})
		if err != nil {
			return line{}, err
		}
		var out line
		return out, answer.Decode(&out)
	}
	return sdk.Plugin{
		Name: "asking", Version: "1.0.0",
		Capabilities: []sdk.Capability{
			sdk.Func("t/shout", sdk.Intents("t/shout"), func(_ context.Context, in line) (line, error) {
				return line{strings.ToUpper(in.Text)}, nil
			}),
			sdk.Func("t/ask", sdk.Intents("t/ask"), func(ctx context.Context, in line) (line, error) {
				out, err := ask(ctx, "t/shout", in.Text, edn.Nil())
				return line{out.Text + " (asked)"}, err
			}),
			sdk.Func("t/loop", sdk.Intents("t/loop"), func(ctx context.Context, in line) (line, error) {
				return ask(ctx, "t/loop", in.Text, edn.Nil())
			}),
			sdk.Func("t/greedy", sdk.Intents("t/greedy"), func(ctx context.Context, in line) (line, error) {
				return ask(ctx, "t/writer", in.Text, edn.MustRead(`{:effects {:allowed #{:fs/write}} :deadline-ms 86400000}`))
			}),
			sdk.Func("t/writer", sdk.Intents("t/writer"), func(_ context.Context, in line) (line, error) {
				return in, nil
			}, sdk.Effects("fs/write")),
		},
	}
}

func start(t *testing.T) *daemon.Host {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	text := fmt.Sprintf("ferment {\n  profile  = \"dev\"\n  data_dir = \"var\"\n}\n\nplugin \"asking\" {\n  command    = [%q, \"as-plugin\"]\n  env        = { GORACE = \"atexit_sleep_ms=0\" }\n  call_depth = 4\n}\n", self)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte(text), 0o600))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	h, err := daemon.Start(t.Context(), daemon.Options{Options: setup.Options{Dir: dir, Version: "test", Env: os.LookupEnv}})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

func ask(h *daemon.Host, intent string) (edn.Value, *contract.Error) {
	return h.Service().Do(context.Background(), act.Act{Request: edn.MustRead(
		`{:proto 1 :trace {:id "t"} :task {:intent :` + intent + `} :input {:text "hello"} :deadline-ms 20000}`)})
}

// WIRE-002, SDK-001: a capability may request another intent from its host
// within a call.
func TestPluginAsksItsHost(t *testing.T) {
	h := start(t)
	response, err := ask(h, "t/ask")
	require.Nil(t, err)
	text, _ := response.Key("result").Key("out").Key("text").AsString()
	assert.Equal(t, "HELLO (asked)", text)
}

// WIRE-004: the depth of calls that wait for each other is limited; the host
// and the plugin go on serving.
func TestPluginAsksItselfForEver(t *testing.T) {
	h := start(t)
	_, err := ask(h, "t/loop")
	require.NotNil(t, err)
	assert.Contains(t, err.Value().String(), "plan/too-deep", "%v", err)
	response, err := ask(h, "t/shout")
	require.Nil(t, err)
	text, _ := response.Key("result").Key("out").Key("text").AsString()
	assert.Equal(t, "HELLO", text)
}

// A request of a plugin cannot have more effects than the call it is made in.
func TestPluginCannotWidenEffects(t *testing.T) {
	h := start(t)
	_, err := ask(h, "t/greedy")
	require.NotNil(t, err)
	assert.Contains(t, err.Value().String(), "no capability can serve :t/writer", "%v", err)
}

// A required plugin that cannot start fails the start, and the error names it.
func TestRequiredPluginThatFails(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho this is no plugin\nexit 3\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte("ferment {\n  profile = \"dev\"\n}\n\nplugin \"broken\" {\n  command = [\"broken\"]\n}\n"), 0o600))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	_, err := daemon.Start(t.Context(), daemon.Options{Options: setup.Options{Dir: dir, Version: "test", Env: os.LookupEnv}})
	var invalid *setup.InvalidConfigError
	require.ErrorAs(t, err, &invalid, "it cannot even say what it is")
	require.NotEmpty(t, invalid.Config.Diagnostics)
	assert.Contains(t, invalid.Config.Diagnostics[0].Message, `"broken"`)
}
