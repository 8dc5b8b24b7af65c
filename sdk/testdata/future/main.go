// Future is a plugin of another protocol revision: the next one, or the one in
// its argument. Its description has keys and features that this revision does
// not know.
package main

import (
	"context"
	"os"
	"strconv"

	"github.com/hashicorp/go-plugin"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

func main() {
	service, err := sdk.NewService(sdk.Plugin{Name: "future", Version: "2.0.0", Capabilities: []sdk.Capability{
		sdk.Func("demo/future", sdk.Intents("demo/future"), func(context.Context, struct{}) (string, error) { return "from the future", nil }),
	}}, nil, nil)
	if err != nil {
		panic(err)
	}
	cfg := wire.ServeConfig(newer{service})
	cfg.ProtocolVersion = wire.Protocol + 1
	if len(os.Args) > 1 {
		revision, err := strconv.ParseUint(os.Args[1], 10, 8)
		if err != nil {
			panic(err)
		}
		cfg.ProtocolVersion = uint(revision)
	}
	plugin.Serve(cfg)
}

// newer describes itself with keys and features of a later minor version.
type newer struct{ *sdk.Service }

// Describe implements wire.Service.
func (n newer) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	return n.more(n.Service.Describe(ctx, config, host))
}

// Configure implements wire.Service.
func (n newer) Configure(ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
	return n.more(n.Service.Configure(ctx, given, host))
}

func (n newer) more(d wire.Description, err error) (wire.Description, error) {
	if err == nil {
		d.Value = d.Value.AssocKey("plugin/telepathy", edn.Bool(true)).AssocKey("features", edn.SetOf(edn.Text("telepathy")))
	}
	return d, err
}
