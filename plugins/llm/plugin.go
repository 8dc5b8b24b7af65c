package main

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/settings"
	"github.com/fermenthq/ferment/plugins/internal/provider/tables"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// adapter is the plugin: unconfigured at first, then one provider.
type adapter struct {
	clock   transport.Clock
	account atomic.Pointer[account]
}

type account struct {
	provider *answer.Provider
	models   map[string]*answer.Model
	// doubt receives a token when a call could not reach the server.
	doubt chan struct{}
}

// newPlugin returns the plugin; its timers use the clock.
func newPlugin(clock transport.Clock) sdk.Plugin {
	a := &adapter{clock: clock}
	return sdk.Plugin{
		Name: "llm", Version: version, Features: []string{sdk.FeatureHotSwap},
		Config: sdk.Config[settings.Settings]{
			Default: settings.Defaults(),
			Offer:   a.offer,
			Check:   settings.Settings.CheckSecrets,
			Start:   a.start,
		},
		Health: a.health,
		Close:  a.close,
	}
}

// offer returns one capability per model block. It accesses no key and no
// server.
func (a *adapter) offer(_ context.Context, s settings.Settings) (sdk.Offer, error) {
	s = s.Named()
	if err := s.Check(); err != nil {
		return sdk.Offer{}, err
	}
	var o sdk.Offer
	if need, port, ok := s.Network(); ok {
		o.Needs, o.Ports = []string{need}, []uint16{port}
	}
	for _, label := range slices.Sorted(maps.Keys(s.Models)) {
		o.Capabilities = append(o.Capabilities, a.capability(s, label))
	}
	return o, nil
}

func (a *adapter) capability(s settings.Settings, label string) sdk.Capability {
	return s.Models[label].Capability(s.Provider+"/"+label, s.Provider,
		func(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
			return a.answer(ctx, label, request, out)
		})
}

func (a *adapter) answer(ctx context.Context, label string, request edn.Value, out *sdk.Stream) (edn.Value, error) {
	now := a.account.Load()
	model := now.models[label]
	response, err := now.provider.Answer(ctx, model, sdk.CallFrom(ctx).Intent, request, out)
	if err != nil {
		return edn.Nil(), err
	}
	if kind, _ := response.Key("result").Key("error").Key("type").AsKeyword(); kind == "provider/unavailable" {
		select {
		case now.doubt <- struct{}{}:
		default:
		}
	}
	return response, nil
}

func (a *adapter) start(_ context.Context, s settings.Settings) error {
	provider, models, err := s.Named().Build(a.clock, tables.For)
	if err != nil {
		return err
	}
	a.account.Store(&account{provider, models, make(chan struct{}, 1)})
	return nil
}

// lookAgain is the interval of checks for an unreachable server.
const lookAgain = 15 * time.Second

// health reports whether there is a key and whether the server can be reached.
// A plugin without a key is not ready. One with an unreachable server stays
// callable: the error of a call is more precise, and the host can switch to
// another candidate.
func (a *adapter) health(ctx context.Context, report func(sdk.Status)) {
	now := a.account.Load()
	if now.provider.Missing != "" {
		report(sdk.NotReady(":provider/not-configured: " + now.provider.Missing))
		return
	}
	for {
		fault := now.provider.Client.Reach(ctx)
		if ctx.Err() != nil {
			return
		}
		if fault == nil {
			report(sdk.Ready())
			select {
			case <-now.doubt: // a call could not reach it
			case <-ctx.Done():
				return
			}
			continue
		}
		status := sdk.Degraded(":provider/unavailable: " + now.provider.Report.Scrub.Clean(fault.Text))
		status.Source = contract.SourceDownstream
		report(status)
		if !transport.Sleep(ctx, a.clock, lookAgain) {
			return
		}
	}
}

func (a *adapter) close(context.Context) error {
	if now := a.account.Load(); now != nil {
		now.provider.Client.Close()
	}
	return nil
}
