package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AUTH-003: a run that goes on with the present rights of its owner, such as a job, makes host calls
// like any other run of its owner. Only another principal needs the right to conversations of others.
func TestHostCallsOfARunThatGoesOn(t *testing.T) {
	x := executor{access: policy.ShippedAccess()}
	user := func(name string) policy.Caller { return policy.Caller{Name: name, Roles: []string{"role/user"}} }
	for name, allowed := range map[string]bool{"user/1": true, "user/2": false} {
		run := dispatch.Call{Principal: "user/1", Caller: user("user/1")}
		run.Caller.Also = []policy.Caller{user(name)}
		inner := dispatch.Call{Principal: "solver", Caller: user("solver")}
		inner.Caller.Also = accounts(run)
		nested := dispatch.Call{Principal: "agent", Caller: user("agent")}
		nested.Caller.Also = accounts(inner)
		for _, call := range []dispatch.Call{run, inner, nested} {
			_, err := x.talker(call)
			assert.Equal(t, allowed, err == nil, "%s within %s: %v", call.Principal, name, err)
		}
	}
	both := dispatch.Call{Principal: "user/1", Caller: user("user/1")}
	both.Caller.Narrow = &policy.Narrowing{Session: "a"}
	both.Caller.Also = []policy.Caller{{Name: "user/1", Roles: []string{"role/user"}, Narrow: &policy.Narrowing{Session: "b"}}}
	_, err := x.talker(both)
	assert.NotNil(t, err, "a limit to one session and a limit to another permit none")
}

// CNV-014: only a request of an agent for an agent is delegated.
func TestDelegates(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/agent :cap/kind :agent :cap/intents #{:agent/run} :io/in-schema :req/any :io/out-schema :res/any}`,
		`{:cap/id :t/tool :cap/kind :tool :cap/intents #{:t/tool} :io/in-schema :req/any :io/out-schema :res/any}`,
	}})
	for _, c := range []struct {
		by, intent string
		want       bool
	}{{"t/agent", "agent/run", true}, {"t/agent", "t/tool", false}, {"t/tool", "agent/run", false}, {"conversation/run", "agent/run", false}} {
		request := edn.MustMap(edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(c.intent)))
		assert.Equal(t, c.want, delegates(dispatch.Call{CapID: c.by}, request, w.Registry), "%s asks for %s", c.by, c.intent)
	}
}

// CNV-014: a request of an agent for another one has a map as its input, or none.
func TestDelegateRefusesAnInputThatIsNotAMap(t *testing.T) {
	for input, want := range map[string]string{
		`"x"`: "input/invalid", `[1]`: "input/invalid", `nil`: "agent/context-incomplete", `{}`: "agent/context-incomplete",
	} {
		request := edn.MustMap(edn.K("input"), edn.MustRead(input))
		_, err := hostCalls{}.delegate(t.Context(), nil, plugin.HostCall{Parent: dispatch.Call{CapID: "t/agent"}}, request)
		require.ErrorIs(t, err, contract.OfType(want), input)
	}
}

// CNV-014: what an agent asks of another one within a shadow call or a replay leaves no
// conversation, and neither does what the other one asks.
func TestDelegateLeavesNoConversation(t *testing.T) {
	for name, parent := range map[string]dispatch.Call{
		"shadow":          {Shadow: true, Behalf: dispatch.Behalf{}},
		"within a shadow": {Behalf: dispatch.Behalf{Unkept: true}},
		"within a replay": {Run: "run_1", Behalf: dispatch.Behalf{Unkept: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := dispatchtest.New(t, dispatchtest.Spec{
				Caps: []string{
					`{:cap/id :t/agent :cap/kind :agent :cap/intents #{:agent/run} :io/in-schema :req/any :io/out-schema :res/any}`,
				},
				Intents: []registry.Intent{{ID: "agent/run", In: "req/any", Out: "res/any"}},
			})
			w.On("t/agent", dispatchtest.Step{Value: edn.MustRead(`{:messages []}`)})
			h := &Host{runs: newRuns(), journal: journal.NewMemory()} // without a place for conversations
			service, err := act.New(act.Config{
				Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: h.journal,
				Hash: edn.Hash(edn.Nil()),
			})
			require.NoError(t, err)
			h.runs.closed = true
			h.runs.current = &generation{
				loaded: &setup.Loaded{Config: &config.Config{
					Host:       config.Host{MaxRuns: 9},
					Generation: &build.Generation{Registry: w.Registry},
				}},
				service: service,
			}
			parent.CapID = "t/agent"
			parent.Behalf.Principal, parent.Behalf.Conversation, parent.Behalf.Turn = "ann", "c", "t-0"
			_, err = hostCalls{h}.HostInvoke(t.Context(), plugin.HostCall{Parent: parent, N: 1, Request: edn.MustRead(
				`{:proto 1 :trace {:id "r"} :task {:intent :agent/run} :input {:model :model/chat}}`)})
			require.NoError(t, err)
			require.Len(t, w.Calls(), 1)
			assert.Equal(t, dispatch.Behalf{Principal: "ann", Conversation: "c", Turn: "t-0", Unkept: true}, w.Calls()[0].Behalf)
		})
	}
}

// CNV-014: an agent calls another one with a principal, a conversation, a turn and a
// model, and names the first that is missing.
func TestDelegateNeedsItsPlace(t *testing.T) {
	whole := dispatch.Behalf{Principal: "ann", Conversation: "c", Turn: "t-0"}
	model := edn.MustRead(`{:model :model/chat}`)
	assert.Empty(t, lacks(whole, model))
	for want, c := range map[string]struct {
		of dispatch.Behalf
		in edn.Value
	}{
		"the principal":    {dispatch.Behalf{Conversation: "c", Turn: "t-0"}, model},
		"the conversation": {dispatch.Behalf{Principal: "ann", Turn: "t-0"}, model},
		"the turn":         {dispatch.Behalf{Principal: "ann", Conversation: "c"}, model},
		"the model":        {whole, edn.MustRead(`{:messages []}`)},
	} {
		assert.Equal(t, want, lacks(c.of, c.in))
	}
}
