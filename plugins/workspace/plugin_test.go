package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }

// bench is a plugin process with one allowed directory.
type bench struct {
	*testing.T
	p    *sdktest.Plugin
	root string
	host *sdktest.Host
}

// config returns a configuration for one directory.
func config(root string) map[string]any {
	return map[string]any{"allowed-roots": []any{root}, "default-agent": "synthesis"}
}

// start runs the plugin as a process of its own on a directory with files.
func start(t *testing.T, files map[string]string, change ...func(map[string]any)) *bench {
	t.Helper()
	b := &bench{T: t, root: t.TempDir(), host: &sdktest.Host{}}
	b.write(files)
	cfg := config(b.root)
	for _, c := range change {
		c(cfg)
	}
	b.p = sdktest.Start(t, sdktest.WithConfig(cfg), sdktest.WithHost(b.host))
	return b
}

// again runs another process in place of the one that ended.
func (b *bench) again(cfg map[string]any) {
	b.Helper()
	b.p = sdktest.Start(b.T, sdktest.WithConfig(cfg), sdktest.WithHost(b.host))
}

// startOn runs another process on a directory.
func startOn(t *testing.T, root string) *sdktest.Plugin {
	t.Helper()
	return sdktest.Start(t, sdktest.WithConfig(config(root)))
}

func (b *bench) write(files map[string]string) {
	b.Helper()
	made := filepath.Join(b.TempDir(), "made")
	for name, text := range files {
		path := filepath.Join(b.root, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b, os.WriteFile(made, []byte(text), 0o644))
		require.NoError(b, os.Rename(made, path), "in one step: a watch never sees half a file")
	}
}

// as is the context of a call by a principal, with the operations that the host
// permits to it.
func as(principal string, permits ...string) wire.CallContext {
	return wire.CallContext{Principal: principal, Permits: permits}
}

// try makes a call and returns the output or the error. Without a context the
// caller may administer workspaces.
func (b *bench) try(intent, input string, who ...wire.CallContext) (edn.Value, *contract.Error) {
	b.Helper()
	ctx := as("ann", administer)
	if len(who) > 0 {
		ctx = who[0]
	}
	response, err := b.p.Do(b.Context(), sdktest.Call{Capability: intent, Input: edn.MustRead(input), Context: ctx})
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	if failure := response.Key("error"); !failure.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failure, contract.SourcePlugin)
	}
	out := response.Key("result").Key("out")
	b.fits(intent, out)
	return out, nil
}

// fits fails the test if an output is not what the schema of its intent says.
func (b *bench) fits(intent string, out edn.Value) {
	b.Helper()
	shape, ok := registry(schemasOf(schemaText)).Lookup(schemaName("res", intent))
	require.True(b, ok, intent)
	require.Empty(b, shape.Validate(out), "%s: %s", intent, out)
}

// call is try for calls that must succeed.
func (b *bench) call(intent, input string) edn.Value {
	b.Helper()
	out, err := b.try(intent, input)
	require.Nil(b, err, "%s %s: %v", intent, input, err)
	return out
}

// fails and failure check the type of the error of a call.
func (b *bench) fails(typ, intent, input string, who ...wire.CallContext) {
	b.Helper()
	_ = b.failure(typ, intent, input, who...)
}

func (b *bench) failure(typ, intent, input string, who ...wire.CallContext) *contract.Error {
	b.Helper()
	out, err := b.try(intent, input, who...)
	require.NotNil(b, err, "%s %s: %s", intent, input, out)
	require.Equal(b, typ, err.Type, "%s %s: %v", intent, input, err)
	return err
}

// WS-025, WS-200: a scan where no store is creates one; a second one changes
// nothing.
func TestScanCreatesAndRepeats(t *testing.T) {
	b := start(t, map[string]string{"a.txt": "one", "src/b.txt": "two"})
	b.fails("workspace/not-found", "context/get-head", `{:path "a.txt" :frame/type "note"}`)
	first := b.call("workspace/scan", `{}`)
	assert.Equal(t, edn.Int(4), first.Key("added"))
	again := b.call("workspace/scan", `{}`)
	assert.Equal(t, edn.Int(0), again.Key("added"))
	assert.Equal(t, first.Key("seq").String(), again.Key("seq").String())
	assert.Equal(t, first.Key("root").String(), again.Key("root").String())
	put := b.call("context/put-frame", `{:path "a.txt" :frame/type "note" :content "first" :meta {:ticket "T-9"}}`)
	head := b.call("context/get-head", `{:path "a.txt" :frame/type "note"}`)
	assert.Equal(t, put.Key("frame/id").String(), head.Key("frame/id").String())
	assert.Equal(t, ":fresh", head.Key("state").String())
	assert.True(t, b.call("context/put-frame", `{:path "a.txt" :frame/type "note" :content "first" :meta {:ticket "T-9"}}`).Key("frame/existing?").Truthy())
	assert.Equal(t, 1, b.call("context/list-frames", `{:path "a.txt"}`).Key("frames").Len())
	assert.Equal(t, 1, b.call("context/history", `{:path "a.txt"}`).Key("versions").Len())
	assert.Equal(t, 3, b.call("context/agents", `{}`).Key("agents").Len())
}

// WS-025: only the request that creates a store says so, also in the process that did.
func TestCreatedOnce(t *testing.T) {
	b := start(t, map[string]string{"a.txt": "one"})
	assert.True(t, b.call("workspace/init", `{}`).Key("created?").Truthy())
	assert.False(t, b.call("workspace/init", `{}`).Key("created?").Truthy())
	other := start(t, map[string]string{"a.txt": "one"})
	other.call("workspace/scan", `{}`)
	assert.False(t, other.call("workspace/init", `{}`).Key("created?").Truthy())
}

// callOf is a call that reads the events of a stream.
func callOf(intent, input string, on func(wire.Event)) sdktest.Call {
	return sdktest.Call{
		Capability: intent,
		Input:      edn.MustRead(input),
		Fields:     edn.MustMap(edn.K("stream?"), edn.Bool(true)),
		Context:    as("ann", administer),
		OnEvent:    on,
	}
}
