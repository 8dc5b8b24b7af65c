// Package chat is a conversation with a model or an agent on a terminal.
//
// A [Talk] executes lines: messages and commands. Each is one or more calls of the
// intents for conversations, in a daemon or in this process. What happens meanwhile is
// a sequence of [Event] values, which one of two front ends shows: [Run] on a terminal,
// and [Lines] for scripts and for terminals without cursor control.
//
// The state of the terminal is a pure machine: its step takes a key, an event or a
// size, and returns effects that a driver carries out. Text of models is shown while it
// arrives and enters the scrollback when it is accepted.
//
// Concurrency: a Talk executes one line at a time. Failure: a line that fails is a
// [Failed] event, and the conversation is as it was before the line.
package chat
