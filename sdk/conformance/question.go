package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// question is one intent of one capability with an input.
type question struct {
	capability contract.Capability
	intent     string
	input      edn.Value
	at         place
	changed    int // number, from 1, of the entry of the input in which a variant differs; else 0
}

// place is the position of a call: run and node, both counted from 1. The zero
// value is a call alone in the run "conformance".
type place struct{ run, node int }

func (q question) String() string {
	return fmt.Sprintf("%s of capability %s", q.intent, q.capability.ID)
}

func (q question) request() edn.Value {
	envelope := requestFor(q.capability, q.intent, q.input)
	if q.at == (place{}) {
		return envelope
	}
	return envelope.AssocKey("trace", edn.MustMap(edn.K("id"), edn.Text(q.at.name())))
}

// name is the run and the trace of a place.
func (p place) name() string { return fmt.Sprintf("conformance-run-%d", p.run) }

// fill sets the context that a host gives a call at the place: calls of one run
// share the run and the trace, and each has its own node, path, id and effect
// key.
func (p place) fill(call *wire.CallContext) {
	call.Run, call.Node = p.name(), fmt.Sprintf("n%d", p.node)
	call.Path = edn.Vector(edn.Int(int64(p.node)))
	call.CallID = fmt.Sprintf("%s-call-%d", p.name(), p.node)
	call.EffectKey = fmt.Sprintf("%s-%d", p.name(), p.node)
	call.TraceParent = fmt.Sprintf("00-%032x-%016x-01", p.run, p.node)
}

// questions returns every intent of every capability, or of those of a kind.
func (b *bench) questions(d contract.Description, ofKind ...string) []question {
	var all []question
	for _, c := range d.Capabilities {
		if len(ofKind) > 0 && !slices.Contains(ofKind, c.Kind) {
			continue
		}
		intents := c.Intents
		if len(intents) == 0 {
			intents = []string{firstIntent(c)}
		}
		for _, intent := range intents {
			all = append(all, question{capability: c, intent: intent, input: b.inputFor(d, c, intent)})
		}
	}
	return all
}

// answer is the answer to a question.
type answer struct {
	question
	response edn.Value // the envelope
	out      edn.Value // the output of a value
	deltas   []edn.Value
}

// context returns the call context of a question, with a deadline.
func (b *bench) context(q question) wire.CallContext {
	call := b.callContext(q.capability)
	call.Deadline = time.Now().Add(b.callLimit(q.capability))
	if q.at != (place{}) {
		q.at.fill(&call)
	}
	return call
}

// ask makes a call. The error is the one that the plugin sent, or one of the
// connection.
func (b *bench) ask(ctx context.Context, in Instance, q question) (answer, error) {
	return b.askIn(ctx, in, q, q.request())
}

// askIn is ask with another envelope.
func (b *bench) askIn(ctx context.Context, in Instance, q question, envelope edn.Value) (answer, error) {
	a := answer{question: q}
	response, err := b.invoke(ctx, in, q, envelope, func(e wire.Event) {
		if e.Kind == wire.Delta {
			a.deltas = append(a.deltas, e.Value)
		}
	})
	if err != nil {
		return a, err
	}
	checked, refused := contract.CheckResponse(response, contract.ResultRules{})
	if refused != nil {
		return a, refused
	}
	a.response, a.out = checked, checked.Key("result").Key("out")
	return a, nil
}

// value makes a call that must be answered with a value.
func (b *bench) value(ctx context.Context, in Instance, q question) (answer, error) {
	a, err := b.ask(ctx, in, q)
	switch {
	case err != nil && typedError(err) != nil:
		return a, typedError(err)
	case err != nil:
		return a, untestable("%s answers %s with the error %v: give an input that it answers in the samples, under :%s or :%s", q, cut(q.input.String()), err, q.intent, q.capability.ID)
	case !a.response.Key("result").HasKey("out"):
		return a, want("an answer of type :value for "+q.String(), "%s", cut(a.response.String()))
	}
	return a, nil
}

// values asks every question about the capabilities of a kind and passes each
// answer to check. It fails for a plugin without such a capability.
func (b *bench) values(ctx context.Context, kind string, check func(answer) error) error {
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	all := b.questions(d, kind)
	if len(all) == 0 {
		return untestable("the plugin has no capability of kind %s", kind)
	}
	for _, q := range all {
		a, err := b.value(ctx, in, q)
		if err != nil {
			return err
		}
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

// wordOf returns a keyword, or the text that represents one in JSON.
func wordOf(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return s
}
