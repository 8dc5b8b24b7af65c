// Package conversation stores conversations and runs models and agents in them.
//
// A [Conversation] belongs to one principal. Its content is a path of turns (package
// turns), of which every commit stores a version. [Service] executes the intents of the
// namespace conversation on a [Store]: each execution is one [Call]. [Memory] is a store
// without durability.
//
// The turns of a session are the path of a conversation (session.ConversationOf), which the
// first act in the session creates. Deleting a conversation also deletes the conversations
// that were spawned from it, but not its forks.
//
// Each operation that writes is one call of [Store.Update], whose decision is a pure
// function of the stored state. A commit carries the effect key of its call, so that a call
// that is repeated after a crash finds its own commit.
//
// A message to a model is stored as a draft before the model is called, and becomes a turn
// together with the answer. If the call fails, the draft stays.
//
// Concurrency: a Service and a Store are safe for concurrent use. Write operations on one
// conversation run one after the other, in the order of their arrival; all other operations
// run in parallel.
//
// Errors: all are of type *contract.Error. A conversation of another principal is
// reported as conversation/not-found. A failure of the store is
// conversation/store-failed.
package conversation
