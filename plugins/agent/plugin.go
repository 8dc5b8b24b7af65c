package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/edn"
)

const version = "1.0.0"

// settings are the config block of the plugin.
type settings struct {
	Agents map[string]agentSettings `edn:"agent,omitempty" doc:"an agent, the capability agent/LABEL; default: agent/assistant without tools"`
}

// agentSettings are one block "agent".
type agentSettings struct {
	Description  string   `edn:"description,omitempty" doc:"what the agent is for, in one sentence"`
	Instructions string   `edn:"instructions,omitempty" doc:"the system message before each conversation"`
	Model        string   `edn:"model,omitempty" unit:"capability" doc:"the model, unless the request names one"`
	ModelIntent  string   `edn:"model-intent,omitempty" doc:"instead of model: an intent of models; default model/chat"`
	Capabilities []string `edn:"capabilities,omitempty" unit:"capability" doc:"tools: capabilities with all their intents"`
	Intents      []string `edn:"intents,omitempty" doc:"tools: intents, for which the host chooses the capability"`
	Iterations   int      `edn:"iterations,omitempty" min:"1" max:"50" doc:"how often the model is asked at most; default 5"`
	Effects      []string `edn:"effects,omitempty" doc:"effects of the tools; a request must allow them"`
}

func newPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name:     "agent",
		Version:  version,
		Features: []string{sdk.FeatureHostCalls, sdk.FeatureHotSwap},
		Config:   sdk.Config[settings]{Offer: offer},
	}
}

// offer returns one capability for each agent.
func offer(_ context.Context, cfg settings) (sdk.Offer, error) {
	if len(cfg.Agents) == 0 {
		cfg.Agents = map[string]agentSettings{"assistant": {}}
	}
	var o sdk.Offer
	var problems []error
	for _, label := range slices.Sorted(maps.Keys(cfg.Agents)) {
		c, err := cfg.Agents[label].capability(label)
		problems = append(problems, err)
		o.Capabilities = append(o.Capabilities, c)
	}
	return o, errors.Join(problems...)
}

// capability returns the capability of the agent. The error joins all problems of its
// block.
func (s agentSettings) capability(label string) (sdk.Capability, error) {
	at := func(name string, more ...edn.Value) []edn.Value {
		return append([]edn.Value{edn.K("agent"), edn.Text(label), edn.K(name)}, more...)
	}
	var problems []error
	if _, err := edn.Keyword("agent/" + label); err != nil {
		problems = append(problems,
			sdk.Problem(fmt.Sprintf("the label %q is not a name such as assistant", label), edn.K("agent"), edn.Text(label)))
		label = "invalid"
	}
	if s.Model != "" && s.ModelIntent != "" {
		problems = append(problems, sdk.Problem("give model or model_intent, not both", at("model-intent")...))
	}
	read := func(place []edn.Value, v edn.Value) sdk.Ref {
		r, err := sdk.RefFrom(v)
		if err != nil {
			problems = append(problems, sdk.Problem(contract.AsError(err).Message, place...))
		}
		return r
	}
	d := definition{agentSettings: s}
	if s.Model != "" {
		d.model = read(at("model"), capabilityRef(s.Model))
	}
	if s.ModelIntent != "" {
		d.model = read(at("model-intent"), edn.Text(s.ModelIntent))
	}
	for i, id := range s.Capabilities {
		d.tools = append(d.tools, read(at("capabilities", edn.Int(int64(i))), capabilityRef(id)))
	}
	for i, intent := range s.Intents {
		d.tools = append(d.tools, read(at("intents", edn.Int(int64(i))), edn.Text(intent)))
	}
	for i, effect := range s.Effects {
		if _, err := edn.Keyword(effect); err != nil {
			problems = append(problems, sdk.Problem(fmt.Sprintf("%q is not an effect such as db/read", effect),
				at("effects", edn.Int(int64(i)))...))
			s.Effects = nil
			break
		}
	}
	options := []sdk.Option{sdk.Description(s.description())}
	if len(s.Effects) > 0 {
		options = append(options, sdk.Effects(s.Effects...))
	}
	return sdk.AgentFunc("agent/"+label, d.agent, options...), errors.Join(problems...)
}

func (s agentSettings) description() string {
	if s.Description != "" {
		return s.Description
	}
	return "Answers a conversation with a language model and its tools."
}

// capabilityRef returns the form of a handle; RefFrom reports an id that cannot be
// one.
func capabilityRef(id string) edn.Value { return edn.MustMap(edn.K("cap/ref"), edn.Text(id)) }

// definition is a configured agent.
type definition struct {
	agentSettings
	model sdk.Ref
	tools []sdk.Ref
}

// agent returns the agent for a call. The request may name another model, and other
// tools instead of the configured ones.
func (d definition) agent(ctx context.Context, run *sdk.AgentRun) (conversation.Agent, error) {
	if run.Model.IsZero() {
		run.Model = d.model
	}
	if !run.Input.HasKey("tools") {
		run.Tools = d.tools
	}
	tools, err := run.Functions(ctx)
	if err != nil {
		return nil, err
	}
	a, err := agent.Tool(tools, run.Iterations(d.Iterations))
	return agent.Instructed(d.Instructions, a), err
}
