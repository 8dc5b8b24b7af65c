package conformance

import (
	"bytes"
	"slices"
	"sync"
)

// logLines and logBytes bound the stored log, so that an endless log does not
// fill the memory of the harness.
const (
	logLines = 10_000
	logBytes = 4 << 20
)

// lineBuffer keeps the last lines that are written to it.
type lineBuffer struct {
	mu    sync.Mutex
	lines []string
	size  int // total bytes of the lines
	rest  []byte
}

// Write implements io.Writer.
func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = append(b.rest, p...)
	for {
		line, rest, found := bytes.Cut(b.rest, []byte("\n"))
		if !found {
			if len(b.rest) > logBytes {
				b.keep(string(b.rest))
				b.rest = nil
			}
			return len(p), nil
		}
		b.keep(string(line))
		b.rest = rest
	}
}

// keep appends a line and drops the oldest half when there are too many. The
// caller holds the lock.
func (b *lineBuffer) keep(line string) {
	b.lines = append(b.lines, line)
	b.size += len(line)
	if len(b.lines) <= logLines && b.size <= logBytes {
		return
	}
	b.lines = slices.Clone(b.lines[(len(b.lines)+1)/2:])
	b.size = 0
	for _, l := range b.lines {
		b.size += len(l)
	}
}

func (b *lineBuffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(line)
}

// Lines returns the complete lines so far.
func (b *lineBuffer) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}
