package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// maxVariants bounds the inputs that are derived from one question.
const maxVariants = 16

// variants derives questions from q: each has one entry of the input replaced
// by an edge case of its type, if the input schema accepts it.
func variants(d contract.Description, q question) []question { return derived(d, q, edges) }

// derived derives questions from q: each has one entry of the input replaced by one of the
// values that are derived from it, if the input schema accepts it. Every entry has its turn
// before one has a second value, so that each of a few entries is varied.
func derived(d contract.Description, q question, values func(edn.Value) []edn.Value) []question {
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return nil
	}
	s, ok := registry.Lookup(q.capability.InSchema.For(q.intent))
	if !ok {
		return nil
	}
	var of [][]question // by entry
	for key, value := range q.input.Entries() {
		var inputs []question
		for _, v := range values(value) {
			input := q.input.Assoc(key, v)
			if !edn.Equal(input, q.input) && len(s.Validate(input)) == 0 {
				inputs = append(inputs, question{capability: q.capability, intent: q.intent, input: input, changed: len(of) + 1})
			}
		}
		of = append(of, inputs)
	}
	var all []question
	for n := 0; len(all) < maxVariants && slices.ContainsFunc(of, func(of []question) bool { return n < len(of) }); n++ {
		for _, inputs := range of {
			if n < len(inputs) && len(all) < maxVariants {
				all = append(all, inputs[n])
			}
		}
	}
	return all
}

// longerWords is the length in words of a long text.
const longerWords = 160

// longer derives a question from q in which the first text of the input is repeated, if the
// input schema accepts it.
func longer(d contract.Description, q question) []question {
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return nil
	}
	s, ok := registry.Lookup(q.capability.InSchema.For(q.intent))
	if !ok {
		return nil
	}
	for key, value := range q.input.Entries() {
		text, _ := value.AsString()
		words := len(strings.Fields(text))
		if words == 0 {
			continue
		}
		long := edn.Text(strings.TrimSpace(strings.Repeat(text+" ", 1+longerWords/words)))
		if input := q.input.Assoc(key, long); len(s.Validate(input)) == 0 {
			return []question{{capability: q.capability, intent: q.intent, input: input}}
		}
	}
	return nil
}

// edges are values of the type of v that programs often mishandle. The last
// ones are close to v.
func edges(v edn.Value) []edn.Value {
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		return append([]edn.Value{edn.Text(""), edn.Text(" "), edn.Text("7 ż🐝"), edn.Text("a\tb\nc"),
			edn.Text("\"\\\x00\x7f"), edn.Text(text + " more")}, near(v)...)
	case edn.KindInt:
		n, _ := v.AsInt()
		return []edn.Value{edn.Int(0), edn.Int(n + 1), edn.Int(n + 2)}
	case edn.KindVector:
		return []edn.Value{edn.Vector()}
	case edn.KindBool:
		is, _ := v.AsBool()
		return []edn.Value{edn.Bool(!is)}
	}
	return nil
}

