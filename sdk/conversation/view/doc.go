// Package view derives contexts from other contexts: the last messages of a
// conversation, some of them, or several parts one after the other.
//
//	c := view.Composed("Answer in one sentence.", view.Windowed(sess.Context(), 40, view.KeepSystem()))
//
// A view is a [conversation.Context] like any other and does not change the contexts
// that it is derived from. [Windowed] and [Filtered] choose their messages once, when
// they are called; [Composed] refers to its parts. Views are safe for concurrent use.
package view
