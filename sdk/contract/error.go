package contract

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of an error as data. A longer message is cut, deeper causes are
// dropped.
const (
	MaxMessage    = 500 // code points of a message or a hint
	maxCauseDepth = 8   // causes behind one error
)

// Error is a failure at any boundary. Only Type is required. The With methods
// return copies, so an Error that is shared is never modified.
type Error struct {
	// Type is a name of the catalogue, or of a plugin's own namespace, without
	// a colon.
	Type string
	// Message is one sentence: what failed, on what, and why.
	Message string
	// Retryable reports whether sending the same request again can succeed. The
	// evaluator ignores it.
	Retryable bool
	// Class determines what the evaluator does next.
	Class Class
	// Source is the party that caused the failure.
	Source Source
	// Where is a map with some of :at :run :path :node :cap/id :attempt :line
	// :column.
	Where edn.Value
	// Details is a map with the data that a program needs to handle the
	// failure.
	Details edn.Value
	// Hint is the next step for the reader of the error.
	Hint string
	// Cause is the error that caused this one, or nil.
	Cause *Error

	// Op and Object are the operation and its object. They precede the message.
	Op, Object string
	// Err is the wrapped Go error, or nil. It is not part of the data of the
	// error.
	Err error
}

// Errorf returns an error of the type, with class, source, retryability and
// hint from the catalogue. A wrapped error (%w) becomes Err, and also Cause if
// it is an [*Error]. A type outside the catalogue is treated as a type of a
// plugin.
func Errorf(typ, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	r := rowOf(ResolveAlias(typ))
	e := &Error{
		Type:      r.Type,
		Message:   oneLine(err.Error()),
		Retryable: r.Retryable,
		Class:     r.Class,
		Source:    r.Source,
		Hint:      r.Hint,
	}
	switch wrapped := err.(type) {
	case interface{ Unwrap() error }:
		e.Err = wrapped.Unwrap()
	case interface{ Unwrap() []error }:
		e.Err = errors.Join(wrapped.Unwrap()...)
	}
	var cause *Error
	if errors.As(e.Err, &cause) && cause != nil {
		e = e.WithCause(cause)
	}
	return e
}

// AsError returns err as an [*Error]: the first one in its chain, else canceled
// or timeout/hard for the errors of a context, else runtime/internal. For nil
// it returns nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return Errorf("canceled", "%w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf("timeout/hard", "%w", err)
	}
	return Errorf("runtime/internal", "%w", err)
}

// Error returns type, message, position and cause in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteByte(':')
	b.WriteString(e.Type)
	b.WriteString(": ")
	b.WriteString(e.FullMessage())
	if line, column := e.position(); line > 0 {
		fmt.Fprintf(&b, " at %d:%d", line, column)
	}
	if e.Cause != nil && !strings.Contains(e.Message, e.Cause.Message) {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// FullMessage returns operation, object and message. Without a message it uses
// the help of the catalogue.
func (e *Error) FullMessage() string {
	message := e.Message
	if message == "" {
		message = rowOf(e.Type).Help
	}
	if message == "" {
		message = "it failed and did not say why"
	}
	lead := strings.TrimSpace(e.Op + " " + e.Object)
	if lead == "" {
		return oneLine(message)
	}
	return oneLine(lead + ": " + message)
}

// Unwrap returns the Go error and the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	switch {
	case e.Err != nil && e.Cause != nil:
		return []error{e.Err, e.Cause}
	case e.Err != nil:
		return []error{e.Err}
	case e.Cause != nil:
		return []error{e.Cause}
	}
	return nil
}

// Is reports whether target is an [OfType] of the type of e.
func (e *Error) Is(target error) bool {
	t, ok := target.(ofType)
	return ok && string(t) == e.Type
}

type ofType string

func (t ofType) Error() string { return "error of type :" + string(t) }