// near returns texts that are as long as the text v and differ from it in one letter or digit:
// the first one, one in the middle, or the last one. A plugin that remembers answers by the length
// or by a part of a text confuses them with v.
func near(v edn.Value) []edn.Value {
	text, _ := v.AsString()
	var at []int
	for i := range len(text) {
		if c := text[i]; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	var all []edn.Value
	for _, i := range slices.Compact([]int{at[0], at[len(at)/2], at[len(at)-1]}) {
		b := []byte(text)
		switch b[i] {
		case 'z', 'Z', '9':
			b[i]--
		default:
			b[i]++
		}
		all = append(all, edn.Text(string(b)))
	}
	return all
}

// outcome is the result of a call: an output, or the type of an error.
type outcome struct {
	out     edn.Value
	refusal *contract.Error
}

func (o outcome) String() string {
	if o.refusal != nil {
		return "the error :" + o.refusal.Type
	}
	return cut(o.out.String())
}

func (o outcome) equal(other outcome) bool {
	if o.refusal != nil || other.refusal != nil {
		return o.refusal != nil && other.refusal != nil && o.refusal.Type == other.refusal.Type
	}
	return edn.Equal(o.out, other.out)
}

// passing reports whether the outcome is transient: another attempt may end
// otherwise.
func (o outcome) passing() bool {
	return o.refusal != nil && o.refusal.Class != contract.ClassStop
}

// outcomeOf makes a call. The error means that the call did not end as a call
// must.
func (b *bench) outcomeOf(ctx context.Context, in Instance, q question) (outcome, error) {
	return b.outcomeIn(ctx, in, q, q.request())
}

// outcomeIn is outcomeOf with another envelope.
func (b *bench) outcomeIn(ctx context.Context, in Instance, q question, envelope edn.Value) (outcome, error) {
	a, err := b.askIn(ctx, in, q, envelope)
	if err == nil {
		return outcome{out: a.out}, nil
	}
	if err := typedError(err); err != nil {
		return outcome{}, err
	}
	return outcome{refusal: contract.AsError(err)}, nil
}

// errUnsteady means that a question is answered differently each time.
var errUnsteady = errors.New("no two answers are alike")

// steady asks a question twice and returns its outcome. The error is errUnsteady
// if the outcomes differ or are transient.
func (b *bench) steady(ctx context.Context, in Instance, q question) (outcome, error) {
	first, err := b.outcomeOf(ctx, in, q)
	if err != nil {
		return first, err
	}
	second, err := b.outcomeOf(ctx, in, q)
	if err == nil && (!first.equal(second) || first.passing()) {
		err = errUnsteady
	}
	return first, err
}

// repeats reports whether a capability promises that a second call ends like
// the first.
func repeats(c contract.Capability) bool { return c.Deterministic || c.Idempotent }

// readEffects are the effects of a capability that changes nothing, beside "none".
func readEffects() []string { return []string{"db/read", "fs/read"} }

// independent reports whether calls of a capability cannot change the outcome
// of others, because they have no effects but reads.
func independent(q question) bool {
	return !slices.ContainsFunc(q.capability.Effects, func(e string) bool {
		return e != "none" && !slices.Contains(readEffects(), e)
	})
}

// known is a question with its observed outcome.
type known struct {
	question
	was outcome
}

// inAnyOrder asks other instances, in other orders, what the first one answered, and fails on
// another outcome. Each instance has ended before the next one starts: not every plugin has two
// instances side by side.
func (b *bench) inAnyOrder(ctx context.Context) error {
	first, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	questions := slices.DeleteFunc(b.questions(d), func(q question) bool {
		return !q.capability.Deterministic || !independent(q)
	})
	all, err := b.learn(ctx, first, withVariants(d, questions))
	if err != nil || len(all) < 2 {
		return err
	}
	first.Stop()
	until := time.Now().Add(b.call / 2)
	for _, order := range otherOrders(all) {
		if time.Now().After(until) {
			return nil
		}
		in, _, err := b.ready(ctx)
		if err != nil {
			return err
		}
		for _, k := range order {
			if time.Now().After(until) {
				return nil
			}
			got, err := b.steady(ctx, in, k.question)
			if errors.Is(err, errUnsteady) {
				continue
			}
			if err != nil {
				return err
			}
			if !got.equal(k.was) {
				return want(fmt.Sprintf("the outcome of %s for %s whatever was asked before: %s", k.question,
					cut(k.input.String()), k.was), "%s of another instance, asked in another order", got)
			}
		}
		in.Stop()
	}
	return nil
}

// otherOrders returns what other instances are asked: everything in the opposite order; and, if
// several entries of inputs are varied, for each of them the variants of this entry before the
// samples. A plugin that remembers answers without one entry then gives the answer to the first
// variant of this entry also for the sample, whichever other entries it leaves out.
func otherOrders(all []known) [][]known {
	backward := slices.Clone(all)
	slices.Reverse(backward)
	orders := [][]known{backward}
	entries := 0
	for _, k := range all {
		entries = max(entries, k.changed)
	}
	for entry := 1; entries > 1 && entry <= entries; entry++ {
		var order, samples []known
		for _, k := range all {
			switch k.changed {
			case entry:
				order = append(order, k)
			case 0:
				samples = append(samples, k)
			}
		}
		if len(order) > 0 {
			orders = append(orders, append(order, samples...))
		}
	}
	return orders
}

// learn asks questions in sequence and returns those with a repeatable outcome.
// It stops when half of the patience for a call is used up.
func (b *bench) learn(ctx context.Context, in Instance, questions []question) ([]known, error) {
	until := time.Now().Add(b.call / 2)
	var all []known
	for _, q := range questions {
		if time.Now().After(until) {
			break
		}
		o, err := b.steady(ctx, in, q)
		switch {
		case errors.Is(err, errUnsteady):
		case err != nil:
			return nil, err
		default:
			all = append(all, known{q, o})
		}
	}
	return all, nil
}

// learnEach is learn for the questions that cannot change the outcome of others, at a place;
// if there are none, for the first one. Questions on which a call fails are left out.
func (b *bench) learnEach(ctx context.Context, in Instance, d contract.Description, at place) []known {
	questions := b.questions(d)
	if pure := slices.DeleteFunc(slices.Clone(questions), func(q question) bool { return !independent(q) }); len(pure) > 0 {
		questions = pure
	} else {
		questions = questions[:1]
	}
	ctx, cancel := context.WithTimeout(ctx, b.call/2)
	defer cancel()
	var all []known
	for _, q := range questions {
		q.at = at
		if learnt, err := b.learn(ctx, in, []question{q}); err == nil {
			all = append(all, learnt...)
		}
	}
	return all
}

// unchanged asks what is known again and fails on another outcome.
func (b *bench) unchanged(ctx context.Context, in Instance, all []known, after string) error {
	for _, k := range all {
		got, err := b.outcomeOf(ctx, in, k.question)
		if err != nil {
			return fmt.Errorf("after %s, %s: %w", after, k.question, err)
		}
		// A capability that is not deterministic may answer otherwise by itself.
		changed := k.capability.Deterministic || got.refusal != nil && k.was.refusal == nil
		if changed && !got.passing() && !got.equal(k.was) {
			return want(fmt.Sprintf("the outcome of %s, also after %s: %s", k.question, after, k.was), "%s", got)
		}
	}
	return nil
}

// settled reports whether a question still has its known outcome when it is
// repeated alone and unchanged. If not, another outcome of a changed call
// proves nothing, because the plugin's data has changed meanwhile.
func (b *bench) settled(ctx context.Context, in Instance, k known) bool {
	for range 3 {
		if got, err := b.outcomeOf(ctx, in, k.question); err == nil && !got.equal(k.was) {
			return false
		}
	}
	return true
}

// withVariants appends the variants of each question, and long texts that differ in
// one letter.
func withVariants(d contract.Description, questions []question) []question {
	var all []question
	for _, q := range questions {
		all = append(append(all, q), furtherOf(d, q)...)
	}
	return all
}

// furtherOf returns the questions that withVariants appends to q.
func furtherOf(d contract.Description, q question) []question {
	all := variants(d, q)
	for _, long := range longer(d, q) {
		all = append(append(all, long), derived(d, long, near)...)
	}
	return all
}

// everyInput calls ask with each question and then with all inputs that are derived without it or
// from it: unexpected ones, those with a text of size bytes, and variants. It stops when limit is over.
func (b *bench) everyInput(d contract.Description, size int, limit time.Duration, ask func(question)) {
	questions := b.questions(d)
	all := slices.Clone(questions)
	for _, q := range questions {
		for _, q.input = range append(oddInputs(), largeInputs(size)...) {
			all = append(all, q)
		}
	}
	for _, q := range questions {
		all = append(all, furtherOf(d, q)...)
	}
	until := time.Now().Add(limit)
	for _, q := range all {
		if time.Now().After(until) {
			return
		}
		ask(q)
	}
}

// different reports whether two of the outcomes differ.
func different(all []known) bool {
	return slices.ContainsFunc(all, func(k known) bool { return !k.was.equal(all[0].was) })
}

// asReferences returns a call of a question with every top-level text of its
// input sent beside the payload. It returns nil if there is no such text.
func (b *bench) asReferences(in Instance, q question) (*spoiled, error) {
	s := &spoiled{encoding: in.Client().Encoding(), capability: q.capability, input: q.input}
	var err error
	if s.InvokeRequest, err = b.invokeRequest(in, q.capability, q.input); err != nil {
		return nil, err
	}
	input := q.input
	for key, value := range q.input.Entries() {
		if text, ok := value.AsString(); ok {
			hash := edn.Hash(value)
			input = input.Assoc(key, edn.MustTagged("ferment/value", edn.Text(hash)))
			s.Blobs = append(s.Blobs, &pluginv1.Blob{Hash: hash, Body: []byte(text)})
		}
	}
	if len(s.Blobs) == 0 {
		return nil, nil
	}
	s.Request.Body, err = plainText(s.encoding, requestFor(q.capability, q.intent, input))
	return s, err
}

// overloaded reports whether a call was refused because too many were in flight.
func overloaded(err error) bool {
	e := contract.AsError(err)
	return e != nil && !wire.Transport(err) && e.Type == "runtime/overloaded"
}
