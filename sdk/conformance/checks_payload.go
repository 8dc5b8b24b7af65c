package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

func payloadChecks() []Check {
	return []Check{
		{ID: "core/describe/schemas", Requirements: []string{"DESCRIBE-005"},
			Text: "every schema that a capability names is built in or comes with the description, which is within its limits, and can be read",
			run:  describeSchemas},
		{ID: "core/invoke/out-schema", Requirements: []string{"CALL-003"},
			Text: "the output of a value fits the output schema of its intent",
			run:  shared(outSchema)},
		{ID: "core/invoke/deterministic", Requirements: []string{"CALL-010"},
			Text: "a deterministic capability gives the same answer to a repeated request, also after other calls and " +
				"in another instance",
			run: deterministic},
		{ID: "core/invoke/error", Requirements: []string{"ERROR-001"},
			Text: fmt.Sprintf("an error has a permitted type and at most one sentence of %d characters",
				contract.MaxMessage),
			run: shared(errorForm)},
		{ID: "core/invoke/encoding", Requirements: []string{"PAYLOAD-006"},
			Text: "an answer is in the encoding of the question",
			run:  shared(sameEncoding)},
		{ID: "core/invoke/error-encoding", Requirements: []string{"PAYLOAD-006"},
			Text: "an error is in the encoding of the question",
			run:  shared(sameErrorEncoding)},
		{ID: "core/invoke/edges", Requirements: []string{"CALL-003"},
			Text: "the output can be read and fits its schema also for edge cases of the input: an empty text, one with line breaks",
			run:  shared(outEdges)},
		{ID: "core/invoke/blob", Requirements: []string{"PAYLOAD-003"},
			Text: "a text that is sent as a blob has the same effect as the text itself",
			run:  shared(textAsBlob)},
		{ID: "core/invoke/unknown-keys", Requirements: []string{"PAYLOAD-007"},
			Text: "unknown keys of the envelope change nothing",
			run:  shared(unknownKeys)},
	}
}

func deterministic(ctx context.Context, b *bench) error {
	promises := func(c contract.Capability) bool { return c.Deterministic }
	if err := b.again(ctx, "", repeatCalls, promises, sameOut); err != nil {
		return err
	}
	return b.inAnyOrder(ctx)
}

func describeSchemas(ctx context.Context, b *bench) error {
	_, _, d, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return want("schemas that can be read", "%v", err)
	}
	if schema.PatternInstructions(d.Schemas) > schema.MaxPatterns {
		return want(fmt.Sprintf("patterns of at most %d instructions in all schemas", schema.MaxPatterns), "more than that")
	}
	if n := len(d.Value().Canonical()); n > contract.MaxDescription {
		return want(fmt.Sprintf("a description of at most %d bytes of EDN", contract.MaxDescription), "%d", n)
	}
	for _, q := range b.questions(d) {
		for _, name := range []string{q.capability.InSchema.For(q.intent), q.capability.OutSchema.For(q.intent)} {
			if _, ok := registry.Lookup(name); !ok {
				return want("a schema that is built in or comes with the description for "+q.String(), ":%s, which is not known", name)
			}
		}
	}
	return nil
}

func outSchema(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return untestable("the schemas of the plugin cannot be read: %v", err)
	}
	for _, q := range b.questions(d) {
		if err := b.outFits(ctx, in, registry, q); err != nil {
			return err
		}
	}
	return nil
}

// outFits asks a question and checks the output against its schema. An answer
// that cannot be parsed is a failure.
func (b *bench) outFits(ctx context.Context, in Instance, registry *schema.Registry, q question) error {
	a, err := b.ask(ctx, in, q)
	if err != nil {
		return unreadable(err)
	}
	if !a.response.Key("result").HasKey("out") {
		return nil // other checks test the form of answers
	}
	name := q.capability.OutSchema.For(q.intent)
	s, ok := registry.Lookup(name)
	if !ok {
		return nil
	}
	out := a.out
	if in.Client().Encoding() == wire.JSON {
		out = s.CoerceJSON(out)
	}
	if found := s.Validate(out); len(found) > 0 {
		return want(fmt.Sprintf("an output of %s for %s that fits :%s", q, cut(q.input.String()), name),
			"%s at %s in %s", found[0].Message, edn.Vector(found[0].Path...), cut(out.String()))
	}
	return nil
}

