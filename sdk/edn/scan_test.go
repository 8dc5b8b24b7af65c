package edn

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each byte at each position of texts of each length around the block sizes, at
// each memory alignment (VAL-003).
func TestPlainRunFindsEachEscape(t *testing.T) {
	for n := range 150 {
		text := make([]byte, n+16)
		for i := range text {
			text[i] = "plain words, \xc3\xbc"[i%15]
		}
		off := n % 16
		clean := string(text[off : off+n])
		require.Equal(t, n, plainRun(clean), "%q", clean)
		for at := range n {
			for c := range 256 {
				was := text[off+at]
				text[off+at] = byte(c)
				want := n
				if needsEscape(byte(c)) {
					want = at
				}
				if got := plainRun(string(text[off : off+n])); got != want {
					t.Fatalf("byte %#x at %d of %d: got %d", c, at, n, got)
				}
				text[off+at] = was
			}
		}
	}
}

// Bytes after the text are ignored, and the first of several hits is returned.
func TestPlainRunStaysWithinTheText(t *testing.T) {
	all := strings.Repeat("abcdefg\"", 40)
	for from := range 9 {
		for to := from; to < len(all); to++ {
			want := strings.IndexByte(all[from:to], '"')
			if want < 0 {
				want = to - from
			}
			require.Equal(t, want, plainRun(all[from:to]))
		}
	}
}

func BenchmarkPlainRun(b *testing.B) {
	text := strings.Repeat("plain words and a few more, ", 1<<15)
	for _, n := range []int{12, 40, 1 << 10, len(text)} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				plainRun(text[:n])
			}
		})
	}
}
