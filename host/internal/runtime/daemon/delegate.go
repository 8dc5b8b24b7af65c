package daemon

import (
	"context"
	"slices"
	"strconv"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// delegates reports whether a request is made by an agent and calls an agent.
func delegates(parent dispatch.Call, request edn.Value, reg *registry.Registry) bool {
	intent, _ := request.Key("task").Key("intent").AsKeyword()
	by, known := reg.Capability(parent.CapID)
	return intent == conversation.AgentIntent && known && by.Kind == registry.AgentKind
}

// delegate has an agent answer a request of another agent, in a new conversation that is spawned
// from the conversation of the caller (CNV-014). The conversation and parent in the request are
// replaced, because only the host may set them. A shadow call, a replay, and the agents called
// within them create no conversation.
func (h hostCalls) delegate(ctx context.Context, turn *turn, c plugin.HostCall, request edn.Value) (edn.Value, error) {
	from := c.Parent.Behalf
	if input := request.Key("input"); !input.IsMap() && !input.IsNil() {
		return edn.Nil(), contract.Errorf("input/invalid", "the input of :%s for an agent: expected a map, got %s",
			c.Parent.CapID, input.Kind()).WithSource(contract.SourcePlugin)
	}
	asked := request.Key("input").Dissoc(edn.K("agent/parent"), edn.K("conversation/id"), edn.K("turn/id"), edn.K("window"))
	if asked.Key("model").IsNil() {
		asked = asked.AssocKey("model", c.Parent.Request.Key("input").Key("model"))
	}
	if missing := lacks(from, asked); missing != "" {
		return edn.Nil(), contract.Errorf("agent/context-incomplete",
			"the agent :%s cannot call an agent, because its own call does not state %s", c.Parent.CapID, missing).
			WithHint("call it with conversation/send, or with the :conversation/id of a conversation of the caller")
	}
	if from.Unkept = from.Unkept || c.Parent.Shadow; from.Unkept {
		return h.perform(ctx, turn, c, request.AssocKey("input", asked), from)
	}
	child, err := h.host.conversations.Delegate(ctx, conversation.Delegation{
		Owner:        from.Principal,
		Session:      c.Parent.Session,
		Conversation: from.Conversation,
		Turn:         from.Turn,
		Run:          c.Parent.Run,
		Path:         edn.Vector(append(slices.Collect(c.Parent.Path.Elems()), edn.Text("h"+strconv.Itoa(c.N)))...),
		Agent:        c.Parent.CapID,
		Input:        asked,
	})
	if err != nil {
		return edn.Nil(), err
	}
	asked = asked.AssocKey("agent/parent", edn.MustMap(
		edn.K("agent/id"), edn.Text(c.Parent.CapID), edn.K("principal"), edn.Text(from.Principal),
		edn.K("conversation/id"), edn.Text(from.Conversation), edn.K("turn/id"), edn.Text(from.Turn),
		edn.K("depth"), edn.Int(int64(child.Depth)),
	))
	place := dispatch.Behalf{Principal: from.Principal, Conversation: child.ID, Turn: turns.TurnID(0)} // no answer is in it
	asked = asked.AssocKey("conversation/id", edn.Text(place.Conversation)).AssocKey("turn/id", edn.Text(place.Turn))
	response, failure := h.perform(ctx, turn, c, request.AssocKey("input", asked), place)
	if failure != nil {
		return edn.Nil(), failure
	}
	if !response.Key("error").IsNil() {
		return response, nil
	}
	response, err = h.host.conversations.Return(ctx, child, response)
	if err != nil {
		return edn.Nil(), err
	}
	return response, nil
}

// lacks returns the part of the context that an agent needs to call another agent and does not
// have; "" if nothing is missing.
func lacks(from dispatch.Behalf, input edn.Value) string {
	switch {
	case from.Principal == "":
		return "the principal"
	case from.Conversation == "":
		return "the conversation"
	case from.Turn == "":
		return "the turn"
	case input.Key("model").IsNil():
		return "the model"
	}
	return ""
}
