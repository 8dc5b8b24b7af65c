package sdk

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxDepth is how many agents can wait for an agent.
const maxDepth = 3

// taskSchema is the schema of the arguments with which a model calls an agent.
const taskSchema = `[:map {:closed true}
 [:task {:description "what the agent should do, with all that it needs to know"} [:string {:min 1}]]]`

// identity states on whose behalf an agent runs: the caller of the first agent, and
// the place in a conversation. A sub-agent gets it under :agent/parent, so that
// the host can relate the conversations to each other.
type identity struct {
	principal, conversation, turn string
	depth                         int
}

// identityOf reads the identity of a call of an agent. One of a sub-agent is
// complete, or the error is :agent/context-incomplete.
func identityOf(k *call) (identity, error) {
	in := k.request.Key("input")
	own := identity{principal: k.ctx.Principal}
	own.conversation, _ = in.Key("conversation/id").AsString()
	own.turn, _ = in.Key("turn/id").AsString()
	parent := in.Key("agent/parent")
	if parent.IsNil() {
		return own, nil
	}
	var from identity
	from.principal, _ = parent.Key("principal").AsString()
	from.conversation, _ = parent.Key("conversation/id").AsString()
	from.turn, _ = parent.Key("turn/id").AsString()
	depth, ok := parent.Key("depth").AsInt()
	if from.depth = int(depth); !ok || depth < 1 || depth > maxDepth {
		return own, contract.Errorf("agent/context-incomplete",
			"the :depth under :agent/parent is 1 to %d, not %s", maxDepth, parent.Key("depth"))
	}
	if own.conversation != "" && own.turn != "" { // the host opened a conversation for the sub-agent
		from.conversation, from.turn = own.conversation, own.turn
	}
	if missing := from.missing(); missing != "" {
		return own, contract.Errorf("agent/context-incomplete", ":agent/parent does not state %s", missing)
	}
	return from, nil
}

// missing returns what the identity lacks, "" if it is complete.
func (i identity) missing() string {
	switch {
	case i.principal == "":
		return "the principal"
	case i.conversation == "":
		return "the conversation"
	case i.turn == "":
		return "the turn"
	}
	return ""
}

// delegate calls an agent as a tool. The model that it shares is part of its
// identity, and always present.
func (r *AgentRun) delegate(ctx context.Context, name string, c Callable, args string) (string, error) {
	input, err := readArgs(name, args)
	if err != nil {
		return "", err
	}
	task, ok := input.Key("task").AsString()
	if !ok || task == "" {
		return "", errNoTask
	}
	if missing := r.identity.missing(); missing != "" {
		return "", toolError(contract.Errorf("agent/context-incomplete",
			"the agent cannot call :%s, because its own call does not state %s", name, missing))
	}
	answer, err := HostFrom(ctx).Invoke(ctx, Ask{
		Handle: c.Ref.Handle, Intent: c.Ref.Intent, Input: r.taskInput(task, CallFrom(ctx).Capability),
	})
	if err != nil {
		return "", toolError(err)
	}
	return lastText(answer.Out())
}

// taskInput returns the input of a sub-agent.
func (r *AgentRun) taskInput(task, by string) edn.Value {
	message := edn.MustMap(edn.K("role"), edn.K("user"), edn.K("content"), edn.Text(task))
	parent := edn.MustMap(
		edn.K("principal"), edn.Text(r.identity.principal),
		edn.K("conversation/id"), edn.Text(r.identity.conversation),
		edn.K("turn/id"), edn.Text(r.identity.turn),
		edn.K("agent/id"), edn.Text(by),
		edn.K("depth"), edn.Int(int64(r.Depth+1)),
	)
	var in edn.MapBuilder
	in.Key("messages", edn.Vector(message))
	in.Opt("model", r.Model.Value())
	in.Key("agent/parent", parent)
	return in.Map()
}
