package sdk_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// within runs f within a call whose input is {:model {:cap/ref :llm/voice}}.
func within(t *testing.T, host *sdktest.Host, f func(ctx context.Context, model sdk.Ref) error) error {
	t.Helper()
	type input struct {
		Model sdk.Ref `edn:"model"`
	}
	p := plugin(sdk.Func("t/within", sdk.Intents("t/within"), func(ctx context.Context, in input) (string, error) {
		return "", f(ctx, in.Model)
	}))
	_, err := sdktest.Serve(t, p, sdktest.WithHost(host)).Do(t.Context(), sdktest.Call{
		Capability: "t/within", Input: edn.MustRead(`{:model {:cap/ref :llm/voice}}`),
		Context: wire.CallContext{Run: "r-1", CallID: "c-1"},
	})
	return err
}

// answered returns the answer of a model with the metadata that the host adds.
func answered(out string) edn.Value {
	return contract.ValueResult(edn.MustRead(out)).
		AssocKey("invoke/meta", edn.MustRead(`{:cap/id :llm/voice :model "served-model" :plugin "openai"}`))
}

// CNV-001, LM-008: a model behind the host reads messages, tools and options in the
// form of req/chat, without what a model must not see, and its message has calls
// and attribution.
func TestModelChats(t *testing.T) {
	host := &sdktest.Host{}
	host.Answer("model/chat", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return answered(`{:text "I look." :finish :tool-calls :tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}}]}`), nil
	})
	warm := 0.5
	var seen sdk.Answer
	err := within(t, host, func(ctx context.Context, model sdk.Ref) error {
		m := sdk.Model{Handle: model.Handle, Fields: edn.MustRead(`{:budget {:max-usd 1} :done {:score-min 0.5}}`),
			OnAnswer: func(a sdk.Answer) { seen = a }}
		said, err := m.Chat(ctx,
			conversation.Of(conversation.System("Be brief."), conversation.User("Read a.go").WithAttribution(conversation.Attribution{Run: "r-0"})),
			conversation.Options{
				Tools:      []conversation.Tool{{Name: "fs/read", Description: "reads", Schema: "[:map [:path :string]]"}, {Name: "t/now"}},
				ToolChoice: "required", MaxTokens: 7, Temperature: &warm,
			})
		if err != nil {
			return err
		}
		assert.Equal(t, `assistant: I look. [call t1: fs/read {:path "a.go"}]`, said.String())
		assert.Equal(t, conversation.Attribution{Capability: "llm/voice", Model: "served-model", Run: "r-1", Finish: "tool-calls"}, said.Attribution())
		return nil
	})
	require.NoError(t, err)
	asked := host.Calls()[0].Request
	assert.Equal(t, `{:cap/id :llm/voice :intent :model/chat}`, asked.Key("task").String())
	assert.Equal(t, `{:max-tokens 7 :max-usd 1 :temperature 0.5}`, asked.Key("budget").String())
	assert.Equal(t, `{:score-min 0.5}`, asked.Key("done").String())
	assert.False(t, asked.HasKey("stream?"))
	assert.Equal(t, `{:messages [{:content "Be brief." :role :system} {:content "Read a.go" :role :user}] :tool-choice :required `+
		`:tools [{:description "reads" :in-schema [:map [:path :string]] :tool/id :fs/read} {:in-schema [:map {:closed true}] :tool/id :t/now}]}`,
		asked.Key("input").String())
	assert.Equal(t, "I look.", text(seen.Out()))
}

// PRM-004: an intent whose schema requires a text gets that of the user beside the messages.
func TestModelOfAnotherIntent(t *testing.T) {
	host := &sdktest.Host{}
	host.Answer("text/respond", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return answered(`{:content "Hi."}`), nil
	})
	err := within(t, host, func(ctx context.Context, _ sdk.Ref) error {
		said, err := sdk.Model{Intent: "text/respond"}.Chat(ctx, conversation.Of(conversation.User("Hello"), conversation.Assistant("Yes?")),
			conversation.Options{})
		if err == nil {
			assert.Equal(t, "Hi.", said.Text())
		}
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, `{:messages [{:content "Hello" :role :user} {:content "Yes?" :role :assistant}] :prompt "Hello"}`,
		host.Calls()[0].Request.Key("input").String())
}

// pieces returns a model that streams pieces and then answers.
func pieces(out string, all ...string) wire.Answerer {
	return func(_ context.Context, _ wire.Call, e *wire.Emitter) (edn.Value, error) {
		for _, piece := range all {
			if err := e.Delta(edn.MustRead(piece)); err != nil {
				return edn.Nil(), err
			}
		}
		return answered(out), nil
	}
}

