package spans

import (
	"encoding/hex"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Parent is the trace context of the caller of a run.
type Parent struct {
	Context
	Sampled bool
}

// ParseTraceParent parses the header traceparent of W3C Trace Context; ok is false if it
// is invalid. Of versions after 00 only the part that version 00 defines is read.
func ParseTraceParent(text string) (p Parent, ok bool) {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], text[:2]}, {p.Trace[:], text[3:35]}, {p.Span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil || !lower(part.from) {
			return Parent{}, false
		}
	}
	later := version[0] != 0
	switch {
	case version[0] == 0xff, !later && len(text) > length, later && len(text) > length && text[length] != '-':
		return Parent{}, false
	}
	p.Sampled = flags[0]&1 != 0
	return p, p.Trace != [16]byte{} && p.Span != [8]byte{}
}

// lower reports whether hexadecimal digits are in lower case, as they must be.
func lower(text string) bool {
	for _, c := range text {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	return true
}

// ParentOf returns the trace context of the caller in the :trace of a run; ok is false
// if it has none.
func ParentOf(trace edn.Value) (p Parent, ok bool) {
	text, _ := trace.Key("parent").AsString()
	return ParseTraceParent(text)
}

// CallContext returns the trace context that a plugin gets with a call: that of the
// attempt, or of the run if attempt is 0. trace is the :trace of the run; in epoch 1 its
// parent determines the trace id.
func CallContext(run string, epoch int, trace, path edn.Value, attempt int) Context {
	c := Context{Span: runSpan(run, epoch)}
	if attempt > 0 {
		c.Span = attemptSpan(run, epoch, path, attempt)
	}
	if p, ok := ParentOf(trace); ok && epoch == 1 {
		c.Trace = p.Trace
	} else {
		c.Trace = traceOf(run, epoch)
	}
	return c
}
