package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// alone calls the echo plugin through the supervisor and the plugin wire only: without act, plan,
// gate and journal, and without EDN text. Its time is the lower bound for a gated call.
type alone struct {
	supervisor *plugin.Supervisor
	client     *plugin.Client
	dir        *rundir.Dir
}

func startAlone() (*alone, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startPlugin(plugin.DefaultSettings("bench", self, rolePlugin, "one"), "bench/echo")
}

// startPlugin starts one plugin and waits until the first of its capabilities is ready.
func startPlugin(settings plugin.Settings, capabilities ...string) (_ *alone, err error) {
	a := &alone{}
	if a.dir, err = rundir.Open(rundir.Base("", os.Getuid())); err != nil {
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
	if err := a.supervisor.Start(settings); err != nil {
		return nil, err
	}
	routes := map[string]plugin.Route{}
	for _, id := range capabilities {
		routes[id] = plugin.Route{Plugin: settings.Name}
	}
	if a.client, err = a.supervisor.Client(routes); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return a, a.client.Await(ctx, capabilities[0])
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
	_, err := a.client.Invoke(ctx, callOf("bench/echo", request, nil))
	return err
}

func callOf(capability string, request edn.Value, onDelta func(edn.Value)) dispatch.Call {
	return dispatch.Call{
		CapID: capability, Run: "alone", Node: "n", Path: edn.Vector(), Attempt: 1, Request: request,
		Effects: []string{"none"}, Deadline: time.Now().Add(time.Minute), OnDelta: onDelta,
	}
}

// ask calls a capability and checks the response; onDelta may be nil.
func (a *alone) ask(ctx context.Context, capability string, request edn.Value, onDelta func(edn.Value)) (edn.Value, error) {
	request = request.AssocKey("task", request.Key("task").AssocKey("cap/id", edn.K(capability)))
	answer, err := a.client.Invoke(ctx, callOf(capability, request, onDelta))
	if err == nil {
		_, problem := contract.CheckResponse(answer.Response, contract.ResultRules{})
		if problem != nil {
			err = problem
		}
	}
	return answer.Response, err
}

// resident returns the resident memory of the plugin process, in bytes.
func (a *alone) resident() (int64, error) {
	for _, s := range a.supervisor.Status() {
		if s.PID != 0 {
			return residentOf(s.PID)
		}
	}
	return 0, errors.New("the plugin has no process")
}
