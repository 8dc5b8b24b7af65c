package conversation_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// Step 1: messages are values that are made and read, and never changed.
func Example_step1Messages() {
	m := conversation.User("Who wrote it?")
	fmt.Println(m.Role(), "says", m.Text())
	fmt.Println(m.Equal(conversation.User("Who wrote it?")))
	// Output:
	// user says Who wrote it?
	// true
}

// Step 2: an agent reads a context, asks a model, and returns new messages. The model of
// this and the next steps is one for tests, which says these sentences in turn.
func Example_step2Ask() {
	ctx := context.Background()
	model := conversationtest.Says("Ada Lovelace did.")
	c := conversation.Of(conversation.System("Answer in one sentence."), conversation.User("Who wrote it?"))
	out, err := agent.Simple().Execute(ctx, c, model)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[0])
	fmt.Println("the context still has", c.Len(), "messages")
	// Output:
	// assistant: Ada Lovelace did.
	// the context still has 2 messages
}

// Step 3: the same answer, shown while it arrives. What is kept are the messages.
func Example_step3Show() {
	ctx := context.Background()
	model := conversationtest.Says("Ada Lovelace did.")
	c := conversation.Of(conversation.User("Who wrote it?"))
	out, err := conversation.Fold(agent.Simple().ExecuteStream(ctx, c, model), func(d conversation.Delta) bool {
		if d.Kind == conversation.DeltaText {
			fmt.Printf("%q ", d.Text)
		}
		return true
	})
	fmt.Println(len(out), err)
	// Output:
	// "Ada Lov" "elace d" "id." 1 <nil>
}

// Step 4: a session remembers, so that the second question can refer to the first. Each
// Send commits a question with its answer.
func Example_step4Remember() {
	ctx := context.Background()
	model := conversationtest.Says("Ada Lovelace did.", "In 1843.")
	sess, err := session.Open(ctx, new(session.Memory), "c-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, question := range []string{"Who wrote it?", "When?"} {
		if _, err := sess.Send(ctx, conversation.User(question), agent.Simple(), model); err != nil {
			fmt.Println(err)
			return
		}
	}
	for m := range sess.Context().All() {
		fmt.Println(m)
	}
	// Output:
	// user: Who wrote it?
	// assistant: Ada Lovelace did.
	// user: When?
	// assistant: In 1843.
}

// Step 5, with a transaction: a turn whose answer the program reads before it keeps it. An
// answer that is not good leaves the conversation as it was.
func Example_step5Decide() {
	ctx := context.Background()
	model := conversationtest.Says("I think it was a mathematician.")
	sess, err := session.Open(ctx, new(session.Memory), "c-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	turn := func(text string, good func(answer string) bool) error {
		tx := sess.Begin()
		defer tx.Close() // reports messages that would be lost
		tx.Add(conversation.User(text))
		out, err := agent.Simple().Execute(ctx, sess.With(tx), model) // reads what is committed and pending
		if err != nil {
			return err
		}
		if !good(out[0].Text()) {
			tx.Rollback()
			return nil
		}
		tx.Extend(out...)
		_, err = sess.Commit(ctx, tx)
		return err
	}
	err = turn("Who wrote it?", func(answer string) bool { return strings.Contains(answer, "Ada") })
	fmt.Println(sess.Context().Len(), "messages,", err)
	err = turn("Who do you think wrote it?", func(answer string) bool { return answer != "" })
	fmt.Println(sess.Context().Len(), "messages,", err)
	// Output:
	// 0 messages, <nil>
	// 2 messages, <nil>
}

// An agent is a function from a context to new messages. This one answers without
// a model, and its Execute is its stream, folded.
func ExampleAgent() {
	out, err := echo{}.Execute(context.Background(), conversation.Of(conversation.User("quiet")), nil)
	fmt.Println(out, err)
	// Output:
	// [assistant: QUIET] <nil>
}

type echo struct{}

// Execute implements conversation.Agent.
func (e echo) Execute(
	ctx context.Context, c conversation.Context, m conversation.Model,
) ([]conversation.Message, error) {
	return conversation.Fold(e.ExecuteStream(ctx, c, m), nil)
}

// ExecuteStream implements conversation.Agent.
func (echo) ExecuteStream(_ context.Context, c conversation.Context, _ conversation.Model) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		var last conversation.Message
		for m := range c.All() {
			last = m
		}
		said := conversation.Assistant(strings.ToUpper(last.Text()))
		yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: said}, nil)
	}
}

// What an agent reads is put together from views.
func ExampleContext() {
	history := conversation.Of(
		conversation.User("Who wrote it?"), conversation.Assistant("Ada did."),
		conversation.User("When?"), conversation.Assistant("In 1843."), conversation.User("Why?"),
	)
	c := view.Composed("Answer in one word.", view.Windowed(history, 3))
	fmt.Println(c.Len(), "messages")
	for m := range c.All() {
		fmt.Println(m)
	}
	// Output:
	// 4 messages
	// system: Answer in one word.
	// user: When?
	// assistant: In 1843.
	// user: Why?
}

// A stream has pieces to show and whole messages to keep.
func ExampleFold() {
	model := conversationtest.Says("One word after the other.")
	stream := agent.Simple().ExecuteStream(context.Background(), conversation.Of(conversation.User("Hi")), model)
	messages, err := conversation.Fold(stream, func(d conversation.Delta) bool {
		fmt.Printf("%s %q\n", d.Kind, d.Text)
		return true
	})
	fmt.Println(messages, err)
	// Output:
	// text "One wor"
	// text "d after"
	// text " the ot"
	// text "her."
	// message ""
	// [assistant: One word after the other.] <nil>
}

// Messages that are more than a text are made of parts. Invalid ones are not made.
func ExampleNew() {
	call := conversation.Call{ID: "t1", Tool: "fs/read", Args: `{:path "a.go"}`}
	m, err := conversation.New(conversation.RoleAssistant, conversation.Text{Text: "Let me look."}, call)
	fmt.Println(m, err)
	_, err = conversation.New(conversation.RoleUser, call)
	fmt.Println(err)
	// Output:
	// assistant: Let me look. [call t1: fs/read {:path "a.go"}] <nil>
	// conversation: message: part 0: a Call belongs in an assistant message
}

// Close reports what would be lost, here because the function returns early.
func ExampleTransaction_Close() {
	tx := conversation.Begin(func(e *conversation.LostError) {
		fmt.Println(e.Messages, "messages lost")
	})
	defer tx.Close()
	tx.Extend(conversation.User("Hi"), conversation.Assistant("Hello"))
	// Output:
	// 2 messages lost
}
