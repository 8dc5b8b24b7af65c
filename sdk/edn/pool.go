package edn

import "sync"

// The pools keep scratch memory between calls; results never point into it.
var (
	bufferPool = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 2048)} }}
	readerPool = sync.Pool{New: func() any {
		return &reader{stack: make([]Value, 0, 128), frames: make([]frame, 0, 16)}
	}}
)

// Scratch memory beyond these sizes is not pooled.
const (
	maxPooledBytes  = 64 << 10
	maxPooledValues = 1024
	maxPooledFrames = MaxDepth
)

type buffer struct{ b []byte }

// withCanonical calls f with the canonical bytes of v. They are valid only
// during the call unless mayKeep returns true.
func withCanonical(v *Value, f func([]byte)) {
	buf := bufferPool.Get().(*buffer)
	out := appendValue(buf.b[:0], v)
	f(out)
	if cap(out) <= maxPooledBytes {
		buf.b = out
	}
	bufferPool.Put(buf)
}

// mayKeep reports whether f may keep the bytes from withCanonical: they are too
// large for the pool, and a copy would cost as much as writing them.
func mayKeep(b []byte) bool { return cap(b) > maxPooledBytes && cap(b)-len(b) <= len(b)/4 }

// newReader returns a reader for s with empty stacks.
func newReader(s string, lim Limits) *reader {
	r := readerPool.Get().(*reader)
	*r = reader{s: s, lim: lim, watch: -1, stack: r.stack[:0], frames: r.frames[:0]}
	return r
}

// release clears the stacks and returns them to the pool.
func (r *reader) release() {
	if cap(r.stack) > maxPooledValues || cap(r.frames) > maxPooledFrames {
		return
	}
	clear(r.stack[:max(r.high, len(r.stack))])
	clear(r.frames[:cap(r.frames)])
	*r = reader{stack: r.stack[:0], frames: r.frames[:0]}
	readerPool.Put(r)
}
