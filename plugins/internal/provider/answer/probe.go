package answer

import (
	"context"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/shape"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Probe is the intent that compares a live server with its quirks.
const Probe = "model/probe"

// The requests of a probe. The limits leave room for models that reason before
// they answer; the last one is meant to be reached.
const (
	probeTokens = 256
	probeLimit  = 16
	askGreeting = "Greet me in one short sentence, please."
	askLegs     = "How many legs does a dog have?"
	askWeather  = "What will the weather be in Oslo tomorrow? Use the tool."
	askCount    = "Write the numbers from one to two hundred as words, without a break."
)

// check is one request of a probe and its results.
type check struct {
	name string
	call *call
	err  *contract.Error
	took time.Duration
	// found holds the observations, differs those that contradict the
	// declaration.
	found, differs []edn.Value
}

func (k *check) saw(name string, v edn.Value) { k.found = append(k.found, edn.K(name), v) }

// compare records a quirk that differs from the declared one.
func (k *check) compare(quirk string, declared, found edn.Value) {
	if edn.Equal(declared, found) {
		return
	}
	k.differs = append(k.differs, edn.MustMap(
		edn.K("quirk"), edn.K(quirk), edn.K("declared"), declared, edn.K("found"), found))
}

// probeServer sends five small requests to the server of a model and reports
// differences from its preset and quirks: a value with its usage, a stream with
// its end and its usage, a value of a schema, a tool call, and an answer cut at
// its limit. A rejected request is a finding, and a request that failed
// otherwise shows nothing; an error means that the server cannot be called at
// all. progress is called before each request.
func (p *Provider) probeServer(
	ctx context.Context, m *Model, progress func(name string) error,
) (edn.Value, *contract.Error) {
	var all []*check
	for _, one := range []struct {
		name string
		ask  func(*question.Question, *Model) // completes the request
		look func(*check, *Model)
	}{
		{"value", askWhole, lookAtValue},
		{"stream", askForStream, lookAtStream},
		{"structured", askForShape, lookAtShape},
		{"tools", askForTool, lookAtTool},
		{"limit", func(q *question.Question, _ *Model) { q.Options.MaxTokens = probeLimit }, lookAtLimit},
	} {
		if progress(one.name) != nil {
			return edn.Nil(), p.Report.Error(failure.Canceled, failure.Known{}, "the caller canceled the call")
		}
		k := p.probe(ctx, m, one.name, one.ask)
		all = append(all, k)
		if k.err != nil && hopeless(k.err, one.name == "value") {
			return edn.Nil(), k.err
		}
		if k.err == nil || rejected(k.err) {
			one.look(k, m)
		}
	}
	lookAtRole(all[0], all[1], m)
	return told(m, all, p.compareCount(ctx, m, all[0])), nil
}

// compareCount counts the first question and reports the method beside the
// count that the server stated. It returns nil without a question.
func (p *Provider) compareCount(ctx context.Context, m *Model, k *check) edn.Value {
	if k.call.request == nil {
		return edn.Nil()
	}
	n, way := m.Counting.Request(ctx, m.at(p), k.call.request, true)
	var b edn.MapBuilder
	b.Key("tokens-in", edn.Int(n))
	b.Key(countedBy, edn.K(string(way)))
	if k.call.answer.Usage.In >= 0 {
		b.Key("stated", edn.Int(k.call.answer.Usage.In))
	}
	return b.Map()
}

// hopeless reports whether all later requests of the probe would fail with the same error. first
// means that e is the error of the first request.
func hopeless(e *contract.Error, first bool) bool {
	switch e.Type {
	case "provider/unavailable", "provider/auth-failed", "provider/quota-exhausted", "provider/rate-limited",
		"provider/overloaded", "timeout/hard", "runtime/overloaded", "canceled":
		return true
	case "provider/model-not-found", "provider/timeout", "provider/request-failed", "provider/error":
		return first && !rejected(e) // later it concerns the particular request
	}
	return false
}

// rejected reports whether the server answered that it does not take the request, or took it and its
// model wrote something else.
func rejected(e *contract.Error) bool {
	switch e.Type {
	case "provider/request-invalid", "provider/tool-call-invalid":
		return true
	}
	return e.Details.Key("options/refused").Truthy()
}

// probe makes one request. It accepts every end of a stream, so that the answer
// can be examined.
func (p *Provider) probe(ctx context.Context, m *Model, name string, ask func(*question.Question, *Model)) *check {
	q := question.New(question.Chat, m.Options)
	q.Options.MaxTokens = probeTokens
	q.Messages = []chat.Message{{Role: chat.User, Content: map[string]string{
		"value": askGreeting, "stream": askGreeting, "structured": askLegs, "tools": askWeather, "limit": askCount,
	}[name]}}
	tried := *m
	tried.StrictOptions, tried.Structured = false, "auto"
	tried.Preset.Terminator = dialect.EOF
	ask(q, &tried)
	k := &check{name: name, call: &call{provider: p, model: &tried, question: q, out: discard{}, answer: chat.NewAnswer()}}
	leave, err := k.call.begin(ctx)
	if err != nil {
		k.err = err
		return k
	}
	defer leave()
	k.err = k.call.fetch(ctx)
	k.took = k.call.exchange.Elapsed()
	if k.err == nil || k.call.known {
		k.call.settle(ctx)
	}
	return k
}

// askWhole is the only request with a system message, so that a server that
// rejects this role is detected.
func askWhole(q *question.Question, _ *Model) {
	q.Whole = true
	q.Messages = append([]chat.Message{{Role: chat.System, Content: "Answer in English."}}, q.Messages...)
}

// lookAtRole detects a server that rejects only system messages.
func lookAtRole(value, stream *check, m *Model) {
	if value.err != nil && value.err.Type == "provider/request-invalid" && stream.err == nil {
		value.compare("system-role", edn.Text(m.Preset.SystemRole), edn.Text("refused"))
	}
}

func lookAtValue(k *check, _ *Model) {
	if k.err == nil {
		k.saw("usage?", edn.Bool(stated(k.call.answer)))
	}
}

func stated(a *chat.Answer) bool { return a.Usage.In >= 0 && a.Usage.Out >= 0 }

func askForStream(_ *question.Question, m *Model) {
	if m.Preset.Dialect.AsksUsage() {
		m.Preset.UsageInStream = true // even if it is declared absent
	}
}

func lookAtStream(k *check, m *Model) {
	a, p := k.call.answer, m.Preset
	if k.err != nil {
		if p.Dialect.AsksUsage() {
			k.compare("usage-in-stream", edn.Bool(p.UsageInStream), edn.Bool(false))
		}
		return
	}
	finish := !a.Assumed && a.Finish != chat.Unfinished
	found := "eof"
	switch {
	case a.Ended:
		found = "strict"
	case finish:
		found = "either"
	}
	k.saw("finish-reason?", edn.Bool(finish))
	k.saw("formal-end?", edn.Bool(a.Ended))
	k.saw("usage?", edn.Bool(stated(a)))
	if !ends(p.Terminator, found) {
		k.compare("terminator", edn.K(string(p.Terminator)), edn.K(found))
	}
	if p.Dialect.AsksUsage() {
		k.compare("usage-in-stream", edn.Bool(p.UsageInStream), edn.Bool(stated(a)))
	}
}

// ends reports whether a declared terminator is right for the observed end. A
// stream with a stricter end than declared agrees, except that EOF is wrong for
// a stream with any other end.
func ends(declared dialect.Terminator, found string) bool {
	switch declared {
	case dialect.Strict:
		return found == "strict"
	case dialect.EOF:
		return found == "eof"
	}
	return found != "eof"
}

func formatOf(p dialect.Preset) string {
	switch {
	case p.Native:
		return "json_schema"
	case p.JSONMode:
		return "json_object"
	}
	return "none"
}

// askForShape asks in the declared form, or with a schema if none is declared.
// The prompt does not mention the form, so that only enforcement produces it.
// Servers that enforce plain JSON require the prompt to mention it.
func askForShape(q *question.Question, m *Model) {
	if formatOf(m.Preset) == "none" {
		m.Preset.Native = true
	}
	form := edn.MustRead(`[:map {:closed true} [:legs [:int {:min 0 :max 100}]]]`)
	q.Shape, _ = shape.New("legs", form, edn.Nil()) // a schema of this file compiles
}

func lookAtShape(k *check, m *Model) {
	declared := formatOf(m.Preset)
	asked := declared
	if declared == "none" {
		asked = "json_schema"
	}
	found := "none"
	if k.err == nil {
		_, how, problem := k.call.question.Shape.Read(k.call.answer.Text.String())
		switch {
		case problem == nil && how == "", asked == "json_object" && how == "" && problem.Parsed:
			found = asked
		}
	}
	k.saw("asked", edn.Text(asked))
	k.saw("fits?", edn.Bool(found == asked))
	k.compare("response-format", edn.Text(declared), edn.Text(found))
}

func askForTool(q *question.Question, m *Model) {
	m.Preset.Tools = true
	form := edn.MustRead(`[:map {:closed true} [:city :string]]`)
	compiled, _ := schema.Compile(form) // a schema of this file compiles
	text, _ := edn.WriteJSON(compiled.JSONSchema())
	q.Args["weather"] = compiled
	q.Tools = []chat.Tool{{
		Name: q.Names.Wire("weather"), Description: "Tells the weather of tomorrow in a city.", Schema: text,
	}}
}

func lookAtTool(k *check, m *Model) {
	called := false
	if k.err == nil {
		for _, c := range k.call.answer.Calls {
			args, err := edn.ReadJSON([]byte(c.Args.String()), edn.WithLimits(edn.Body))
			called = called || err == nil && args.IsMap()
		}
	}
	k.saw("called?", edn.Bool(called))
	k.saw("streamed?", edn.Bool(m.Preset.ToolsStream))
	if k.err == nil && !called && m.Preset.Tools && m.Preset.ToolsStream && k.call.answer.Finish == chat.ToolCalls {
		k.compare("tools-stream", edn.Bool(true), edn.Bool(false)) // the finish reason announces a call
		return
	}
	k.compare("tools", edn.Bool(m.Preset.Tools), edn.Bool(called))
}

// lookAtLimit cannot distinguish a short answer from a cut one, but an answer
// far over the limit shows that the limit is ignored.
func lookAtLimit(k *check, m *Model) {
	if k.err != nil {
		return
	}
	cut, out := k.call.answer.Finish == chat.Length, k.call.spent.Out
	k.saw("cut?", edn.Bool(cut))
	k.saw("tokens-out", edn.Int(out))
	if !cut && out > 4*probeLimit {
		k.compare("limit-field", edn.Text(m.Preset.LimitField), edn.Text("ignored"))
	}
}

// told returns the output of a probe: the results of all requests, the differences from the
// declaration, and the summed usage.
func told(m *Model, all []*check, count edn.Value) edn.Value {
	var checks, differences []edn.Value
	sum := pricing.Tokens{Mark: pricing.Exact}
	var took time.Duration
	served := ""
	for _, k := range all {
		var one edn.MapBuilder
		one.Key("check", edn.K(k.name))
		one.Key("found", edn.MustMap(k.found...))
		if k.err != nil {
			one.Key("error", k.err.Value())
		}
		took += k.took
		if k.call.known {
			t := k.call.spent
			sum = sum.Plus(t)
			one.Key("usage", k.call.account(t, k.took))
		}
		if k.call.answer.Model != "" {
			served = k.call.provider.Report.Scrub.Clean(k.call.answer.Model)
		}
		one.Key("ok?", edn.Bool(k.err == nil && len(k.differs) == 0 || k.err != nil && agreed(k)))
		checks = append(checks, one.Map())
		differences = append(differences, k.differs...)
	}
	var out edn.MapBuilder
	out.Key("model", edn.Text(m.Name))
	out.OptText("model/served", served)
	out.Key("preset", edn.Text(m.Preset.Name))
	out.Key("agrees?", edn.Bool(len(differences) == 0 && allAgree(all)))
	out.Key("checks", edn.Vector(checks...))
	out.Key("differences", edn.Vector(differences...))
	out.Opt("count", count)
	return respond(out.Map(), nil, (&call{model: m}).account(sum, took), m.meta())
}

// agreed reports whether a rejection was expected, because the model is declared to lack the
// requested feature.
func agreed(k *check) bool {
	return len(k.differs) == 0 && (k.name == "structured" || k.name == "tools") &&
		strings.HasPrefix(k.err.Type, "provider/request-")
}

func allAgree(all []*check) bool {
	for _, k := range all {
		if k.err != nil && !agreed(k) {
			return false
		}
	}
	return true
}

// discard is a Sink that discards all pieces.
type discard struct{}

func (discard) Text(string) error        { return nil }
func (discard) Reasoning(string) error   { return nil }
func (discard) Delta(edn.Value) error    { return nil }
func (discard) Progress(edn.Value) error { return nil }
