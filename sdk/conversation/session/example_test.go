package session_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/session"
)

// A turn in one call. If the agent or the store fails, nothing is committed.
func ExampleSession_Send() {
	ctx := context.Background()
	sess, err := session.Open(ctx, new(session.Memory), "c-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	model := conversationtest.Says("In 1843.")
	out, err := sess.Send(ctx, conversation.User("When?"), agent.Simple(), model)
	fmt.Println(out, err)
	fmt.Println("version", sess.Version(), "with", sess.Context().Len(), "messages")
	// Output:
	// [assistant: In 1843.] <nil>
	// version 1 with 2 messages
}

// The answer is shown while it is written, and committed once it is complete.
func ExampleSession_SendStream() {
	ctx := context.Background()
	sess, err := session.Open(ctx, new(session.Memory), "c-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, tx := sess.SendStream(ctx, conversation.User("When?"), agent.Simple(), conversationtest.Says("In 1843."))
	defer tx.Close() // reports the message of the user if the stream fails
	for d, err := range stream {
		switch {
		case err != nil:
			fmt.Println("failed:", err)
		case d.Kind == conversation.DeltaText:
			fmt.Printf("%q, committed: %d\n", d.Text, sess.Context().Len())
		}
	}
	fmt.Println("committed:", sess.Context().Len())
	// Output:
	// "In 1843", committed: 0
	// ".", committed: 0
	// committed: 2
}

// After a conflict nothing is lost: the messages are still pending. They can be
// committed on the new version, or the agent can read it and answer again.
func ExampleConflictError() {
	ctx := context.Background()
	store := new(session.Memory)
	sess, err := session.Open(ctx, store, "c-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	tx := sess.Begin()
	defer tx.Close()
	tx.Add(conversation.User("from here"))

	other, err := session.Open(ctx, store, "c-01") // as on another host
	if err == nil {
		_, err = other.Send(ctx, conversation.User("from there"), agent.Simple(), conversationtest.Says("yes"))
	}
	fmt.Println(err)

	_, err = sess.Commit(ctx, tx)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) {
		fmt.Printf("based on %d, now %d, pending: %d\n", conflict.Base, conflict.Current, tx.Len())
	}
	if err := sess.Reload(ctx); err != nil {
		fmt.Println(err)
	}
	again := sess.Begin()
	defer again.Close()
	again.Extend(tx.Pending()...)
	tx.Rollback()
	version, err := sess.Commit(ctx, again)
	fmt.Println("version", version, err)
	// Output:
	// <nil>
	// based on 0, now 1, pending: 1
	// version 2 <nil>
}
