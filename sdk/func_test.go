package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

type in struct {
	Name  string   `edn:"name"`
	Times int      `edn:"times,omitempty"`
	Tags  []string `edn:"tags,omitempty"`
}

type out struct {
	Text string `edn:"text"`
	N    int    `edn:"n,omitempty"`
}

// plugin returns a plugin with the given capabilities.
func plugin(capabilities ...sdk.Capability) sdk.Plugin {
	return sdk.Plugin{Name: "test", Version: "1.0.0", Capabilities: capabilities}
}

// SDK-001, VAL-022: inputs are validated against the derived schema before
// decoding; unknown keys are ignored; each problem has its path.
func TestFuncInputs(t *testing.T) {
	p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(_ context.Context, x in) (out, error) {
		return out{Text: fmt.Sprintf("%s %d %v", x.Name, x.Times, x.Tags)}, nil
	})))
	for _, tt := range []struct{ input, want string }{
		{`{:name "a"}`, `{:text "a 0 []"}`},
		{`{:name "a" :times 2 :tags ["x" "y"]}`, `{:text "a 2 [x y]"}`},
		{`{:name "a" :unknown {:deep #{1}} :tags nil}`, `{:text "a 0 []"}`},
		{`{}`, `[[:name]]`},
		{`{:name 7 :times "x" :tags [1]}`, `[[:name] [:tags 0] [:times]]`},
		{`[]`, `[[]]`},
		{`nil`, `[[]]`},
	} {
		t.Run(tt.input, func(t *testing.T) {
			got, err := p.Invoke("t/f", edn.MustRead(tt.input))
			if tt.input == "nil" { // sdktest sends {} for nil
				_, err = p.Do(t.Context(), sdktest.Call{Capability: "t/f", Input: edn.MustRead("7")})
			}
			if err == nil {
				assert.Equal(t, tt.want, got.String())
				return
			}
			require.ErrorIs(t, err, contract.OfType("input/invalid"))
			var paths []edn.Value
			for f := range contract.AsError(err).Details.Key("findings").Elems() {
				paths = append(paths, f.Key("path"))
			}
			assert.Equal(t, tt.want, edn.Vector(paths...).String())
		})
	}
}

