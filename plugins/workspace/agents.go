package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// agentIntents list who may act in workspaces.
func agentIntents() []intent {
	return []intent{{
		name: "context/agents", says: "Lists, shows and validates the agents of the configuration.",
		effects: read, opens: unopened, free: true, run: agents,
	}}
}

// agents lists, shows or validates agents (WS-064). The caller needs no agent for it.
func agents(_ context.Context, r *request) (edn.Value, error) {
	var out edn.MapBuilder
	out.Key("seq", edn.Int(0))
	switch r.word("op") {
	case "", "list":
		return r.agentList(out), nil
	case "validate":
		if r.common.Agent == "" {
			return r.agentList(out), nil
		}
	}
	a, err := r.agents.Get(r.common.Agent)
	if err != nil {
		return edn.Nil(), err
	}
	b := r.agentValue(a)
	return b.Map().Merge(out.Map()), nil
}

// agentList returns the output about all agents.
func (r *request) agentList(out edn.MapBuilder) edn.Value {
	var list []edn.Value
	for _, a := range r.agents.List() {
		b := r.agentValue(a)
		list = append(list, b.Map())
	}
	out.Key("agents", edn.Vector(list...))
	return out.Map()
}

// agentValue describes an agent with its problems. An agent with problems remains in force: it can
// use its other capabilities.
func (r *request) agentValue(a *agent.Agent) edn.MapBuilder {
	var b edn.MapBuilder
	b.Key("agent/id", edn.Text(a.ID))
	b.Key("role", edn.K(string(a.Role)))
	var may []string
	for _, c := range agent.Capabilities() {
		if a.May(c) {
			may = append(may, string(c))
		}
	}
	b.Key("capabilities", edn.SetOf(keywords(may)...))
	b.OptText("model", a.Model)
	if a.Principals != nil {
		b.Key("principals", texts(a.Principals))
	}
	b.Key("prompts", edn.MustMap(edn.K("system"), edn.Text(a.Prompts.System), edn.K("file"), edn.Text(a.Prompts.File),
		edn.K("directory"), edn.Text(a.Prompts.Directory)))
	_, declared := r.cfg.Agents[a.ID]
	b.Key("built-in?", edn.Bool(!declared))
	var problems []string
	for _, err := range a.Problems() {
		problems = append(problems, contract.AsError(err).Message)
	}
	b.Key("valid?", edn.Bool(problems == nil))
	b.Key("problems", texts(problems))
	return b
}

func keywords(names []string) []edn.Value {
	list := make([]edn.Value, len(names))
	for i, n := range names {
		list[i] = edn.K(n)
	}
	return list
}
