package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AgentIntent is the intent that agents serve.
const AgentIntent = "agent/run"

// AgentRun is one call of an agent. The function of [AgentFunc] may change its
// fields before it returns the agent. It is not safe for concurrent use.
type AgentRun struct {
	// Messages is the conversation that the agent continues.
	Messages conversation.Context
	// Model is the :model of the request: a language model by its handle, or an
	// intent that language models serve. If the function leaves it zero, it is
	// [ChatIntent].
	Model Ref
	// Tools are the :tools of the request, for Functions.
	Tools []Ref
	// Depth is the number of agents above this one: 0 if no agent called it.
	Depth int
	// Input is the whole input, for keys that AgentRun has no field for.
	Input edn.Value
}

// AgentFunc makes a capability of kind agent from a function that returns the agent of a call:
//
//	sdk.AgentFunc("demo/helper", func(ctx context.Context, run *sdk.AgentRun) (conversation.Agent, error) {
//		tools, err := run.Functions(ctx)
//		if err != nil {
//			return nil, err
//		}
//		return agent.Tool(tools, run.Iterations(5))
//	})
//
// The input has the form of req/agent.run: {:messages [..]} with the optional keys :model, a handle
// or an intent, and :tools, a vector of these. With :conversation/id in the place of :messages the
// host adds the messages, which the plugin never reads from a store. The output has the form of
// res/agent.run:
//
//	{:messages [..] :text "..." :agent/stop :done}
//
// :messages are those that the agent adds, with their attribution, and :text is their text,
// [contract.AnswerText]. :agent/stop is :length if the last message was cut at the limit of its tokens, and
// :refused if the model refused to answer.
//
// The agent streams: text as it comes, and each complete message, results of tools included, as
// {:kind :message :message m}. An agent of package agent that reaches a limit fails with
// :agent/iteration-limit or :agent/tool-loop, and every agent with :agent/iteration-limit after 64
// requests to the host.
func AgentFunc(
	id string, fn func(ctx context.Context, run *AgentRun) (conversation.Agent, error), opts ...Option,
) Capability {
	defaults := []Option{
		Kind(agentKind), In("req/agent.run"), Out("res/agent.run"), Streams(),
		Cost(contract.Cost{USD: edn.Int(0)}), // its requests have prices of their own
	}
	c := newCapability(id, Intents(AgentIntent), "value", edn.K("map"), edn.K("map"), append(defaults, opts...))
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		run, err := readRun(k)
		if err != nil {
			return edn.Nil(), err
		}
		k.maxAsks = maxRequests
		a, err := fn(ctx, run)
		if err != nil {
			return edn.Nil(), err
		}
		if a == nil {
			return edn.Nil(), contract.Errorf("runtime/invalid-result", "run :%s: its function returned neither an agent nor an error", id).
				WithHint("return an agent, or an error that says why there is none")
		}
		out, err := run.execute(ctx, k, a)
		if err != nil {
			return edn.Nil(), err
		}
		return k.valueResponse(out)
	}
	return c
}

const agentKind = "agent"

// maxRequests limits the requests of one run of an agent to the host: those to its model, its
// tools and for their descriptions.
const maxRequests = 64

// readRun reads the input of a call of an agent.
func readRun(k *call) (*AgentRun, error) {
	in := k.request.Key("input")
	run := &AgentRun{Input: in}
	messages, err := messagesOf(in)
	if err != nil {
		return nil, err
	}
	run.Messages = conversation.Of(messages...)
	if v := in.Key("model"); !v.IsNil() {
		if run.Model, err = RefFrom(v); err != nil {
			return nil, at(err, edn.K("model"))
		}
	}
	i := int64(0)
	for v := range in.Key("tools").Elems() {
		tool, err := RefFrom(v)
		if err != nil {
			return nil, at(err, edn.K("tools"), edn.Int(i))
		}
		run.Tools = append(run.Tools, tool)
		i++
	}
	run.Depth, err = depthOf(in)
	return run, err
}

