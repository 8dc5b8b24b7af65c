package suite

import (
	"fmt"
	"strings"
)

// Sizes of the kept output.
const (
	headSize  = 4 << 10
	tailSize  = 12 << 10
	totalSize = 1 << 20
)

// excerpt keeps the beginning and the end of a text of any length.
type excerpt struct {
	head, tail []byte
	dropped    int64
}

func (e *excerpt) add(text string) {
	if room := headSize - len(e.head); room > 0 {
		n := min(room, len(text))
		e.head = append(e.head, text[:n]...)
		text = text[n:]
	}
	if text == "" {
		return
	}
	e.tail = append(e.tail, text...)
	// Moving the tail only when it has doubled keeps the cost linear.
	if len(e.tail) > 2*tailSize {
		e.dropped += int64(len(e.tail) - tailSize)
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-tailSize:]...)
	}
}

func (e *excerpt) line(text string) { e.add(text + "\n") }

func (e *excerpt) String() string {
	dropped, tail := e.dropped, e.tail
	if cut := len(tail) - tailSize; cut > 0 {
		dropped += int64(cut)
		tail = tail[cut:]
	}
	if dropped == 0 {
		return strings.ToValidUTF8(string(e.head)+string(tail), "\uFFFD")
	}
	text := fmt.Sprintf("%s\n... %d bytes left out ...\n%s", e.head, dropped, tail)
	return strings.ToValidUTF8(text, "\uFFFD")
}

// outOfMemory are messages, in lower case, of runtimes and kernels that have run out of memory.
var outOfMemory = []string{"out of memory", "cannot allocate memory", "Cannot allocate memory", "MemoryError",
	"std::bad_alloc"}

func saysOutOfMemory(text string) bool {
	for _, words := range outOfMemory {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
