// Package session keeps a conversation in a store.
//
//	sess, err := session.Open(ctx, store, "c-01")
//	...
//	out, err := sess.Send(ctx, conversation.User("Hello"), agent.Simple(), model)
//
// A [Session] holds the committed messages in memory, so that contexts never
// wait for a store. [Session.Send] and [Session.SendStream] do a whole turn.
// [Session.Begin], [Session.Execute] and [Session.Commit] are its steps, for
// programs that examine the messages of an agent before they commit.
//
// A commit names the version on which it is based. If others committed meanwhile,
// on this host or another one, it fails with a [*ConflictError], and nothing is
// lost: the transaction is still open.
//
// [Store] is the interface to a database; [Memory] implements it. A session has one
// path of messages: the turns, alternatives and drafts of a host are handled by the
// store of the host.
package session
