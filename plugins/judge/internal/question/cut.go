package question

import (
	"fmt"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/text"
)

// cut shortens a text to about most bytes by omitting whole sentences in its
// middle. note returns the text that replaces them; left is the number of
// omitted bytes.
func cut(s string, most int, note func(bytes int) string) (short string, left int) {
	if len(s) <= most {
		return s, 0
	}
	half := most / 2
	head, tail := half, len(s)-half
	sentences := text.Sentences(s, "")
	for _, at := range sentences { // the last end within the first half
		if at.End <= half {
			head = at.End
		}
	}
	for i := len(sentences) - 1; i >= 0; i-- { // the first start within the last half
		if sentences[i].Start >= len(s)-half {
			tail = sentences[i].Start
		}
	}
	// A sentence longer than a half is cut between two characters.
	if head < half/4 || head > half {
		head = half
	}
	if tail > len(s)-half/4 || tail < len(s)-half {
		tail = len(s) - half
	}
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + "\n" + note(tail-head) + "\n" + s[tail:], tail - head
}

func cutLine(mark string) func(int) string {
	return func(bytes int) string { return fmt.Sprintf("<<%s cut: %d bytes are left out here>>", mark, bytes) }
}
