package setup

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Binder explains how a call of an intent would be bound. capID pins the first candidate; empty
// pins none. streamed selects a call whose answer is read as a stream.
type Binder func(intent, capID string, streamed bool) (dispatch.Explanation, error)

// Bind is the Binder of a configuration without a running host: it treats every candidate as ready,
// and uses only declared figures.
func (l *Loaded) Bind(intent, capID string, streamed bool) (dispatch.Explanation, error) {
	layer := l.Generation.Policies.For(intent)
	p, err := layer.Resolve()
	if err != nil {
		return dispatch.Explanation{}, err
	}
	d := dispatch.Dispatcher{Registry: l.Generation.Registry, Checks: l.Generation.Checks, Prompts: l.Generation.Prompts, Clock: dispatch.SystemClock{}}
	return d.Explain(p, intent, capID, streamed), nil
}

// Explain returns the candidates for an intent in order, the rejected ones with reasons, and the
// effective policy, each with its position in the configuration (BIND-006). The error is not-found
// for an unknown intent, and cap/not-found for an unknown capID.
func (l *Loaded) Explain(intent, capID string, streamed bool, bind Binder) (edn.Value, error) {
	reg := l.Generation.Registry
	in, ok := reg.Intent(intent)
	if !ok {
		e := contract.Errorf("not-found", "there is no intent :%s", intent).
			WithHint("\"ferment plugin inspect NAME\" shows what a plugin serves")
		if _, known := contract.Lookup(contract.ResolveAlias(intent)); known {
			e = e.WithHint("\"ferment explain error " + intent + "\" describes the error type")
		}
		return edn.Nil(), e.DidYouMean(contract.Nearest(intent, reg.Intents()))
	}
	if capID != "" && !reg.Known(capID) {
		e := contract.Errorf("cap/not-found", "there is no capability :%s", capID)
		return edn.Nil(), e.DidYouMean(reg.NearestCapability(capID))
	}
	x, err := bind(intent, capID, streamed)
	if err != nil {
		return edn.Nil(), err
	}
	layer := l.Generation.Policies.For(intent)
	effective, err := layer.Resolve()
	if err != nil {
		return edn.Nil(), err
	}
	var b edn.MapBuilder
	b.Key("intent", edn.K(intent))
	b.Key("implied?", edn.Bool(in.Implied))
	b.Key("in-schema", edn.K(in.In))
	b.Key("out-schema", edn.K(in.Out))
	b.OptText("where", in.Where)
	b.Key("ordering", edn.K(x.Ordering))
	b.OptTrue("streamed?", streamed)
	b.Key("candidates", l.candidates(in, x))
	b.Key("rejected", l.rejected(x))
	rows := append(effective.Explain(), l.Generation.Budgets.Explain()...)
	policies := make([]edn.Value, len(rows))
	for i, r := range rows {
		policies[i] = edn.MustMap(
			edn.K("field"), edn.Text(r.Field),
			edn.K("value"), r.Value,
			edn.K("from"), edn.Text(originText(r.Origin)),
		)
	}
	if d := l.Queue.Deadlines; effective.Deadline == 0 {
		policies = append(policies, edn.MustMap(
			edn.K("field"), edn.Text(":deadline-ms"),
			edn.K("value"), edn.Int(min(d.Usual, d.Most).Milliseconds()),
			edn.K("from"), edn.Text("the whole run, unless the request sets it"),
		))
	}
	b.Key("policy", edn.Vector(policies...))
	b.Opt("prompt", l.layersOf(in))
	b.Opt("routing", l.routingOf(intent))
	b.Opt("plan", in.Plan)
	if why := stream.DelayReason(&effective); why != "" {
		b.Key("stream", edn.MustMap(edn.K("shown"), edn.K(policy.GatePassed), edn.K("why"), edn.Text(why)))
	}
	return b.Map(), nil
}

// layersOf returns the prompt layers of an intent under its role; nil if it
// has none.
func (l *Loaded) layersOf(in *registry.Intent) edn.Value {
	role, rule := l.Generation.Prompts.RoleOf("", in.ID, nil, in)
	layers := l.Generation.Prompts.Layers(in.ID, role)
	if len(layers) == 0 || !prompt.Composes(in.ID) {
		return edn.Nil()
	}
	all := make([]edn.Value, len(layers))
	for i, layer := range layers {
		all[i] = edn.MustMap(
			edn.K("name"), edn.Text(layer.Name),
			edn.K("where"), edn.Text(layer.Where),
			edn.K("hash"), edn.Text(layer.Hash),
		)
	}
	return edn.MustMap(edn.K("role"), edn.K(role), edn.K("role/rule"), edn.K(rule), edn.K("layers"), edn.Vector(all...))
}

