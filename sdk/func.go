package sdk

import (
	"context"
	"fmt"
	"reflect"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Func makes a capability from a function.
//
// I and O are structs with edn tags (name, omitempty), maps, or edn.Value. The
// input is validated against the schema derived from I and then decoded. A
// field is required unless its tag has omitempty or its type is a pointer;
// unknown keys are ignored. An invalid input returns :input/invalid with every
// problem and its path. A string output is sent as {:text s}, any other output
// that is not a map as {:value v}.
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

// StreamFunc is Func for a function that sends parts of its answer while it
// runs. The return value is the whole answer; the concatenated texts of the
// stream must equal its text.
func StreamFunc[I, O any](
	id string, intents IntentNames, fn func(context.Context, I, *Stream) (O, error), opts ...Option,
) Capability {
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

// Plan is an answer that the host executes: a plan and the values of its free
// slots.
type Plan struct {
	// Plan is a map with :nodes.
	Plan edn.Value
	// Bindings is a map of slot values, or nil.
	Bindings edn.Value
}

// PlanFunc makes a capability from a function that returns a plan. A host calls it
// only for an intent whose configuration permits plans: result_types = ["plan"].
func PlanFunc[I any](
	id string, intents IntentNames, fn func(context.Context, I) (Plan, error), opts ...Option,
) Capability {
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

// Raw makes a capability from a function that reads the request envelope and
// writes the response envelope itself. Its schemas are req/any and res/any
// unless In and Out name others. If the function has answered through
// [Stream.Verbatim], its return value is not sent.
func Raw(
	id string, intents IntentNames,
	fn func(ctx context.Context, request edn.Value, out *Stream) (edn.Value, error), opts ...Option,
) Capability {
	defaults := []Option{In("req/any"), Out("res/any")}
	c := newCapability(id, intents, "value", edn.K("map"), edn.K("map"), append(defaults, opts...))
	c.handle = func(ctx context.Context, k *call) (edn.Value, error) {
		return fn(ctx, k.request, k.stream)
	}
	return c
}

// shapeOf returns the derived schema of T, :map for edn.Value, maps and
// interfaces.
func shapeOf[T any]() edn.Value {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[edn.Value]() || t.Kind() == reflect.Map || t.Kind() == reflect.Interface {
		return edn.K("map")
	}
	return schema.For[T]()
}

// answerShape returns the schema of an answer of type T as it is sent (see
// asOut): a string under :text, another value that is not a map under :value,
// and {} for a nil pointer.
func answerShape[T any]() edn.Value {
	shape := shapeOf[T]()
	t := reflect.TypeFor[T]()
	if edn.Equal(shape, edn.K("map")) {
		return shape
	}
	if t.Kind() == reflect.Pointer { // schema.For allows nil, which is sent as {}
		return edn.K("map")
	}
	head, _ := shape.Nth(0)
	if shape.Kind() == edn.KindVector && (edn.Equal(head, edn.K("map")) || edn.Equal(head, edn.K("map-of"))) {
		return shape
	}
	key := edn.K("value")
	if t.Kind() == reflect.String {
		key = edn.K("text")
	}
	return edn.Vector(edn.K("map"), edn.Vector(key, shape))
}

// reader returns the function that decodes the input of a call. The schema of I
// is compiled once; a type without a schema is a problem of the capability.
func reader[I any](c *Capability) func(*call) (I, error) {
	shape, err := schema.Compile(c.in)
	if err != nil {
		c.problems = append(c.problems, fmt.Errorf("capability %s: derive the schema of its input: %w", c.ID(), err))
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
