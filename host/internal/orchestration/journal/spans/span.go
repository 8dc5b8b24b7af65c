package spans

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Context identifies a span and its trace.
type Context struct {
	Trace [16]byte
	Span  [8]byte
}

// traceParentLength is the length of a traceparent of W3C Trace Context.
const traceParentLength = 55

// TraceParent returns the context as a traceparent header of W3C Trace Context.
func (c Context) TraceParent(sampled bool) string {
	var room [traceParentLength]byte
	b := append(room[:0], "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	if sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// Kind is the role of a span in a call.
type Kind uint8

// The kinds of spans.
const (
	Internal Kind = iota
	Client
)

// Attr is an attribute. Its value is a string, a []string, an int64, a float64 or a
// bool.
type Attr struct {
	Key   string
	Value any
}

// Span is one timed step of a run. It is immutable once it was passed to a Sink.
type Span struct {
	Context
	Parent     [8]byte // zero: it is the root of its trace
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Links      []Context
	Failed     bool
}

// Event is an event at an instant within the span of its Context.
type Event struct {
	Context
	Name  string
	At    time.Time
	Attrs []Attr
}

// Sink receives the spans and events of a Run, which it must not change. Its methods are
// called on the goroutine that calls Run.Add.
type Sink interface {
	Span(s *Span)
	Event(e *Event)
}

// RunContext returns the context of the span of a run in one of its epochs. It ignores the trace
// context of the caller, whose trace id the spans of epoch 1 have; see CallContext.
func RunContext(run string, epoch int) Context {
	return Context{Trace: traceOf(run, epoch), Span: runSpan(run, epoch)}
}

// AttemptContext returns the context of the span of an attempt. Like RunContext, it ignores the
// trace context of the caller.
func AttemptContext(run string, epoch int, path edn.Value, attempt int) Context {
	return Context{Trace: traceOf(run, epoch), Span: attemptSpan(run, epoch, path, attempt)}
}

func runSpan(run string, epoch int) [8]byte { return spanOf("run", run, epoch, "", 0) }

func attemptSpan(run string, epoch int, path edn.Value, attempt int) [8]byte {
	return spanOf("attempt", run, epoch, path.String(), attempt)
}

func traceOf(run string, epoch int) (id [16]byte) {
	sum := digest("trace", run, epoch, "", 0)
	copy(id[:], sum[:])
	return id
}

func spanOf(what, run string, epoch int, path string, n int) (id [8]byte) {
	sum := digest(what, run, epoch, path, n)
	copy(id[:], sum[:])
	return id
}

// digest hashes a place in a run. Texts are written with their lengths, so that
// different places are different inputs.
func digest(what, run string, epoch int, path string, n int) [sha256.Size]byte {
	b := make([]byte, 0, 128)
	for _, text := range [...]string{what, run, path} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.AppendUvarint(b, uint64(epoch))
	b = binary.AppendUvarint(b, uint64(n))
	return sha256.Sum256(b)
}

func (s *Span) add(key string, value any) { s.Attrs = append(s.Attrs, Attr{key, value}) }

// text adds a text, unless it is empty.
func (s *Span) text(key, value string) {
	if value != "" {
		s.add(key, value)
	}
}

// fail marks the span as failed with an error type.
func (s *Span) fail(errorType string) {
	s.Failed = true
	s.text(AttrError, errorType)
}