// ENV-006: an output that is not a map is wrapped in one.
func TestFuncOutputs(t *testing.T) {
	for name, tt := range map[string]struct {
		capability sdk.Capability
		want       string
	}{
		"struct":      {answering(out{Text: "x"}), `{:text "x"}`},
		"string":      {answering("x"), `{:text "x"}`},
		"number":      {answering(7), `{:value 7}`},
		"nothing":     {answering[any](nil), `{}`},
		"slice":       {answering([]int{1, 2}), `{:value [1 2]}`},
		"map":         {answering(map[string]any{"a": map[string]any{"b": []any{1}}, "not a name": 2}), `{"not a name" 2 :a {:b [1]}}`},
		"typed map":   {answering(map[string]int{"a": 1}), `{:a 1}`},
		"value":       {answering(edn.MustRead(`{:out {:x 1}}`)), `{:out {:x 1}}`},
		"large text":  {answering(out{Text: string(make([]byte, 100_000))}), ""},
		"other value": {answering(edn.MustRead(`#{:a}`)), `{:value #{:a}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := sdktest.Serve(t, plugin(tt.capability)).MustInvoke("t/f", nil)
			if tt.want == "" {
				s, _ := got.Key("text").AsString()
				assert.Len(t, s, 100_000)
				return
			}
			assert.Equal(t, tt.want, got.String())
		})
	}
}

func answering[O any](o O) sdk.Capability {
	return sdk.Func("t/f", sdk.Intents("t/do"), func(context.Context, struct{}) (O, error) { return o, nil })
}

// SDK-002, ERR-005: errors that a function returns.
func TestFuncErrors(t *testing.T) {
	own := contract.Errorf("mine/tired", "not today").WithClass(contract.ClassStop)
	for name, tt := range map[string]struct {
		err  error
		want string
		says string
	}{
		"untyped":       {errors.New("boom"), "runtime/invoke-failed", "t/f: boom"},
		"typed":         {own, "mine/tired", "not today"},
		"wrapped typed": {fmt.Errorf("while resting: %w", own), "mine/tired", "not today"},
		"not permitted": {&fs.PathError{Op: "fork/exec", Path: "/bin/wc", Err: syscall.EPERM}, "runtime/invoke-failed", "operation not permitted"},
		"of a context":  {context.Canceled, "runtime/invoke-failed", "context canceled"},
		"NaN":           {nil, "runtime/invoke-failed", "encode output"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(context.Context, struct{}) (any, error) {
				if tt.err == nil {
					return func() {}, nil // cannot be encoded
				}
				return nil, tt.err
			})))
			_, err := p.Invoke("t/f", nil)
			require.ErrorIs(t, err, contract.OfType(tt.want))
			assert.Contains(t, err.Error(), tt.says)
			// ISO-001: a permission error has a hint about needs and effects.
			assert.Equal(t, errors.Is(tt.err, fs.ErrPermission), strings.Contains(contract.AsError(err).Hint, "declares as its needs"))
		})
	}
}

// SDK-001, LLM-011: the deltas of a stream are numbered; the answer is the
// return value of the function.
func TestStreamFunc(t *testing.T) {
	p := sdktest.Serve(t, plugin(sdk.StreamFunc("t/s", sdk.Intents("t/do"), func(_ context.Context, x in, s *sdk.Stream) (out, error) {
		for _, do := range []func() error{
			func() error { return s.Text("a") },
			func() error { return s.Reasoning("hm") },
			func() error { return s.Delta(edn.MustRead(`{:kind :tool-call :id "1"}`)) },
			func() error { return s.Progress(edn.MustRead(`{:percent 50}`)) },
			func() error { return s.Text("b") },
		} {
			if err := do(); err != nil {
				return out{}, err
			}
		}
		return out{Text: "ab"}, nil
	})))
	var events []string
	response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/s", Input: in{Name: "x"}, OnEvent: func(e wire.Event) {
		events = append(events, e.Kind.String()+" "+e.Value.String())
	}})
	require.NoError(t, err)
	assert.Equal(t, []string{
		`delta {:kind :text :seq 1 :text "a"}`,
		`delta {:kind :reasoning :seq 2 :text "hm"}`,
		`delta {:id "1" :kind :tool-call :seq 3}`,
		`progress {:percent 50}`,
		`delta {:kind :text :seq 4 :text "b"}`,
	}, events)
	assert.Equal(t, `{:text "ab"}`, response.Key("result").Key("out").String())
	assert.True(t, p.Description().Capabilities[0].Streams)
	assert.Contains(t, p.Description().Features, sdk.FeatureStreaming)
}

// SDK-001, ENV-004: a plan with its bindings.
func TestPlanFunc(t *testing.T) {
	p := sdktest.Serve(t, plugin(sdk.PlanFunc("t/p", sdk.Intents("t/do"), func(_ context.Context, x in) (sdk.Plan, error) {
		if x.Times == 1 {
			return sdk.Plan{Plan: edn.MustRead(`{:nodes []}`)}, nil
		}
		return sdk.Plan{Plan: edn.MustRead(`{:nodes []}`), Bindings: edn.MustMap(edn.K("who"), edn.Text(x.Name))}, nil
	})))
	for times, want := range map[int]string{
		0: `{:bindings {:who "x"} :plan {:nodes []} :type :plan :usage {:mode :live}}`,
		1: `{:plan {:nodes []} :type :plan :usage {:mode :live}}`,
	} {
		response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/p", Input: in{Name: "x", Times: times}})
		require.NoError(t, err)
		assert.Equal(t, want, response.Key("result").String())
	}
	assert.Equal(t, []string{"plan"}, p.Description().Capabilities[0].CanProduce)
}

// SDK-001: Raw reads and writes envelopes.
func TestRaw(t *testing.T) {
	p := sdktest.Serve(t, plugin(sdk.Raw("t/r", sdk.Intents("t/do"), func(_ context.Context, request edn.Value, _ *sdk.Stream) (edn.Value, error) {
		return edn.MustMap(edn.K("error"), edn.MustMap(edn.K("type"), edn.K("mine/x"), edn.K("details"), request.Key("task"))), nil
	}, sdk.Produces("value", "plan"), sdk.Streams())))
	response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/r"})
	require.NoError(t, err)
	assert.Equal(t, `{:error {:details {:cap/id :t/r :intent :t/do} :type :mine/x}}`, response.String())
}

// ENV-010, ENV-011, SCH-005, SCH-015: what a capability advertises.
func TestMetadata(t *testing.T) {
	nothing := func(context.Context, in) (out, error) { return out{}, nil }
	p := sdktest.Serve(t, plugin(
		sdk.Func("t/derived", sdk.Intents("t/one"), nothing),
		sdk.Func("t/two", sdk.Intents(":t/one", "t/two"), nothing, sdk.Out("res/text"), sdk.InFor("t/two", "req/text")),
		sdk.Func("t/any", sdk.Intents(), nothing),
		sdk.Func("t/full", sdk.Intents("t/one"), nothing,
			sdk.Kind("solver"), sdk.In("req/text"), sdk.Out("res/text"), sdk.OutFor("t/one", "res/any"), sdk.Effects("fs/read", "db/read"), sdk.Tags("b", "a"),
			sdk.Cost(contract.Cost{USD: edn.MustDecimal("0.5")}), sdk.Limits(contract.Limits{MaxTokens: 9}), sdk.MaxInFlight(3), sdk.Timeout(2*time.Second),
			sdk.Deterministic(), sdk.Idempotent(), sdk.Repairs(), sdk.Description("does it"),
			sdk.Metadata(func(c *contract.Capability) { c.Version, c.Role = "9", "planner" })),
	))
	var got []string
	for _, c := range p.Description().Capabilities {
		got = append(got, c.Value().String())
	}
	assert.Equal(t, []string{
		`{:cap/id :t/derived :cap/intents #{:t/one} :cap/kind :tool :io/in-schema :req/t.one :io/out-schema :res/t.one}`,
		`{:cap/id :t/two :cap/intents #{:t/one :t/two} :cap/kind :tool :io/in-schema {:t/one :req/t.one :t/two :req/text} :io/out-schema :res/text}`,
		`{:cap/id :t/any :cap/intents #{} :cap/kind :tool :io/in-schema :req/any :io/out-schema :res/any}`,
		`{:cap/cost {:usd 0.5M} :cap/description "does it" :cap/deterministic? true :cap/effects #{:db/read :fs/read} :cap/id :t/full :cap/idempotent? true :cap/intents #{:t/one} :cap/kind :solver :cap/limits {:max-in-flight 3 :max-tokens 9 :timeout-ms 2000} :cap/repairs? true :cap/role :planner :cap/tags #{:a :b} :cap/version "9" :io/in-schema :req/text :io/out-schema :res/any}`,
	}, got)
	assert.Equal(t, `[:map [:name :string] [:times {:optional true} :int] [:tags {:optional true} [:maybe [:sequential :string]]]]`, p.Description().Schemas["req/t.one"].String())
	assert.Equal(t, `[:map [:text :string] [:n {:optional true} :int]]`, p.Description().Schemas["res/t.one"].String())
}

// LM-003, ENV-004: usage and metadata that a function reports are in the
// answer.
func TestUsageAndMeta(t *testing.T) {
	p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(ctx context.Context, _ struct{}) (string, error) {
		sdk.ReportUsage(ctx, edn.MustRead(`{:tokens-in 3 :tokens-out 1}`))
		sdk.ReportUsage(ctx, edn.MustRead(`{:tokens-out 2 :cost-usd 0.01M}`))
		sdk.ReportMeta(ctx, edn.MustRead(`{:model "m" :finish :stop}`))
		return "x", nil
	}, sdk.Deterministic())))
	response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/f"})
	require.NoError(t, err)
	assert.Equal(t, `{:invoke/meta {:finish :stop :model "m"} :result {:out {:text "x"} :type :value :usage {:cost-usd 0.01M :mode :deterministic :tokens-in 3 :tokens-out 2}}}`, response.String())

	sdk.ReportUsage(t.Context(), edn.MustMap()) // outside of a call: no effect
	assert.Empty(t, sdk.CallFrom(t.Context()).Capability)
	assert.NotNil(t, sdk.Logger(t.Context()))
	assert.Empty(t, sdk.Root(t.Context()))
}

