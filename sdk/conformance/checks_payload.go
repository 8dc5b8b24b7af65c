package conformance

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

func payloadChecks() []Check {
	return []Check{
		{ID: "core/describe/schemas", Requirements: []string{"DESCRIBE-005"},
			Text: "every schema that a capability names is built in or comes with the description, and can be read",
			run:  describeSchemas},
		{ID: "core/invoke/out-schema", Requirements: []string{"CALL-003"},
			Text: "the output of a value fits the output schema of its intent",
			run:  outSchema},
		{ID: "core/invoke/deterministic", Requirements: []string{"CALL-010"},
			Text: "a capability that calls itself deterministic answers one request the same way twice",
			run: func(ctx context.Context, b *bench) error {
				return b.again(ctx, "", func(c contract.Capability) bool { return c.Deterministic }, sameOut)
			}},
		{ID: "core/invoke/error", Requirements: []string{"ERROR-001"},
			Text: fmt.Sprintf("an error has a type that may be used and at most one sentence of %d characters", contract.MaxMessage),
			run:  errorForm},
		{ID: "core/invoke/encoding", Requirements: []string{"PAYLOAD-006"},
			Text: "an answer is in the encoding of the question",
			run:  sameEncoding},
	}
}

func describeSchemas(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	_, d, err := b.describe(ctx, in, b.config())
	if err != nil {
		return err
	}
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return want("schemas that can be read", "%v", err)
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

func outSchema(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return untestable("the schemas of the plugin cannot be read: %v", err)
	}
	for _, q := range b.questions(d) {
		a, err := b.ask(ctx, in, q)
		if err != nil || !a.response.Key("result").HasKey("out") {
			continue // what an answer must be like at all is another check
		}
		name := q.capability.OutSchema.For(q.intent)
		s, ok := registry.Lookup(name)
		if !ok {
			continue
		}
		out := a.out
		if in.Client().Encoding() == wire.JSON {
			out = s.CoerceJSON(out)
		}
		if found := s.Validate(out); len(found) > 0 {
			return want(fmt.Sprintf("an output of %s that fits :%s", q, name), "%s at %s in %s", found[0].Message, edn.Vector(found[0].Path...), cut(out.String()))
		}
	}
	return nil
}

// errorForm looks at errors as they were sent, before anybody has mended them.
func errorForm(ctx context.Context, b *bench) error {
	in, _, err := b.ready(ctx)
	if err != nil {
		return err
	}
	c := contract.Capability{ID: "conformance/no-such-capability", Intents: []string{"conformance/no-such-intent"}}
	r, err := invokeRequest(in, c, edn.MustMap())
	if err != nil {
		return &fault{err}
	}
	event, err := b.lastEvent(ctx, in.Conn(), r)
	if err != nil {
		return want("an error event", "%v", err)
	}
	failure := event.GetError()
	if failure == nil {
		return nil // an error inside of an answer, or none, is the matter of other checks
	}
	v, err := wire.DecodePayload(failure, nil)
	if err != nil {
		return want("an error that can be read", "%v", err)
	}
	name := strings.TrimPrefix(wordOf(v.Key("type")), ":")
	switch _, known := contract.Lookup(contract.ResolveAlias(name)); {
	case name == "":
		return want("an error with a :type", "%s", cut(v.String()))
	case !known && contract.Reserved(contract.Namespace(name)):
		return want("a type of the catalogue, or one in a namespace of the plugin's own", ":%s", name)
	}
	if message, _ := v.Key("message").AsString(); utf8.RuneCountInString(message) > contract.MaxMessage || strings.Contains(strings.TrimSpace(message), "\n") {
		return want(fmt.Sprintf("a message of one line with at most %d characters", contract.MaxMessage), "%d characters: %s", utf8.RuneCountInString(message), cut(message))
	}
	return nil
}

func sameEncoding(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	asked := string(in.Client().Encoding())
	for _, q := range b.questions(d) {
		r, err := invokeRequest(in, q.capability, q.input)
		if err != nil {
			return &fault{err}
		}
		event, err := b.lastEvent(ctx, in.Conn(), r)
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

// invokeRequest is a call as a host sends it, in the encoding that the plugin
// wants to be called in.
func invokeRequest(in Instance, c contract.Capability, input edn.Value) (*pluginv1.InvokeRequest, error) {
	enc := in.Client().Encoding()
	header, err := callContext(c).Proto(enc)
	if err != nil {
		return nil, err
	}
	payload, blobs, err := wire.EncodePayload(enc, request(c, input))
	return &pluginv1.InvokeRequest{Context: header, Request: payload, Blobs: blobs}, err
}