// CNV-001, CNV-007: a streamed answer is its pieces, retractions included, and then
// the message.
func TestModelStreams(t *testing.T) {
	host := &sdktest.Host{}
	host.Answer("model/chat", pieces(`{:text "ab" :finish :stop}`,
		`{:kind :reasoning :seq 1 :text "hm"}`, `{:kind :text :seq 2 :text "x"}`, `{:kind :retract :seq 3 :reason :eval/must-failed}`,
		`{:kind :note :seq 4 :text "?"}`, `{:kind :text :seq 5 :text "ab"}`))
	err := within(t, host, func(ctx context.Context, _ sdk.Ref) error {
		var got []string
		said, err := conversation.Fold(sdk.Model{}.ChatStream(ctx, conversation.Of(conversation.User("go")), conversation.Options{}),
			func(d conversation.Delta) bool {
				got = append(got, string(d.Kind)+" "+d.Text+d.Message.Text())
				return true
			})
		assert.Equal(t, []string{"reasoning hm", "text x", "retract eval/must-failed", "text ab", "message ab"}, got)
		assert.Len(t, said, 1)
		return err
	})
	require.NoError(t, err)
	assert.True(t, host.Calls()[0].Request.Key("stream?").Truthy())
}

// CNV-007: who leaves the stream cancels the request of the model.
func TestLeavingAModelStreamCancels(t *testing.T) {
	host := &sdktest.Host{}
	canceled := make(chan struct{})
	host.Answer("model/chat", func(ctx context.Context, _ wire.Call, e *wire.Emitter) (edn.Value, error) {
		defer close(canceled)
		for i := int64(1); ; i++ {
			if err := e.Delta(edn.MustMap(edn.K("kind"), edn.K("text"), edn.K("seq"), edn.Int(i), edn.K("text"), edn.Text("x"))); err != nil {
				return edn.Nil(), err
			}
			if ctx.Err() != nil {
				return edn.Nil(), ctx.Err()
			}
		}
	})
	err := within(t, host, func(ctx context.Context, _ sdk.Ref) error {
		n := 0
		for _, err := range (sdk.Model{}).ChatStream(ctx, conversation.Of(conversation.User("go")), conversation.Options{}) {
			if n++; n == 3 || err != nil {
				assert.NoError(t, err)
				break
			}
		}
		<-canceled
		return ctx.Err()
	})
	require.NoError(t, err)
}

// LM-001: errors of the host arrive as they are; what cannot be a message is a typed
// error too.
func TestModelErrors(t *testing.T) {
	reference, bad := conversation.New(conversation.RoleUser, conversation.Reference{Hash: "b3:1", MediaType: "text/plain"})
	require.NoError(t, bad)
	for name, tt := range map[string]struct {
		answer  wire.Answerer
		context conversation.Context
		options conversation.Options
		want    string
	}{
		"of the host": {answer: func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
			return edn.Nil(), contract.Errorf("provider/quota-exhausted", "empty")
		}, want: "provider/quota-exhausted"},
		"no content":      {answer: pieces(`{:text "" :finish :stop}`), want: "runtime/invalid-result"},
		"no message":      {answer: pieces(`{:text "" :finish :stop :tool/calls 7}`), want: "runtime/invalid-result"},
		"reference":       {context: conversation.Of(reference), want: "conversation/invalid-message"},
		"name of a tool":  {options: conversation.Options{Tools: []conversation.Tool{{Name: "no name"}}}, want: ""},
		"schema":          {options: conversation.Options{Tools: []conversation.Tool{{Name: "t/x", Schema: "[:map"}}}, want: ""},
		"choice of tools": {options: conversation.Options{ToolChoice: "no name"}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := &sdktest.Host{}
			host.Answer("model/chat", tt.answer)
			err := within(t, host, func(ctx context.Context, _ sdk.Ref) error {
				c := tt.context
				if c == nil {
					c = conversation.Of(conversation.User("go"))
				}
				_, err := sdk.Model{}.Chat(ctx, c, tt.options)
				_, streamed := conversation.Fold(sdk.Model{}.ChatStream(ctx, c, tt.options), nil)
				if assert.Error(t, err) && assert.Error(t, streamed) {
					assert.Equal(t, err.Error(), streamed.Error())
				}
				return err
			})
			require.Error(t, err)
			if tt.want != "" {
				assert.ErrorIs(t, err, contract.OfType(tt.want))
			}
		})
	}
}

// CNV-013: a reference is a handle or an intent; JSON writes intents as strings.
func TestRef(t *testing.T) {
	for text, want := range map[string]string{
		`{:cap/ref :llm/voice}`:  ":llm/voice",
		`:model/chat`:            ":model/chat",
		`"model/chat"`:           ":model/chat",
		`":model/chat"`:          ":model/chat",
		`:chat`:                  "",
		`"two words/x"`:          "",
		`7`:                      "",
		`{:cap/ref "x"}`:         ":x",
		`{:cap/ref :a/b :c :d}`:  "",
		`{"cap/ref" :llm/voice}`: "",
	} {
		r, err := sdk.RefFrom(edn.MustRead(text))
		if want == "" {
			assert.ErrorIs(t, err, contract.OfType("input/invalid"), text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, r.String(), text)
	}
	type refs struct {
		A, B, C sdk.Ref
	}
	var got refs
	require.NoError(t, edn.Decode(edn.MustRead(`{:a {:cap/ref :llm/voice} :b :model/chat :c nil}`), &got))
	assert.True(t, got.C.IsZero())
	back, err := edn.Encode(got)
	require.NoError(t, err)
	assert.Equal(t, `{:a {:cap/ref :llm/voice} :b :model/chat :c nil}`, back.String())
	assert.Error(t, edn.Decode(edn.MustRead(`{:a 7}`), &got))
}
