package agent_test

import (
	"context"
	"fmt"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
)

// The model asks for the time, the agent runs the tool, the model answers with it.
func ExampleTool() {
	var model conversationtest.Model = func(
		c conversation.Context, o conversation.Options,
	) (conversation.Message, error) {
		for m := range c.All() {
			if _, isResult := m.Result(); isResult {
				return conversation.Assistant("It is " + m.Text() + "."), nil
			}
		}
		return conversation.New(conversation.RoleAssistant, conversation.Call{ID: "t1", Tool: o.Tools[0].Name, Args: "{}"})
	}
	teller, err := agent.Tool([]agent.Function{{
		Tool: conversation.Tool{Name: "clock", Description: "Returns the time of day."},
		Run:  func(context.Context, string) (string, error) { return "noon", nil },
	}}, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := teller.Execute(context.Background(), conversation.Of(conversation.User("What time is it?")), model)
	for _, m := range out {
		fmt.Println(m)
	}
	fmt.Println(err)
	// Output:
	// assistant: [call t1: clock {}]
	// tool: [result of t1] noon
	// assistant: It is noon.
	// <nil>
}

// The second stage reads what the first one wrote.
func ExamplePipeline() {
	model := conversationtest.Says("a draft", "the draft, corrected")
	write := agent.Pipeline(agent.Simple(), agent.Simple())
	out, err := write.Execute(context.Background(), conversation.Of(conversation.User("Write a letter.")), model)
	fmt.Println(out, err)
	// Output:
	// [assistant: a draft assistant: the draft, corrected] <nil>
}
