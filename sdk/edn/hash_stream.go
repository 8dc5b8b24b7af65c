package edn

import (
	"math/bits"
	"runtime"
	"sync"
	"unsafe"

	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// hashLong is the length from which the sum of a string is computed piece by
// piece, without its whole canonical text.
const hashLong = 16 << 10

// hashBlock is the number of bytes hashed at a time, a power of two of chunks
// and at least as many as the hash processes together. On vectorised hardware
// one block of 16 chunks is fast and stays in the cache; elsewhere several
// goroutines share a larger block.
func hashBlock() int {
	if runtime.GOARCH == "amd64" {
		return leafSize
	}
	return 16 * leafSize
}

// leafSize is the input of one step of the hash.
const leafSize = guts.MaxSIMD * guts.ChunkSize

// hasher computes BLAKE3-256 of text that arrives in pieces. The library's
// hasher starts a goroutine for each power of two of chunks in a piece, which
// costs more than the hash.
type hasher struct {
	buf []byte // of the current block
	// subtrees are the roots of the finished subtrees, one for each bit of
	// chunks.
	subtrees [64][8]uint32
	chunks   uint64
}

var hasherPool = sync.Pool{New: func() any { return &hasher{buf: make([]byte, 0, hashBlock())} }}

// sumString returns the sum of the canonical bytes of a string.
func sumString(v *Value) digest {
	h := hasherPool.Get().(*hasher)
	h.buf, h.chunks = h.buf[:0], 0
	s := v.text()
	h.write(`"`)
	for v.flag&flagPlain == 0 {
		n := plainRun(s)
		h.write(s[:n])
		if s = s[n:]; s == "" {
			break
		}
		var room [6]byte
		escape := appendEscape(room[:0], s[0])
		h.write(unsafe.String(unsafe.SliceData(escape), len(escape)))
		s = s[1:]
	}
	h.write(s)
	h.write(`"`)
	d := h.sum()
	hasherPool.Put(h)
	return d
}

// sumBytes returns the sum of bytes.
func sumBytes(b []byte) digest {
	if len(b) <= guts.ChunkSize {
		return blake3.Sum256(b)
	}
	h := hasherPool.Get().(*hasher)
	h.buf, h.chunks = h.buf[:0], 0
	h.write(unsafe.String(unsafe.SliceData(b), len(b)))
	d := h.sum()
	hasherPool.Put(h)
	return d
}

func (h *hasher) write(s string) {
	for len(s) > 0 {
		if len(h.buf) == cap(h.buf) { // more input follows: it is not the last block
			h.push(guts.CompressEigentree(h.buf, &guts.IV, h.chunks, 0), cap(h.buf)/guts.ChunkSize)
			h.buf = h.buf[:0]
		}
		n := copy(h.buf[len(h.buf):cap(h.buf)], s)
		h.buf = h.buf[:len(h.buf)+n]
		s = s[n:]
	}
}

// push adds the root of a subtree of chunks leaves, a power of two.
func (h *hasher) push(n guts.Node, chunks int) {
	cv, at := guts.ChainingValue(n), bits.TrailingZeros64(uint64(chunks))
	for ; h.chunks>>at&1 == 1; at++ {
		cv = guts.ChainingValue(guts.ParentNode(h.subtrees[at], cv, &guts.IV, 0))
	}
	h.subtrees[at] = cv
	h.chunks += uint64(chunks)
}

// sum finishes the hash. The bytes that are still in buf are hashed here, because
// the end of the text is processed differently.
func (h *hasher) sum() digest {
	rest := h.buf
	if h.chunks == 0 && len(rest) <= guts.ChunkSize {
		return blake3.Sum256(rest)
	}
	for len(rest) > leafSize {
		h.push(guts.CompressBuffer((*[leafSize]byte)(rest), leafSize, &guts.IV, h.chunks, 0), guts.MaxSIMD)
		rest = rest[leafSize:]
	}
	// CompressBuffer ignores the bytes of the last leaf beyond len(rest).
	n := guts.CompressBuffer((*[leafSize]byte)(rest[:leafSize]), len(rest), &guts.IV, h.chunks, 0)
	for left := h.chunks; left != 0; left &= left - 1 {
		n = guts.ParentNode(h.subtrees[bits.TrailingZeros64(left)], guts.ChainingValue(n), &guts.IV, 0)
	}
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	return digest(out[:len(digest{})])
}
