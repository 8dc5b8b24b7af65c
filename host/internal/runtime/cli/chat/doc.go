// Package chat is a conversation with a model or an agent on a terminal.
//
// A [Talk] executes lines: messages and commands. Each consists of calls of the intents for
// conversations, in a daemon or in this process. Its progress is a sequence of [Event] values,
// which one of two front ends shows: [Run] on a terminal, and [Lines] for scripts and for terminals
// without cursor control.
//
// The state of the terminal is a pure state machine: its step takes a key, an event or a size, and
// returns effects that a driver executes. Text of models is shown while it arrives, and moves to
// the scrollback when it is accepted.
//
// A Talk executes one line at a time. A line that fails is a [Failed] event, and leaves the
// conversation unchanged.
package chat