// OfType returns a target for errors.Is that matches every [*Error] of the type
// (or of the type of the alias), including a wrapped one and a cause.
func OfType(typ string) error { return ofType(ResolveAlias(typ)) }

// HTTPStatus returns the status of an HTTP response with e, 0 for a type that
// never occurs in a response.
func (e *Error) HTTPStatus() int { return rowOf(e.Type).For(e.Source).HTTP }

func (e *Error) with(change func(*Error)) *Error {
	c := *e
	change(&c)
	return &c
}

// WithSource returns a copy with the source. Class and retryability change to
// the values of the type for the new source if they still have the values for
// the old one.
func (e *Error) WithSource(s Source) *Error {
	return e.with(func(c *Error) {
		r := rowOf(e.Type)
		before, after := r.For(e.Source), r.For(s)
		if c.Class == before.Class {
			c.Class = after.Class
		}
		if c.Retryable == before.Retryable {
			c.Retryable = after.Retryable
		}
		c.Source = s
	})
}

// WithClass returns a copy with the class.
func (e *Error) WithClass(class Class) *Error { return e.with(func(c *Error) { c.Class = class }) }

// WithRetryable returns a copy with the flag Retryable.
func (e *Error) WithRetryable(retryable bool) *Error {
	return e.with(func(c *Error) { c.Retryable = retryable })
}

// WithDetails returns a copy with the map as its details.
func (e *Error) WithDetails(details edn.Value) *Error {
	return e.with(func(c *Error) { c.Details = details })
}

// WithDetail returns a copy with one more detail. key is a keyword without a
// colon.
func (e *Error) WithDetail(key string, v edn.Value) *Error {
	return e.with(func(c *Error) { c.Details = put(c.Details, key, v) })
}

// WithWhere returns a copy with one more entry of :where.
func (e *Error) WithWhere(key string, v edn.Value) *Error {
	return e.with(func(c *Error) { c.Where = put(c.Where, key, v) })
}

// WithCause returns a copy with the cause. If the row of the type has AsCause,
// the copy also takes the source of the cause.
func (e *Error) WithCause(cause *Error) *Error {
	return e.with(func(c *Error) {
		c.Cause = cause
		if cause != nil && cause.Source != 0 && rowOf(e.Type).AsCause {
			c.Source = cause.Source
		}
	})
}

// Chain yields e, then its cause, the cause of the cause, and so on. It yields
// nothing if e is nil.
func (e *Error) Chain() iter.Seq[*Error] {
	return func(yield func(*Error) bool) {
		for ; e != nil; e = e.Cause {
			if !yield(e) {
				return
			}
		}
	}
}

// WithHint returns a copy with the hint.
func (e *Error) WithHint(hint string) *Error { return e.with(func(c *Error) { c.Hint = hint }) }

// DidYouMean returns a copy whose hint suggests name, or e itself if name is
// empty. A keyword needs its colon.
func (e *Error) DidYouMean(name string) *Error {
	if strings.TrimPrefix(name, ":") == "" {
		return e
	}
	return e.WithHint("did you mean " + name + "?")
}

// WithOp returns a copy with the operation and its object.
func (e *Error) WithOp(op, object string) *Error {
	return e.with(func(c *Error) { c.Op, c.Object = op, object })
}

// put returns m with one more entry. A value that is not a map is replaced.
func put(m edn.Value, key string, v edn.Value) edn.Value {
	if m.Kind() != edn.KindMap {
		m = edn.MustMap()
	}
	return m.AssocKey(key, v)
}

// oneLine makes text fit on one log line: valid UTF-8, no control characters,
// at most MaxMessage code points.
func oneLine(text string) string {
	if len(text) <= MaxMessage && !strings.ContainsFunc(text, unfit) {
		return text
	}
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == MaxMessage-1 && utf8.RuneCountInString(text) > MaxMessage {
			b.WriteRune('…')
			break
		}
		if unfit(r) && r != utf8.RuneError {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

func unfit(r rune) bool {
	return unicode.IsControl(r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
}
