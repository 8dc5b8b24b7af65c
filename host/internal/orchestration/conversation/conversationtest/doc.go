// Package conversationtest tests implementations of conversation.Store: the same suite
// runs on each of them. Its model of conversations is plain lists.
package conversationtest
