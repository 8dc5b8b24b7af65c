// Package conversation keeps conversations and runs models and agents in them.
//
// A [Conversation] belongs to one principal. Its content is a path of turns (package
// turns), of which every commit stores a version. [Service] executes the intents of the
// namespace conversation on a [Store]: each is one [Call]. [Memory] is the store without
// durability.
//
// The turns of a session are the path of a conversation (session.ConversationOf), which
// the first act in the session makes. A conversation that was spawned from another one
// goes with it; a fork does not.
//
// Each operation that writes is one call of [Store.Update], whose decision is a pure
// function of what is stored. A commit carries the effect key of its call, so a call
// that is repeated after a crash finds what it has committed.
//
// A message to a model is stored as a draft before the model is asked, and becomes a
// turn together with the answer. If that fails, the draft stays.
//
// Concurrency: a Service and a Store are safe for concurrent use. Operations that write
// to one conversation follow each other; others run in parallel.
//
// Errors: all are of type *contract.Error. A conversation of another principal is
// reported as conversation/not-found. A failure of the store is
// conversation/store-failed.
package conversation
