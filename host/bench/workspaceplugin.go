package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// called measures calls of the plugin: durable frames, and reads of a node compared with calls of a
// plugin that does nothing.
func (b *workspaceBench) called() []row {
	settings := plugin.DefaultSettings("workspace", must(filepath.Abs(filepath.Join(programs, "plugins", "workspace"))))
	settings.Isolation.ReadPaths = []string{b.root}
	settings.Isolation.WritePaths = []string{filepath.Join(b.root, ".ferment")}
	settings.Config = edn.MustMap(edn.K("allowed-roots"), edn.Vector(edn.Text(b.root)), edn.K("default-agent"), edn.Text("writer"))
	p := must(startPlugin(settings, "workspace/scan", "context/put-frame", "context/get-node"))
	defer p.close()
	ask := func(intent string, input edn.Value) {
		request := edn.MustMap(
			edn.K("proto"), edn.Int(contract.Proto), edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent), edn.K("cap/id"), edn.K(intent)),
			edn.K("input"), input,
		)
		call := callOf(intent, request, nil)
		call.Effects = []string{"db/read", "db/write", "fs/read"}
		answer := must(p.client.Invoke(context.Background(), call))
		if e := answer.Response.Key("error"); !e.IsNil() {
			panic(fmt.Sprintf("%s: %s", intent, e))
		}
	}
	put := func(path, frameType string, text []byte) {
		ask("context/put-frame", edn.MustMap(
			edn.K("path"), edn.Text(path), edn.K("frame/type"), edn.Text(frameType), edn.K("content"), edn.Text(string(text)),
		))
	}
	ask("workspace/scan", edn.MustMap())
	rows := b.durable("plugin: ", "WS-247", func(path string, text []byte) { put(path, "note", text) })
	for i := range 10 {
		put(b.filePath(1), fmt.Sprint("type", i), fmt.Append(nil, "text of the frame ", i))
	}
	empty := must(startAlone())
	defer empty.close()
	nothing := edn.MustMap(edn.K("proto"), edn.Int(contract.Proto), edn.K("task"), edn.MustMap(edn.K("intent"), edn.K("bench/echo")), edn.K("input"), edn.MustMap())
	node := edn.MustMap(edn.K("path"), edn.Text(b.filePath(1)))
	ours, theirs, err := oneByOne(pace{rounds: b.rounds}, 100,
		func() error { ask("context/get-node", node); return nil },
		func() error { return empty.call(context.Background(), nothing) })
	check(err)
	return append(rows, against("plugin: get-node by path, 10 frames", median[time.Duration](ours), "empty call", median(theirs), 3).of("WS-248", 2))
}
