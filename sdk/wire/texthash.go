package wire

import (
	"encoding/hex"
	"sync"
	"unicode/utf8"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// hashPiece is how much of a text is spelled out at a time. The hash works on
// each piece with several goroutines, which pays from this size on.
const hashPiece = 256 << 10

// hashBuffers hold the canonical spelling of a piece. A control character
// takes six bytes, so a buffer may grow beyond its first size.
var hashBuffers = sync.Pool{New: func() any { b := make([]byte, 0, hashPiece+hashPiece/8); return &b }}

// hashText is edn.Hash of a string value without a copy of its whole canonical
// text. s is valid UTF-8.
func hashText(s string) string {
	h := blake3.New(32, nil)
	pooled := hashBuffers.Get().(*[]byte)
	buf := (*pooled)[:0]
	quote := []byte{'"'}
	_, _ = h.Write(quote) // a hash takes anything
	for len(s) > 0 {
		n := pieceLen(s)
		buf = edn.MustString(s[:n]).AppendCanonical(buf[:0])
		_, _ = h.Write(buf[1 : len(buf)-1])
		s = s[n:]
	}
	_, _ = h.Write(quote)
	const prefix = "b3:"
	out := make([]byte, len(prefix), len(prefix)+64)
	copy(out, prefix)
	out = hex.AppendEncode(out, h.Sum(buf[:0]))
	*pooled = buf // not before the sum, which stands in it, has been read
	hashBuffers.Put(pooled)
	return string(out)
}

// pieceLen is how much of s goes into the next piece: whole code points.
func pieceLen(s string) int {
	if len(s) <= hashPiece {
		return len(s)
	}
	n := hashPiece
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