// outEdges asks with inputs that authors forget, until the patience for a call
// is used up.
func outEdges(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return untestable("the schemas of the plugin cannot be read: %v", err)
	}
	until := time.Now().Add(b.call)
	for _, q := range b.questions(d) {
		if b.outFits(ctx, in, registry, q) != nil {
			continue // other checks test answers to samples
		}
		for _, variant := range variants(d, q) {
			if time.Now().After(until) {
				return nil
			}
			if err := b.outFits(ctx, in, registry, variant); err != nil {
				return err
			}
		}
	}
	return nil
}

// textAsBlob asks each question once with texts in the payload and once with
// texts beside it.
func textAsBlob(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	all, err := b.learn(ctx, in, b.questions(d))
	if err != nil {
		return err
	}
	for _, k := range all {
		s, err := b.asReferences(in, k.question)
		if err != nil {
			return &fault{err}
		}
		if s == nil || k.was.refusal != nil || !repeats(k.capability) {
			continue
		}
		event, blobs, err := b.lastEvent(ctx, in.Conn(), s.InvokeRequest)
		if err != nil {
			return want("an answer of "+k.question.String(), "%v", err)
		}
		payload := event.GetResult()
		if payload == nil {
			payload = event.GetError()
		}
		v, err := wire.DecodePayload(payload, blobs)
		if err != nil {
			return want("an answer that can be read", "%v", err)
		}
		if out := v.Key("result").Key("out"); (event.GetResult() == nil || !edn.Equal(out, k.was.out)) &&
			b.settled(ctx, in, k) {
			return want(fmt.Sprintf("the answer of %s with its texts as blobs: %s", k.question, k.was), "%s", cut(v.String()))
		}
	}
	return nil
}

// unknownKeys repeats each question with unknown keys in the envelope.
func unknownKeys(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	all, err := b.learn(ctx, in, b.questions(d))
	if err != nil {
		return err
	}
	unknown := func(v edn.Value) edn.Value {
		return v.AssocKey("conformance/unknown", edn.Int(1)).AssocKey("conformance-unknown",
			edn.MustMap(edn.K("x"), edn.Vector()))
	}
	for _, k := range all {
		envelope := unknown(k.request())
		envelope = envelope.AssocKey("task", unknown(envelope.Key("task")))
		if err := b.unmoved(ctx, in, k, envelope); err != nil {
			return fmt.Errorf("unknown keys in the envelope: %w", err)
		}
	}
	return nil
}

// envelopeRounds is the number of times a call with a changed envelope must have another
// outcome than the unchanged one, which a capability that answers at random rarely has.
const envelopeRounds = 3

// unmoved sends a known question in another envelope, and fails if only that changes its
// outcome.
func (b *bench) unmoved(ctx context.Context, in Instance, k known, envelope edn.Value) error {
	var got outcome
	for range envelopeRounds {
		var err error
		if got, err = b.outcomeIn(ctx, in, k.question, envelope); err != nil {
			return err
		}
		if got.passing() || got.equal(k.was) || !b.settled(ctx, in, k) {
			return nil
		}
	}
	return want(fmt.Sprintf("the outcome of %s: %s", k.question, k.was), "%s", got)
}

