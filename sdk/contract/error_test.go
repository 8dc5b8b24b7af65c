package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ERR-003: one Go type that works with errors.Is and errors.As.
func TestErrorInGo(t *testing.T) {
	inner := Errorf("provider/timeout", "no first token within %d s: %w", 20, io.ErrUnexpectedEOF)
	outer := Errorf("repair/exhausted", "round 2: %w", inner)
	wrapped := fmt.Errorf("node c-01: %w", outer)

	assert.ErrorIs(t, wrapped, OfType("repair/exhausted"))
	assert.ErrorIs(t, wrapped, OfType("provider/timeout"), "the cause counts")
	assert.ErrorIs(t, wrapped, io.ErrUnexpectedEOF)
	assert.NotErrorIs(t, wrapped, OfType("runtime/crashed"))
	assert.ErrorIs(t, wrapped, OfType("invoke-timeout"), "an alias names the type")

	var e *Error
	require.ErrorAs(t, wrapped, &e)
	assert.Same(t, outer, e)
	assert.Same(t, inner, e.Cause)
	assert.Equal(t, SourceDownstream, e.Source, "the source of repair/exhausted is that of its cause")
	assert.Same(t, outer, AsError(wrapped))
}

// ERR-003: Errorf uses the defaults of the catalogue.
func TestErrorfTakesTheCatalogue(t *testing.T) {
	e := Errorf("runtime/overloaded", "queue of %s is full", "chess")
	assert.Equal(t, "queue of chess is full", e.Message)
	assert.Equal(t, ClassSwitch, e.Class)
	assert.Equal(t, SourceHost, e.Source)
	assert.True(t, e.Retryable)
	assert.NotEmpty(t, e.Hint)
	assert.Equal(t, 503, e.HTTPStatus())
	assert.Equal(t, ":runtime/overloaded: queue of chess is full", e.Error())

	assert.Equal(t, "runtime/overloaded", Errorf(":queue/full", "x").Type)

	own := Errorf("demo/own", "x")
	assert.Equal(t, ClassSwitch, own.Class)
	assert.Equal(t, SourcePlugin, own.Source)
	assert.False(t, own.Retryable)
	assert.Equal(t, 502, own.HTTPStatus())
}

func TestErrorfKeepsSeveralCauses(t *testing.T) {
	e := Errorf("runtime/internal", "both: %w and %w", io.EOF, context.Canceled)
	assert.ErrorIs(t, e, io.EOF)
	assert.ErrorIs(t, e, context.Canceled)
	assert.NoError(t, errors.Join(Errorf("runtime/internal", "none").Err))
}

func TestAsError(t *testing.T) {
	assert.Nil(t, AsError(nil))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "canceled"},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), "timeout/hard"},
		{io.EOF, "runtime/internal"},
		{Errorf("plan/too-deep", "16 levels"), "plan/too-deep"},
	} {
		e := AsError(tt.err)
		assert.Equal(t, tt.want, e.Type)
		assert.ErrorIs(t, e, tt.err, "nothing is lost")
	}
}

func TestWithMethodsCopy(t *testing.T) {
	first := Errorf("runtime/crashed", "killed")
	second := first.WithSource(SourceHost).WithClass(ClassRetry).WithDetail("signal", edn.Int(9)).WithWhere("node", edn.Text("c-01")).
		WithHint("look").WithOp("invoke", ":chess/engine").WithCause(Errorf("canceled", "c")).WithRetryable(false)
	assert.Equal(t, Errorf("runtime/crashed", "killed"), first)
	assert.Equal(t, "{:signal 9}", second.Details.String())
	assert.Equal(t, `{:node "c-01"}`, second.Where.String())
	assert.Equal(t, ClassRetry, second.Class)
	assert.Equal(t, "invoke :chess/engine: killed", second.FullMessage())
	assert.Equal(t, "{:a 1}", second.WithDetails(edn.MustRead("{:a 1}")).Details.String())
	assert.Equal(t, "{:a 1}", first.WithDetails(edn.Int(3)).WithDetail("a", edn.Int(1)).Details.String(), "details are a map")
}