// ATT-013: an error carries the usage that the function reported before it
// failed.
func TestUsageOfFailures(t *testing.T) {
	entered := make(chan struct{}, 1)
	p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(ctx context.Context, x in) (string, error) {
		sdk.ReportUsage(ctx, edn.MustRead(`{:tokens-in 3}`))
		if x.Name == "wait" {
			entered <- struct{}{}
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "", contract.Errorf("t/no", "no")
	})))
	response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/f", Input: edn.MustRead(`{:name "fail"}`)})
	require.NoError(t, err)
	assert.Equal(t, "3", response.Key("result").Key("usage").Key("tokens-in").String())
	_, failed := contract.CheckResponse(response, contract.ResultRules{})
	require.ErrorIs(t, failed, contract.OfType("t/no"))

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err = p.Do(ctx, sdktest.Call{Capability: "t/f", Input: edn.MustRead(`{:name "wait"}`)})
	require.ErrorIs(t, err, contract.OfType("canceled"))
}

// WIRE-003: the same function answers a caller that sends JSON.
func TestJSONCaller(t *testing.T) {
	type typed struct {
		When time.Time         `edn:"when"`
		Set  map[string]bool   `edn:"set"`
		Any  map[string]string `edn:"any,omitempty"`
	}
	p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(_ context.Context, x typed) (typed, error) { return x, nil })))
	p.Client().UseEncoding(wire.JSON)
	got, err := p.Do(t.Context(), sdktest.Call{Capability: "t/f", Input: edn.MustRead(`{:when #inst "2026-11-20T10:00:00.000Z" :set #{"a"} :any {"k" "v"}}`)})
	require.NoError(t, err)
	assert.Equal(t, `:value`, got.Key("result").Key("type").String())
	assert.Equal(t, `"2026-11-20T10:00:00.000Z"`, got.Key("result").Key("out").Key("when").String())
	_, err = p.Do(t.Context(), sdktest.Call{Capability: "t/f", Input: map[string]any{}})
	require.ErrorIs(t, err, contract.OfType("input/invalid"))
}

