// Package conversation has the types of conversations with language models:
// messages, what an agent reads, what it asks, and what it returns.
//
// # Messages
//
// A [Message] is an immutable value with a role and parts. [System], [User],
// [Assistant] and [ToolResult] make messages of one text, [New] any other. There is
// one form for all providers; package contract maps it to EDN.
//
// # Agents
//
// An [Agent] is a function from messages to new messages. It reads a [Context],
// which it cannot change, and asks a [Model]:
//
//	out, err := a.Execute(ctx, conversation.Of(conversation.User("Hello")), model)
//
// There is no separate input: an agent answers the end of its context, be it a
// question or the result of a tool. This is why agents combine: the output of one
// is a part of the context of the next. Package agent has the usual ones, and
// package view makes contexts out of contexts.
//
// Models and agents also stream. A stream is a sequence of [Delta] values: pieces
// to show, and each complete message to keep. [Fold] turns it into messages.
//
// # Transactions
//
// New messages are collected in a [Transaction] until it is known that they are
// good. Package session combines both with a store:
//
//	tx := sess.Begin()
//	defer tx.Close() // reports messages that would be lost
//	tx.Add(conversation.User("Hello"))
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
// Messages and contexts are safe for concurrent use, and so are the agents of
// package agent. A transaction has one owner at a time. The packages start no
// goroutines and need nothing but the standard library.
package conversation