// ERR-006: class and retryability of a type depend on its source; values that
// were set explicitly stay.
func TestWithSourceFollowsTheRow(t *testing.T) {
	e := Errorf("plan/invalid", "cycle")
	assert.Equal(t, []any{ClassStop, false, 400}, []any{e.Class, e.Retryable, e.HTTPStatus()})
	e = e.WithSource(SourcePlugin)
	assert.Equal(t, []any{ClassRepair, true, 502}, []any{e.Class, e.Retryable, e.HTTPStatus()})
	assert.Equal(t, ClassSwitch, Errorf("plan/invalid", "cycle").WithClass(ClassSwitch).WithSource(SourcePlugin).Class)
}

// ERR-005: limits of message and causes.
func TestErrorLimits(t *testing.T) {
	e := Errorf("runtime/crashed", "%s", strings.Repeat("ż", 600)+"\nsecond")
	assert.Equal(t, MaxMessage, utf8.RuneCountInString(e.Message))
	assert.True(t, strings.HasSuffix(e.Message, "…"))
	assert.Equal(t, "one two three", Errorf("runtime/crashed", "one\ntwo\tthree").Message)
	assert.Equal(t, "bad \uFFFD byte", Errorf("runtime/crashed", "bad \xff byte").Message)

	deep := Errorf("runtime/crashed", "0")
	for i := range 20 {
		deep = Errorf("runtime/crashed", "%d", i+1).WithCause(deep)
	}
	depth := 0
	for v := deep.Value().Key("cause"); !v.IsNil(); v = v.Key("cause") {
		depth++
	}
	assert.Equal(t, maxCauseDepth, depth)
}

// ERR-005, ERR-007: which parts of an error a plugin may set.
func TestErrorFromPlugin(t *testing.T) {
	for _, tt := range []struct {
		name, in  string
		typ       string
		class     Class
		source    Source
		retryable bool
	}{
		{"type alone", `{:type :input/invalid}`, "input/invalid", ClassStop, SourceRequest, false},
		{"class and source of the row stand", `{:type :input/invalid :class :retry :source :downstream}`, "input/invalid", ClassStop, SourceRequest, false},
		{"row with two sources", `{:type :plan/invalid :source :plugin}`, "plan/invalid", ClassRepair, SourcePlugin, true},
		{"row with two sources, none said", `{:type :plan/invalid}`, "plan/invalid", ClassStop, SourceRequest, false},
		{"row with two classes", `{:type :provider/error :class :switch}`, "provider/error", ClassSwitch, SourceDownstream, true},
		{"class that the row lacks", `{:type :provider/error :class :stop}`, "provider/error", ClassRetry, SourceDownstream, true},
		{"refusals may stop", `{:type :provider/refused :class :stop}`, "provider/refused", ClassStop, SourceDownstream, false},
		{"a plugin is not the host", `{:type :runtime/not-ready}`, "runtime/not-ready", ClassSwitch, SourcePlugin, true},
		{"nor may it say so", `{:type :runtime/overloaded :source :host}`, "runtime/overloaded", ClassSwitch, SourcePlugin, true},
		{"it may blame what it depends on", `{:type :runtime/not-ready :source :downstream}`, "runtime/not-ready", ClassSwitch, SourceDownstream, true},
		{"retryable is free", `{:type :provider/request-failed :retryable? true}`, "provider/request-failed", ClassSwitch, SourceDownstream, true},
		{"own type", `{:type :demo/own}`, "demo/own", ClassSwitch, SourcePlugin, false},
		{"own type with class and source", `{:type :demo/own :class :retry :source :downstream :retryable? true}`, "demo/own", ClassRetry, SourceDownstream, true},
		{"own type cannot be the host's", `{:type :demo/own :source :host}`, "demo/own", ClassSwitch, SourcePlugin, false},
		{"own type cannot have no class", `{:type :demo/own :class :none}`, "demo/own", ClassSwitch, SourcePlugin, false},
		{"reserved and unknown", `{:type :runtime/exploded}`, "runtime/invoke-failed", ClassSwitch, SourcePlugin, true},
		{"names without namespace are reserved", `{:type :boom}`, "runtime/invoke-failed", ClassSwitch, SourcePlugin, true},
		{"alias", `{:type :queue/full}`, "runtime/overloaded", ClassSwitch, SourcePlugin, true},
		{"wrong kinds are ignored", `{:type :demo/own :class "retry" :source 7 :retryable? 1 :message 2 :hint 3 :cause 4}`, "demo/own", ClassSwitch, SourcePlugin, false},
		{"no type", `{:message "x"}`, "runtime/invalid-result", ClassRetry, SourcePlugin, true},
		{"type as string", `{:type "demo/own"}`, "runtime/invalid-result", ClassRetry, SourcePlugin, true},
		{"no map", `"it broke"`, "runtime/invalid-result", ClassRetry, SourcePlugin, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := ErrorFromValue(edn.MustRead(tt.in), SourcePlugin)
			assert.Equal(t, tt.typ, e.Type)
			assert.Equal(t, tt.class, e.Class)
			assert.Equal(t, tt.source, e.Source)
			assert.Equal(t, tt.retryable, e.Retryable)
			assert.NotEmpty(t, e.FullMessage()+e.Type)
		})
	}
}

