// Package conversationtest tests implementations of [conversation.Context] and
// [conversation.Agent], and has a model without a network for tests.
package conversationtest
