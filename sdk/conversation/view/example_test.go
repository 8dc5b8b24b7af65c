package view_test

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

func ExampleWindowed() {
	call, err := conversation.New(conversation.RoleAssistant, conversation.Call{ID: "t1", Tool: "clock", Args: "{}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := conversation.Of(
		conversation.System("Be brief."), conversation.User("What time is it?"),
		call, conversation.ToolResult("t1", "noon"), conversation.Assistant("Noon."), conversation.User("Thanks"),
	)
	for _, n := range []int{4, 3} { // the third message from the end is a result, which needs its call
		fmt.Println("last", n)
		for m := range view.Windowed(c, n, view.KeepSystem()).All() {
			fmt.Println(" ", m)
		}
	}
	// Output:
	// last 4
	//   system: Be brief.
	//   assistant: [call t1: clock {}]
	//   tool: [result of t1] noon
	//   assistant: Noon.
	//   user: Thanks
	// last 3
	//   system: Be brief.
	//   assistant: Noon.
	//   user: Thanks
}

func ExampleTokens() {
	words := func(m conversation.Message) int { return len(strings.Fields(m.Text())) }
	c := conversation.Of(conversation.User("one two three"), conversation.Assistant("four five"), conversation.User("six"))
	for m := range view.Windowed(c, 40, view.Tokens(4, words)).All() {
		fmt.Println(m)
	}
	// Output:
	// assistant: four five
	// user: six
}

func ExampleFiltered() {
	c := conversation.Of(conversation.User("a question"), conversation.Assistant("an answer"), conversation.User("another"))
	asked := view.Filtered(c, func(m conversation.Message) bool { return m.Role() == conversation.RoleUser })
	for m := range view.Composed("Which of these is the most urgent?", asked).All() {
		fmt.Println(m)
	}
	// Output:
	// system: Which of these is the most urgent?
	// user: a question
	// user: another
}