// ERR-005, ERR-007, ENV-013: the parts of an error of a plugin.
func TestErrorFromPluginParts(t *testing.T) {
	e := ErrorFromValue(edn.MustRead(`{:type :runtime/exploded :message "line one\nline two" :where :model-output :details "text" :hint "retry"
		:cause {:type :demo/inner :cause {:type "bad"}}}`), SourcePlugin)
	assert.Equal(t, "line one line two", e.Message)
	assert.Equal(t, "{:at :model-output}", e.Where.String())
	assert.Equal(t, `{:type :runtime/exploded :value "text"}`, e.Details.String())
	assert.Equal(t, "retry", e.Hint)
	assert.Equal(t, "demo/inner", e.Cause.Type)
	assert.Equal(t, "runtime/invalid-result", e.Cause.Cause.Type)

	e = ErrorFromValue(edn.MustRead(`{:type :input/invalid :where {:node "n" :secret "s" :line 3}}`), SourcePlugin)
	assert.Equal(t, `{:line 3 :node "n"}`, e.Where.String(), "unknown entries of :where are dropped")
	r, _ := Lookup("input/invalid")
	assert.Equal(t, r.Help, e.Message)
	assert.Equal(t, r.Hint, e.Hint)

	deep := edn.MustRead(`{:type :demo/own}`)
	for range 30 {
		deep = edn.MustMap(kType, edn.K("demo/own"), kCause, deep)
	}
	chain := slices.Collect(ErrorFromValue(deep, SourcePlugin).Chain())
	assert.Len(t, chain, 1+maxCauseDepth)
	assert.Nil(t, chain[maxCauseDepth].Cause)
}

// ERR-003: the chain of an error goes from the error to its root cause.
func TestChain(t *testing.T) {
	root := Errorf("demo/root", "root")
	middle := Errorf("demo/middle", "middle").WithCause(root)
	e := Errorf("demo/own", "own").WithCause(middle)
	assert.Equal(t, []*Error{e, middle, root}, slices.Collect(e.Chain()))
	for first := range e.Chain() {
		assert.Same(t, e, first)
		break
	}
	assert.Empty(t, slices.Collect((*Error)(nil).Chain()))
}

// genError draws an error without the parts that are not data.
func genError(t *rapid.T, causes int) *Error {
	types := rapid.SampledFrom([]string{"demo/own", "runtime/crashed", "plan/invalid", "input/invalid", "race/lost", "canceled"})
	e := &Error{
		Type:      types.Draw(t, "type"),
		Message:   oneLine(rapid.StringN(1, 40, 400).Draw(t, "message")),
		Retryable: rapid.Bool().Draw(t, "retryable"),
		Class:     Class(rapid.IntRange(0, int(ClassFinal)).Draw(t, "class")),
		Source:    Source(rapid.IntRange(1, int(SourceDownstream)).Draw(t, "source")),
		Hint:      oneLine(rapid.StringN(0, 40, 400).Draw(t, "hint")),
	}
	if rapid.Bool().Draw(t, "where?") {
		e.Where = edn.MustMap(edn.K("node"), edn.Text(rapid.String().Draw(t, "node")), edn.K("attempt"), edn.Int(2))
	}
	if rapid.Bool().Draw(t, "details?") {
		e.Details = edn.MustMap(edn.K("a"), edn.Vector(edn.Int(rapid.Int64().Draw(t, "detail")), edn.Nil()))
	}
	if causes > 0 && rapid.Bool().Draw(t, "cause?") {
		e.Cause = genError(t, causes-1)
	}
	return e
}