// WIRE-004, SDK-001: a function can read the context of its call.
func TestCallFrom(t *testing.T) {
	seen := make(chan sdk.Call, 1)
	p := sdktest.Serve(t, plugin(sdk.Func("t/f", sdk.Intents("t/do"), func(ctx context.Context, _ struct{}) (string, error) {
		seen <- sdk.CallFrom(ctx)
		_, ok := ctx.Deadline()
		if !ok {
			return "", errors.New("no deadline")
		}
		return sdk.Root(ctx), nil
	})))
	call := wire.CallContext{Run: "r", Node: "n", Path: edn.MustRead("[0 1]"), Attempt: 2, Budget: edn.MustRead("{:max-tokens 3}"),
		Effects: []string{"none"}, EffectKey: "k", Stack: []string{"a/b"}, CallID: "c"}
	response, err := p.Do(t.Context(), sdktest.Call{Capability: "t/f", Context: call})
	require.NoError(t, err)
	assert.Equal(t, p.Root(), text(response.Key("result").Key("out")))
	got := <-seen
	assert.Equal(t, "t/do", got.Intent)
	assert.Equal(t, "t/f", got.Capability)
	assert.Equal(t, "r", got.Run)
	assert.Equal(t, 2, got.Attempt)
	assert.Equal(t, "{:max-tokens 3}", got.Budget.String())
	assert.Equal(t, ":t/f", got.Request.Key("task").Key("cap/id").String())
}

// A request can omit the capability if exactly one serves the intent.
func TestChoosingTheCapability(t *testing.T) {
	say := func(word string) func(context.Context, struct{}) (string, error) {
		return func(context.Context, struct{}) (string, error) { return word, nil }
	}
	p := sdktest.Serve(t, plugin(
		sdk.Func("t/a", sdk.Intents("t/one"), say("a")),
		sdk.Func("t/b", sdk.Intents("t/two"), say("b")),
		sdk.Func("t/c", sdk.Intents("t/two"), say("c")),
	))
	request := func(task string) edn.Value {
		return edn.MustMap(edn.K("proto"), edn.Int(1), edn.K("task"), edn.MustRead(task), edn.K("input"), edn.MustMap())
	}
	for task, want := range map[string]string{
		`{:intent :t/one}`:                 "a",
		`{:intent :t/two :cap/id :t/c}`:    "c",
		`{:intent :t/two}`:                 ":runtime/protocol",
		`{:intent :t/three}`:               ":unsupported/intent",
		`{:intent :t/one :cap/id :t/none}`: ":cap/not-found",
		`{}`:                               ":unsupported/intent",
	} {
		response, err := p.Client().Invoke(t.Context(), wire.CallContext{}, request(task), nil)
		if err != nil {
			assert.Equal(t, want, ":"+contract.AsError(err).Type, task)
			continue
		}
		assert.Equal(t, want, text(response.Key("result").Key("out")), task)
	}
}