// errorForm checks errors as they were sent, before the client corrects them:
// for inputs of a wrong shape, for an unknown capability, and for samples and
// their edge cases until half of the patience for a call is used up.
func errorForm(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	var all []question
	for _, c := range append(slices.Clone(d.Capabilities), absent()) {
		all = append(all, question{capability: c, input: edn.Int(7)})
	}
	until := time.Now().Add(b.call / 2)
	for i, q := range append(all, withVariants(d, b.questions(d))...) {
		if i >= len(all) && time.Now().After(until) {
			return nil
		}
		r, err := b.invokeRequest(in, q.capability, q.input)
		if err != nil {
			return &fault{err}
		}
		event, blobs, err := b.lastEvent(ctx, in.Conn(), r)
		if err != nil {
			continue // other checks test how a call ends
		}
		p := event.GetError()
		if p == nil {
			p = event.GetResult()
		}
		v, err := wire.DecodePayload(p, blobs)
		if event.GetError() == nil {
			if v = v.Key("error"); err != nil || v.IsNil() {
				continue // an answer
			}
		}
		if err != nil {
			return want("an error that can be read", "%v", err)
		}
		if err := wellFormed(v, wire.Encoding(p.GetEncoding())); err != nil {
			return err
		}
	}
	return nil
}

// wellFormed checks the type and the message of an error as it was sent.
func wellFormed(v edn.Value, enc wire.Encoding) error {
	name := strings.TrimPrefix(wordOf(v.Key("type")), ":")
	_, err := edn.Keyword(name)
	switch _, known := contract.Lookup(contract.ResolveAlias(name)); {
	case name == "":
		return want("an error with a :type", "%s", cut(v.String()))
	case err != nil || enc == wire.EDN && v.Key("type").Kind() != edn.KindKeyword:
		return want("a :type that is a keyword", "%s", cut(v.Key("type").String()))
	case !known && contract.Reserved(contract.Namespace(name)):
		return want("a type of the catalogue, or one in a namespace of the plugin's own", ":%s", name)
	}
	message, _ := v.Key("message").AsString()
	if strings.TrimSpace(message) == "" {
		return want("an error with a :message", "%s", cut(v.String()))
	}
	if n := utf8.RuneCountInString(message); n > contract.MaxMessage ||
		strings.Contains(strings.TrimSpace(message), "\n") {
		return want(fmt.Sprintf("a message of one line with at most %d characters", contract.MaxMessage), "%d characters: %s",
			n, cut(message))
	}
	return nil
}

func sameEncoding(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	asked := string(in.Client().Encoding())
	for _, q := range b.questions(d) {
		r, err := b.invokeRequest(in, q.capability, q.input)
		if err != nil {
			return &fault{err}
		}
		event, _, err := b.lastEvent(ctx, in.Conn(), r)
		if err != nil {
			return want("an answer", "%v", err)
		}
		payload := event.GetResult()
		if payload == nil {
			payload = event.GetError()
		}
		if got := payload.GetEncoding(); got != asked {
			return want(fmt.Sprintf("an answer of %s in %q", q, asked), "%q", got)
		}
	}
	return nil
}

// absent is a capability that no plugin has.
func absent() contract.Capability {
	return contract.Capability{ID: "conformance/no-such-capability", Intents: []string{"conformance/no-such-intent"}}
}

func sameErrorEncoding(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	r, err := b.invokeRequest(in, absent(), edn.MustMap())
	if err != nil {
		return &fault{err}
	}
	event, _, err := b.lastEvent(ctx, in.Conn(), r)
	if err != nil {
		return want("an error event", "%v", err)
	}
	if failure := event.GetError(); failure != nil && failure.GetEncoding() != r.GetRequest().GetEncoding() {
		return want(fmt.Sprintf("an error in %q", r.GetRequest().GetEncoding()), "%q", failure.GetEncoding())
	}
	return nil
}

// invokeRequest returns a call as a host sends it, in the encoding that the
// plugin asks for.
func (b *bench) invokeRequest(in Instance, c contract.Capability, input edn.Value) (*pluginv1.InvokeRequest, error) {
	enc := in.Client().Encoding()
	header, err := b.callContext(c).Proto(enc)
	if err != nil {
		return nil, err
	}
	payload, blobs, err := wire.EncodePayload(enc, request(c, input))
	return &pluginv1.InvokeRequest{Context: header, Request: payload, Blobs: blobs}, err
}