// routingOf returns how acts of an intent are routed under each routing profile; nil if they are
// not routed.
func (l *Loaded) routingOf(intent string) edn.Value {
	profiles := l.Generation.Routing.Explain(intent)
	if len(profiles) == 0 {
		return edn.Nil()
	}
	all := make([]edn.Value, len(profiles))
	for i, p := range profiles {
		var b edn.MapBuilder
		b.Key("profile", edn.K(p.Profile))
		b.OptTrue("usual?", p.Profile == l.Generation.Routing.Usual())
		b.Key("meta?", edn.Bool(p.Ask))
		b.Key("rule", edn.Text(p.Rule))
		if p.Ask {
			b.Key("intent", edn.K(p.Intent))
			b.OptKeyword("cap/id", p.Capability)
			b.Key("on-error", edn.K(p.OnError()))
			b.OptTrue("force?", p.Force)
			b.Key("share", edn.MustFloat(p.Share))
		}
		all[i] = b.Map()
	}
	return edn.Vector(all...)
}

// rulesOf adds the prompt role and the model key with which the language model id serves an intent,
// and the rules that determine them (RTE-003). It adds nothing for other capabilities.
func (l *Loaded) rulesOf(b *edn.MapBuilder, in *registry.Intent, id string) {
	c, ok := l.Generation.Registry.Capability(id)
	if !ok || c.Kind != registry.ModelKind {
		return
	}
	if prompt.Composes(in.ID) {
		role, rule := l.Generation.Prompts.RoleOf("", in.ID, c, in)
		b.Key("role", edn.K(role))
		b.Key("role/rule", edn.K(rule))
	}
	if key, rule := l.Generation.Prompts.ModelOf(edn.Nil(), in.ID, c, in); rule != "" {
		b.Key("model", key)
		b.Key("model/rule", edn.K(rule))
	}
}

func (l *Loaded) candidates(in *registry.Intent, x dispatch.Explanation) edn.Value {
	all := make([]edn.Value, len(x.Binding.Accepted))
	for i, id := range x.Binding.Accepted {
		var b edn.MapBuilder
		b.Key("cap/id", edn.K(id))
		b.Key("rank", edn.Int(int64(i+1)))
		b.Key("tried?", edn.Bool(i < len(x.Binding.Tried)))
		l.rulesOf(&b, in, id)
		l.known(&b, x, id)
		all[i] = b.Map()
	}
	return edn.Vector(all...)
}

func (l *Loaded) rejected(x dispatch.Explanation) edn.Value {
	all := make([]edn.Value, len(x.Binding.Rejected))
	for i, r := range x.Binding.Rejected {
		var b edn.MapBuilder
		b.Key("cap/id", edn.K(r.Cap))
		b.Key("reason", edn.K(r.Reason))
		b.OptText("detail", r.Detail)
		if r.Why != nil {
			b.Key("why", edn.K(r.Why.Type))
			b.Key("message", edn.Text(r.Why.FullMessage()))
			b.Key("hint", edn.Text(r.Why.Hint))
		}
		l.known(&b, x, r.Cap)
		all[i] = b.Map()
	}
	return edn.Vector(all...)
}

// known adds the plugin of a capability, the position that declares it, and its figures.
func (l *Loaded) known(b *edn.MapBuilder, x dispatch.Explanation, id string) {
	reg := l.Generation.Registry
	plugin, where := "", ""
	if c, ok := reg.Capability(id); ok {
		plugin, where = c.Plugin, c.Where
	} else if a, ok := reg.Absent(id); ok {
		plugin, where = a.Plugin, a.Where
	}
	b.OptText("plugin", plugin)
	b.OptText("where", where)
	if f, ok := x.Figures(id); ok {
		b.Key("figures", f.Value())
	}
}

// originText returns the layer that set a value, with its position.
func originText(o policy.Origin) string {
	if o.Where != "" {
		return o.Source.String() + ", " + o.Where
	}
	return o.Source.String()
}
