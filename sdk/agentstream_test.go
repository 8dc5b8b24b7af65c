package sdk_test

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// streamed is one message of an agent: the pieces before it, where "\x00" withdraws
// those before it, and its text, empty for the result of a tool.
type streamed struct {
	pieces []string
	whole  string
}

// player is an agent that streams given messages.
type player []streamed

// Execute implements conversation.Agent.
func (p player) Execute(ctx context.Context, c conversation.Context, m conversation.Model) ([]conversation.Message, error) {
	return conversation.Fold(p.ExecuteStream(ctx, c, m), nil)
}

// ExecuteStream implements conversation.Agent.
func (p player) ExecuteStream(context.Context, conversation.Context, conversation.Model) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		for _, s := range p {
			for _, piece := range s.pieces {
				d := conversation.Delta{Kind: conversation.DeltaText, Text: piece}
				if piece == "\x00" {
					d = conversation.Delta{Kind: conversation.DeltaRetract, Text: "eval/must-failed"}
				}
				if !yield(d, nil) {
					return
				}
			}
			m := conversation.Assistant(s.whole)
			if s.whole == "" {
				m = conversation.ToolResult("1", "a result")
			}
			if !yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: m}, nil) {
				return
			}
		}
	}
}

// foldAgent runs an agent that streams the messages. It returns what a reader of
// its text has in the end, and the text of its answer.
func foldAgent(messages []streamed) (shown, whole string, err error) {
	p := plugin(sdk.AgentFunc("t/player", func(context.Context, *sdk.AgentRun) (conversation.Agent, error) {
		return player(messages), nil
	}))
	ctx := context.Background()
	instance, err := conformance.InProcess(p).Start(ctx)
	if err != nil {
		return "", "", err
	}
	defer instance.Stop()
	if _, err := instance.Client().Configure(ctx, wire.Setup{Config: edn.MustMap()}, nil); err != nil {
		return "", "", err
	}
	var b strings.Builder
	response, err := instance.Client().Invoke(ctx, wire.CallContext{},
		edn.MustRead(`{:proto 1 :task {:cap/id :t/player :intent :agent/run} :input {:messages [{:role :user :content "x"}]}}`),
		func(e wire.Event) {
			switch kind, _ := e.Value.Key("kind").AsKeyword(); kind {
			case "text":
				b.WriteString(text(e.Value))
			case "retract":
				b.Reset()
			}
		})
	return b.String(), text(response.Key("result").Key("out")), err
}
