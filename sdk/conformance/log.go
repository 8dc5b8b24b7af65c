package conformance

import (
	"bytes"
	"slices"
	"sync"
)

// lineBuffer keeps what is written to it as lines.
type lineBuffer struct {
	mu    sync.Mutex
	lines []string
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
			return len(p), nil
		}
		b.lines = append(b.lines, string(line))
		b.rest = rest
	}
}

func (b *lineBuffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
}

// Lines gives the whole lines so far.
func (b *lineBuffer) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}
