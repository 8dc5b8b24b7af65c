package sdk

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxDepth is the largest number of agents above a sub-agent.
const maxDepth = 3

// taskSchema is the schema of the arguments with which a model calls an agent.
const taskSchema = `[:map {:closed true}
 [:task {:description "what the agent should do, with all that it needs to know"} [:string {:min 1}]]]`

// depthOf returns the number of agents above the one that receives in: the :depth
// that the host sets under :agent/parent, 0 without :agent/parent.
func depthOf(in edn.Value) (int, error) {
	parent := in.Key("agent/parent")
	if parent.IsNil() {
		return 0, nil
	}
	depth, ok := parent.Key("depth").AsInt()
	if !ok || depth < 1 || depth > maxDepth {
		return 0, contract.Errorf("agent/context-incomplete",
			"agent call: expected 1 to %d in :depth under :agent/parent, found %.80s", maxDepth, parent.Key("depth")).
			WithHint("leave :agent/parent out of the request: the host sets it")
	}
	return int(depth), nil
}

// delegate calls an agent as a tool, with the model of the run. The host creates the
// conversation of the sub-agent. The result is the :text of its answer, or noResult.
func (r *AgentRun) delegate(ctx context.Context, name string, c Callable, args string) (string, error) {
	input, err := readArgs(name, args)
	if err != nil {
		return "", err
	}
	task, ok := input.Key("task").AsString()
	if !ok || task == "" {
		return "", errNoTask
	}
	model := r.Model
	if model.IsZero() {
		model.Intent = ChatIntent
	}
	message := edn.MustMap(edn.K("role"), edn.K("user"), edn.K("content"), edn.Text(task))
	answer, err := HostFrom(ctx).Invoke(ctx, Ask{
		Handle: c.Ref.Handle,
		Intent: c.Ref.Intent,
		Input:  edn.MustMap(edn.K("messages"), edn.Vector(message), edn.K("model"), model.Value()),
	})
	if err != nil {
		return "", toolError(err)
	}
	if text, ok := answer.Out().Key("text").AsString(); ok && text != "" {
		return text, nil
	}
	return noResult, nil
}

const noResult = "(no result)"
