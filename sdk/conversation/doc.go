// Package conversation has the types of conversations with language models: messages,
// the contexts that models and agents read, their streamed answers, and transactions.
//
// A program for a model has four things to do: it writes a message, it asks a model,
// it shows the answer, and it remembers both for the next question. The sections below
// take one after the other; the examples Step1Messages to Step5Decide are the same steps
// as programs that run.
//
// # 1. Say something: messages
//
// A [Message] is an immutable value: a role and parts. Most messages are one text:
//
//	conversation.System("Answer in one sentence.") // instructions
//	conversation.User("Who wrote it?")
//	conversation.Assistant("Ada Lovelace did.")
//
// [New] makes the others, of several parts: images, the [Call] of a tool, and its
// [Result]. The form is the same for all providers.
//
// # 2. Ask: contexts, models and agents
//
// A model or an agent reads a [Context]: the messages at one moment, which it cannot
// change. [Of] returns a context with given messages. A [Model] answers a context with one
// message; an [Agent] answers it with one or more and asks a model as often as it needs to:
//
//	c := conversation.Of(conversation.User("Who wrote it?"))
//	out, err := agent.Simple().Execute(ctx, c, model)
//
// An agent has no other input: it answers the end of its context, be it a question or the
// result of a tool. This is why agents combine. Package agent has the usual ones: Simple
// asks the model once, Tool lets it use tools, Pipeline runs agents one after the other.
// Package view makes contexts out of contexts, such as the last 40 messages.
//
// In a plugin the model is an sdk.Model: a language model that the host chooses, checks
// and pays for. sdk.AgentFunc makes a capability from an agent. In tests it is the model of
// package conversationtest, whose answers the test defines.
//
// # 3. Show: streams
//
// Models and agents also answer in parts. A [Stream] is a sequence of [Delta] values:
// pieces to show as they come, and each complete message to keep. [Fold] returns its
// messages and passes each delta to a function:
//
//	stream := agent.Simple().ExecuteStream(ctx, c, model)
//	out, err := conversation.Fold(stream, func(d conversation.Delta) bool {
//		fmt.Print(d.Text)
//		return true // false cancels the answer
//	})
//
// # 4. Remember: sessions and transactions
//
// Package session keeps a conversation in a store. One call is a whole turn: the question
// and the answer are committed together, or neither is.
//
//	sess, err := session.Open(ctx, store, "c-01")
//	out, err := sess.Send(ctx, conversation.User("Who wrote it?"), agent.Simple(), model)
//
// A program that examines the answer before it stores it uses a [Transaction], which
// collects messages until the program commits them or rolls them back:
//
//	tx := sess.Begin()
//	defer tx.Close() // reports messages that would be lost
//	tx.Add(conversation.User("Who wrote it?"))
//	out, err := a.Execute(ctx, sess.With(tx), model) // reads committed and pending messages
//	if err != nil {
//		return err
//	}
//	tx.Extend(out...)
//	_, err = sess.Commit(ctx, tx) // or tx.Rollback()
//
// The vet tool in package txclose finds transactions that some path leaves open.
//
// # Concurrency and failure
//
// Messages and contexts are safe for concurrent use, and so are the agents of package
// agent. A transaction has one owner at a time. An agent that fails returns the messages
// that were complete before. The packages start no goroutines and need nothing but the
// standard library.
package conversation
