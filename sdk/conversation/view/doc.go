// Package view makes contexts out of contexts: the last messages of a
// conversation, some of them, or several parts one after the other.
//
//	c := view.Composed("Answer in one sentence.", view.Windowed(sess.Context(), 40, view.KeepSystem()))
//
// A view is a [conversation.Context] like any other and does not change what it
// is made of. [Windowed] and [Filtered] choose their messages once, when they are
// made; [Composed] refers to its parts. Views are safe for concurrent readers.
package view
