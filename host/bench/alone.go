package main

import (
	"context"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// alone calls the echo through supervisor and plugin wire and nothing else: no
// act, plan, gate or journal, and no text at either end. No gated call can take
// less.
type alone struct {
	supervisor *plugin.Supervisor
	client     *plugin.Client
	dir        *launch.RuntimeDir
}

func startAlone() (_ *alone, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &alone{}
	if a.dir, err = launch.OpenRuntimeDir(launch.RuntimeBase("", os.Getuid())); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	a.supervisor, err = plugin.New(plugin.Options{Runtime: a.dir, Host: wire.HostInfo{Version: "bench", Features: wire.HostFeatures()}})
	if err != nil {
		return nil, err
	}
	if err := a.supervisor.Start(plugin.DefaultSettings("bench", self, rolePlugin, "one")); err != nil {
		return nil, err
	}
	if a.client, err = a.supervisor.Client(map[string]plugin.Route{"bench/echo": {Plugin: "bench"}}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return a, a.client.Await(ctx, "bench/echo")
}

func (a *alone) close() {
	if a.client != nil {
		a.client.Close()
	}
	if a.supervisor != nil {
		_ = a.supervisor.Close(context.Background())
	}
	_ = a.dir.Close()
}

func (a *alone) call(ctx context.Context, request edn.Value) error {
	_, err := a.client.Invoke(ctx, dispatch.Call{
		CapID: "bench/echo", Run: "alone", Node: "n", Path: edn.Vector(), Attempt: 1, Request: request,
		Effects: []string{"none"}, Deadline: time.Now().Add(time.Minute),
	})
	return err
}