// ERR-003: reading a written error returns the same error, and writing is
// stable.
func TestErrorValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genError(t, 3)
		v := e.Value()
		back := ErrorFromValue(v, SourceHost)
		assert.Equal(t, v.String(), back.Value().String())
		assert.Equal(t, e.Class, back.Class)
		assert.Equal(t, e.Source, back.Source)

		plugin := ErrorFromValue(v, SourcePlugin)
		again := ErrorFromValue(plugin.Value(), SourcePlugin)
		assert.Equal(t, plugin.Value().String(), again.Value().String(), "the rules for plugins are idempotent")
	})
}

// ERR-003: details that JSON cannot represent are shown as EDN text.
func TestJSONOfDetailsThatCollide(t *testing.T) {
	inner := Errorf("demo/own", "x").WithDetails(edn.MustRead(`{:a 1 "a" 2}`))
	for _, e := range []*Error{inner, Errorf("runtime/crashed", "y").WithDetail("n", edn.Int(1)).WithCause(inner)} {
		v, err := edn.ReadJSON(e.JSON())
		require.NoError(t, err)
		assert.Equal(t, e.Type, v.Key("type").String()[1:len(e.Type)+1])
		assert.False(t, v.Key("details").Key("edn").IsNil())
	}
}

func TestErrorWithoutChain(t *testing.T) {
	assert.Nil(t, (&Error{Type: "demo/own"}).Unwrap())
	assert.Len(t, (&Error{Type: "demo/own", Err: io.EOF}).Unwrap(), 1)
	assert.Len(t, (&Error{Type: "demo/own", Cause: Errorf("canceled", "x")}).Unwrap(), 1)
	assert.Equal(t, ":demo/own: it failed and did not say why", (&Error{Type: "demo/own"}).Error())
	assert.Equal(t, "error of type :canceled", OfType("queue/canceled").Error())
	assert.Equal(t, ":runtime/internal", (&Error{Type: "no keyword"}).Value().Key("type").String(), "data never holds a name that cannot be read")
}

// ERR-009: a bad answer of a model does not count against its adapter.
func TestGateSource(t *testing.T) {
	for kind, want := range map[string]Source{"llm": SourceDownstream, "agent": SourceDownstream, "solver": SourcePlugin, "": SourcePlugin} {
		assert.Equal(t, want, GateSource(kind), kind)
	}
}

// VAL-018: the origin of a text determines the type of its syntax error.
func TestSyntaxError(t *testing.T) {
	_, err := edn.Read([]byte("{:nodes [{:input 1\n  :input 2}]}"), edn.WithSource("plan.edn"))
	require.Error(t, err)
	e := SyntaxError("plan/invalid", err)
	assert.Equal(t, "plan/invalid", e.Type)
	assert.Equal(t, "{:column 3 :line 2}", e.Where.String())
	assert.Equal(t, ":duplicate-key", e.Details.Key("code").String())

	e = SyntaxError("invalid-request", err)
	assert.Equal(t, ":edn/invalid", e.Details.Key("reason").String())
	assert.Equal(t, "runtime/protocol", SyntaxError("runtime/protocol", err).Type)
	assert.Equal(t, "runtime/protocol", SyntaxError("runtime/protocol", io.EOF).Type)

	for text, place := range map[string]string{
		"{:a [0 {:b 1 2x 3}]}":        " in [:a 1]",
		"{2x 1}":                      "",
		strings.Repeat("[", 20) + "]": " in [0 0 0 0 0 0 0 0 ...]",
	} {
		_, err = edn.ReadString(text)
		message := SyntaxError("plan/invalid", err).Message
		_, shown, _ := strings.Cut(message, " in ")
		assert.Equal(t, place, strings.TrimSuffix(" in "+shown, " in "), "%s: %s", text, message)
	}

	_, err = edn.Read([]byte(`"`+strings.Repeat("x", 5<<20)+`"`), edn.WithLimits(edn.Body))
	assert.Equal(t, "http/too-large", SyntaxError("invalid-request", err).Type)
}
