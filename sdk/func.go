package sdk

import (
	"context"
	"errors"
	"reflect"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Func makes a capability of a function from an input to an output.
//
// I and O are structs with edn tags (name, omitempty), maps, or edn.Value. The
// input is checked against the schema derived from I, in which a field is
// required unless its tag says omitempty or its type is a pointer, and then
// decoded; keys that I lacks are ignored. An input that does not fit is
// :input/invalid with every problem and its path. An output that is a string
// answers {:text s}, another value that is no map {:value v}.
func Func[I, O any](id string, intents IntentNames, fn func(context.Context, I) (O, error), opts ...Option) Capability {
	c := newCapability(id, intents, "value", shapeOf[I](), answerShape[O](), opts)
	read := reader[I](&c)
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		in, err := read(k)
		if err != nil {
			return edn.Nil(), err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return edn.Nil(), err
		}
		return k.valueResponse(out)
	}
	return c
}

// StreamFunc is Func for a function that sends pieces of its answer while it
// works. What it returns is the whole answer all the same: the texts sent, one
// after the other, make up its text.
func StreamFunc[I, O any](id string, intents IntentNames, fn func(context.Context, I, *Stream) (O, error), opts ...Option) Capability {
	c := newCapability(id, intents, "value", shapeOf[I](), answerShape[O](), append([]Option{Streams()}, opts...))
	read := reader[I](&c)
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		in, err := read(k)
		if err != nil {
			return edn.Nil(), err
		}
		out, err := fn(ctx, in, k.stream)
		if err != nil {
			return edn.Nil(), err
		}
		return k.valueResponse(out)
	}
	return c
}

// Plan is an answer that the host carries out: a plan and the values of its
// free slots.
type Plan struct {
	// Plan is a map with :nodes.
	Plan edn.Value
	// Bindings is a map of slot values, or nil.
	Bindings edn.Value
}

// PlanFunc makes a capability of a function that answers with a plan.
func PlanFunc[I any](id string, intents IntentNames, fn func(context.Context, I) (Plan, error), opts ...Option) Capability {
	c := newCapability(id, intents, "plan", shapeOf[I](), edn.K("map"), append([]Option{Out("res/any")}, opts...))
	read := reader[I](&c)
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		in, err := read(k)
		if err != nil {
			return edn.Nil(), err
		}
		p, err := fn(ctx, in)
		if err != nil {
			return edn.Nil(), err
		}
		return k.planResponse(p), nil
	}
	return c
}

// Raw makes a capability of a function that reads the request envelope and
// writes the response envelope itself. Its schemas are req/any and res/any
// unless In and Out name others. If the function has answered through
// [Stream.Verbatim], what it returns is not sent.
func Raw(id string, intents IntentNames, fn func(ctx context.Context, request edn.Value, out *Stream) (edn.Value, error), opts ...Option) Capability {
	defaults := []Option{In("req/any"), Out("res/any")}
	c := newCapability(id, intents, "value", edn.K("map"), edn.K("map"), append(defaults, opts...))
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		return fn(ctx, k.request, k.stream)
	}
	return c
}

// shapeOf is the derived schema of T; what any map may be is :map.
func shapeOf[T any]() edn.Value {
	if t := reflect.TypeFor[T](); t == reflect.TypeFor[edn.Value]() || t.Kind() == reflect.Map || t.Kind() == reflect.Interface {
		return edn.K("map")
	}
	return schema.For[T]()
}

// answerShape is the derived schema of an answer of type T in the form in which
// it is sent, see asOut: a text under :text, what is no map under :value, and
// nothing at all for a nil pointer.
func answerShape[T any]() edn.Value {
	shape := shapeOf[T]()
	t := reflect.TypeFor[T]()
	if edn.Equal(shape, edn.K("map")) {
		return shape
	}
	if t.Kind() == reflect.Pointer { // schema.For allows nil; then the answer is {}
		return edn.K("map")
	}
	if head, _ := shape.Nth(0); shape.Kind() == edn.KindVector && (edn.Equal(head, edn.K("map")) || edn.Equal(head, edn.K("map-of"))) {
		return shape
	}
	key := edn.K("value")
	if t.Kind() == reflect.String {
		key = edn.K("text")
	}
	return edn.Vector(edn.K("map"), edn.Vector(key, shape))
}

// reader decodes the input of a call. The schema of I is compiled once; a type
// that has none is a problem of the capability.
func reader[I any](c *Capability) func(*call) (I, error) {
	shape, err := schema.Compile(c.in)
	if err != nil {
		c.problems = append(c.problems, errors.Join(errors.New("capability "+c.ID()+": the input type has no schema"), err))
	}
	return func(k *call) (I, error) {
		var in I
		input := k.request.Key("input")
		if k.encoding == wire.JSON {
			input = shape.CoerceJSON(input)
		}
		if findings := shape.Validate(input); len(findings) > 0 {
			return in, refusedInput(findings)
		}
		if v, ok := any(&in).(*edn.Value); ok {
			*v = input
			return in, nil
		}
		if err := edn.Decode(input, &in); err != nil {
			return in, contract.Errorf("input/invalid", "decode input: %w", err)
		}
		return in, nil
	}
}

func refusedInput(findings []schema.Finding) *contract.Error {
	values := make([]edn.Value, len(findings))
	for i, f := range findings {
		values[i] = f.Value()
	}
	first := findings[0]
	e := contract.Errorf("input/invalid", "input %s: %s", edn.Vector(first.Path...), first.Message)
	return e.WithDetail("findings", edn.Vector(values...))
}
