package sdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Functions returns the tools of the run for [agent.Tool]. Their descriptions and
// schemas are those of the capabilities behind r.Tools; a capability with several
// intents is one tool for each. A tool has the name of its intent; an agent, and a
// capability whose intent occurs twice, has the name of its capability. Results are
// JSON.
//
// An agent among the tools is called as a sub-agent: the model gives it a :task, and
// gets its last message. It receives the Model of the run, makes at most 5 requests
// to it, and has none of the tools of the run. The third sub-agent below the first
// agent has no agents among its tools. The host stores the messages of a sub-agent
// in a conversation that it derives from that of the run. If the run has no
// conversation, the call of the sub-agent fails with :agent/context-incomplete.
//
// An error of a tool is shown to the model, except an error that must end the run: a
// suspended run, an effect with an unknown outcome, a missing conversation, or a
// final failure of the host. Functions returns :effects/missing-required if a tool
// has an effect that the call does not permit, and :input/invalid if two tools have
// the same name.
func (r *AgentRun) Functions(ctx context.Context) ([]agent.Function, error) {
	all, err := HostFrom(ctx).Describe(ctx, r.Tools...)
	if err != nil {
		return nil, err
	}
	if r.Depth >= maxDepth {
		all = slices.DeleteFunc(all, func(c Callable) bool { return c.Kind == agentKind })
	}
	names, err := toolNames(all)
	if err != nil {
		return nil, err
	}
	allowed := CallFrom(ctx).Effects
	functions := make([]agent.Function, len(all))
	for i, c := range all {
		for _, effect := range c.Effects {
			if effect != "none" && !slices.Contains(allowed, effect) {
				return nil, contract.Errorf("effects/missing-required",
					"the tool :%s has the effect :%s, which the call of the agent does not permit", names[i], effect).
					WithDetail("effect", edn.K(effect))
			}
		}
		functions[i] = r.function(names[i], c)
	}
	return functions, nil
}

// toolNames returns the names under which a model calls the callables.
func toolNames(all []Callable) ([]string, error) {
	served := map[string]int{}
	for _, c := range all {
		served[c.Ref.Intent]++
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Ref.Intent
		if id := c.Ref.Handle.ID(); id != "" && (served[names[i]] > 1 || c.Kind == agentKind) {
			names[i] = id
		}
		if slices.Contains(names[:i], names[i]) {
			return nil, contract.Errorf("input/invalid",
				"tools of the agent: two have the name :%s, expected different names", names[i]).
				WithHint("leave one of them out of :tools")
		}
	}
	return names, nil
}

// function returns the tool that calls c.
func (r *AgentRun) function(name string, c Callable) agent.Function {
	f := agent.Function{Tool: conversation.Tool{Name: name, Description: describeTool(c), Schema: c.In.String()}}
	if c.Kind == agentKind {
		f.Schema = taskSchema
		f.Run = func(ctx context.Context, args string) (string, error) { return r.delegate(ctx, name, c, args) }
		return f
	}
	f.Run = func(ctx context.Context, args string) (string, error) {
		input, err := readArgs(name, args)
		if err != nil {
			return "", err
		}
		answer, err := HostFrom(ctx).Invoke(ctx, Ask{Handle: c.Ref.Handle, Intent: c.Ref.Intent, Input: input})
		if err != nil {
			return "", toolError(err)
		}
		return resultText(answer.Out()), nil
	}
	return f
}

// maxShown bounds the schema of a result in the description of its tool, in bytes.
const maxShown = 1 << 10

// describeTool returns the description for the model: what the tool does, and the
// form of its result.
func describeTool(c Callable) string {
	text := c.Description
	if c.Kind == agentKind {
		return text
	}
	if out := c.Out.String(); !c.Out.IsNil() && out != ":map" && out != ":any" && len(out) <= maxShown {
		text = strings.TrimSpace(text + " Result: " + out)
	}
	return text
}

// readArgs reads the arguments of a call. A handle in them ends the run: the host
// would reject every request that contains it, and a model cannot grant one.
func readArgs(name, args string) (edn.Value, error) {
	input, err := edn.ReadString(args)
	switch {
	case err != nil:
		return edn.Nil(), fmt.Errorf("read the arguments of :%s: %w", name, err)
	case !input.IsMap():
		return edn.Nil(), fmt.Errorf("read the arguments of :%s: expected a map, found %.80s", name, args)
	}
	if ids := contract.Handles(input); len(ids) > 0 {
		return edn.Nil(), &agent.AbortError{Err: contract.Errorf("auth/forbidden",
			"the model passed a handle of :%s to the tool :%s; only a request can grant handles", ids[0], name).
			WithHint("name the capability in :tools of the request")}
	}
	return input, nil
}

// toolError marks an error that ends the run.
func toolError(err error) error {
	e := contract.AsError(err)
	switch {
	case e.Type == "run/suspended", e.Type == "effects/outcome-unknown", e.Type == "agent/context-incomplete",
		e.Class == contract.ClassFinal && e.Source == contract.SourceHost:
		return &agent.AbortError{Err: err}
	}
	return err
}

// resultText returns the output of a tool for the model: JSON like its arguments,
// or the text of an output with nothing else.
func resultText(out edn.Value) string {
	if text, ok := out.Key("text").AsString(); ok && out.Len() == 1 {
		return text
	}
	text, err := edn.WriteJSON(out)
	if err != nil { // two keys have the same name in JSON
		return out.String()
	}
	return string(text)
}

var errNoTask = errors.New("expected the arguments {:task \"..\"} with a text for the agent")