func messagesOf(in edn.Value) ([]conversation.Message, error) {
	list := in.Key("messages")
	switch {
	case list.IsNil() && in.HasKey("conversation/id"):
		return nil, contract.Errorf("agent/context-incomplete",
			"agent call: the host did not add the :messages of conversation %s", in.Key("conversation/id")).
			WithHint("send :messages in the place of :conversation/id")
	case !list.IsVector() && !list.IsList():
		return nil, at(contract.Errorf("input/invalid", "agent call: expected a vector in :messages, found %.80s", list),
			edn.K("messages"))
	}
	var all []conversation.Message
	for v := range list.Elems() {
		m, bad := contract.MessageFromValue(v)
		if bad != nil {
			place := append([]edn.Value{edn.K("messages"), edn.Int(int64(len(all)))}, elems(bad.Details.Key("path"))...)
			return nil, at(bad, place...)
		}
		all = append(all, m)
	}
	return all, nil
}

func elems(v edn.Value) []edn.Value {
	var all []edn.Value
	for e := range v.Elems() {
		all = append(all, e)
	}
	return all
}

// at adds the place in the input to an error.
func at(err error, path ...edn.Value) error {
	return contract.AsError(err).WithDetail("path", edn.Vector(path...))
}

// Iterations returns the largest number of requests that the agent may make to its
// model, for [agent.Tool]: n, but 5 if n is 0, and at most 5 for a sub-agent (Depth
// above 0).
func (r *AgentRun) Iterations(n int) int {
	if n == 0 || r.Depth > 0 && n > subIterations {
		return subIterations
	}
	return n
}

// subIterations bounds the iterations of an agent that another agent calls.
const subIterations = 5

// execute runs the agent and returns its output.
func (r *AgentRun) execute(ctx context.Context, k *call, a conversation.Agent) (edn.Value, error) {
	model := Model{Handle: r.Model.Handle, Intent: r.Model.Intent, OnAnswer: func(a Answer) {
		if mode := a.Response.Key("result").Key("usage").Key("mode"); !mode.IsNil() {
			ReportUsage(ctx, edn.MustMap(edn.K("mode"), mode))
		}
	}}
	s := agentStream{out: k.stream, by: conversation.Attribution{Agent: k.capID, Run: k.ctx.Run}}
	_, err := conversation.Fold(a.ExecuteStream(ctx, r.Messages, model), s.show)
	switch {
	case s.err != nil && ctx.Err() != nil:
		return edn.Nil(), context.Cause(ctx)
	case s.err != nil:
		return edn.Nil(), s.err
	case err != nil:
		return edn.Nil(), agentError(k.capID, err)
	}
	finish := s.finish()
	var meta edn.MapBuilder
	meta.Key("agent/id", edn.Text(k.capID))
	if word, err := edn.Keyword(finish); err == nil {
		meta.Key("finish", word)
	}
	ReportMeta(ctx, meta.Map())
	return s.output(finish), nil
}

// agentError returns the error of the capability id for that of its agent.
func agentError(id string, err error) error {
	var typed *contract.Error
	var invalid *conversation.InvalidError
	switch isTyped := errors.As(err, &typed); {
	case errors.Is(err, agent.ErrIterationLimit):
		return contract.Errorf("agent/iteration-limit", "run :%s: %w", id, err)
	case errors.Is(err, agent.ErrToolLoop):
		return contract.Errorf("agent/tool-loop", "run :%s: %w", id, err)
	case isTyped && typed.Type == "agent/iteration-limit": // [call.ask]
		return contract.Errorf(typed.Type, "run :%s: %w", id, err)
	case isTyped:
		return err
	case errors.As(err, &invalid):
		return contract.Errorf("runtime/invalid-result", "run :%s: %w", id, err).
			WithHint("let the agent return messages that conversation.New accepts")
	}
	return fmt.Errorf("run :%s: %w", id, err)
}
