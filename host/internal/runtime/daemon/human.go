package daemon

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
)

// executor calls plugins and the conversation capabilities of the host. Capabilities of people are
// ready only if their answers can arrive through the journal of a daemon.
type executor struct {
	*plugin.Client
	registry *registry.Registry
	access   *policy.Access
	asks     bool // the journal is durable, so people can answer
	host     *Host
}

var (
	_ dispatch.Executor = executor{}
	_ dispatch.Trials   = executor{}
)

func (x executor) human(capID string) bool {
	c, ok := x.registry.Capability(capID)
	return ok && c.Human != nil
}

func (x executor) ours(capID string) bool {
	c, ok := x.registry.Capability(capID)
	return ok && c.Host
}

func unasked(capID string) *contract.Error {
	return contract.Errorf("runtime/not-ready", ":%s is answered by people, whom only a daemon with a journal on disk can ask", capID).
		WithRetryable(false).WithHint("start \"ferment serve\" with store.driver = \"sqlite\", and send the act to it")
}

// State implements dispatch.Executor.
func (x executor) State(capID string) dispatch.CapState {
	switch {
	case x.ours(capID):
		return dispatch.CapState{Ready: true}
	case !x.human(capID):
		return x.Client.State(capID)
	case x.asks:
		return dispatch.CapState{Ready: true}
	}
	return dispatch.CapState{Reason: "runtime/not-ready", Why: unasked(capID)}
}

// Await implements dispatch.Executor.
func (x executor) Await(ctx context.Context, capID string) error {
	switch {
	case x.ours(capID):
		return nil
	case !x.human(capID):
		return x.Client.Await(ctx, capID)
	case x.asks:
		return nil
	}
	return unasked(capID)
}

// Invoke implements dispatch.Executor. Plan nodes that people answer do not use it; calling people
// for a check or as a judge is an error.
func (x executor) Invoke(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	if x.human(call.CapID) {
		return dispatch.Answer{}, contract.Errorf("runtime/invoke-failed", ":%s is answered by people and cannot be a check or a judge", call.CapID).
			WithHint("use a capability of a plugin")
	}
	if x.ours(call.CapID) {
		return x.converse(ctx, call)
	}
	call, err := x.resolved(ctx, call)
	if err != nil {
		return dispatch.Answer{}, err
	}
	return x.Client.Invoke(ctx, call)
}
