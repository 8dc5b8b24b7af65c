package id

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// Domain separates hashes of different meaning.
type Domain byte

// The domains. Their values are part of what is hashed.
const (
	domainBlob      Domain = 1
	domainDirectory Domain = 2
	domainNode      Domain = 3
	domainBasis     Domain = 4
	domainFrame     Domain = 5
	domainRecord    Domain = 6
	domainSetLeaf   Domain = 7
	domainSetInner  Domain = 8
	domainSetRoot   Domain = 9
	domainState     Domain = 10
	domainChain     Domain = 11
	domainPrompt    Domain = 12
	domainContext   Domain = 13
	domainParams    Domain = 14
)

const magic = "ferment\x00\x01"

// encoder builds E, the text that is hashed. It comes from a pool, because most
// hashes have less than 200 bytes of input.
type encoder struct {
	b   []byte
	alg Alg
}

var encoders = sync.Pool{New: func() any { return &encoder{b: make([]byte, 0, 512)} }}

func begin(alg Alg, domain Domain) *encoder {
	e := encoders.Get().(*encoder)
	e.alg, e.b = alg, append(e.b[:0], magic...)
	e.b = append(e.b, byte(alg), byte(domain))
	return e
}

func (e *encoder) length(n int) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(n)) }

func (e *encoder) text(s string) {
	e.length(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) number(n uint64) {
	e.length(8)
	e.b = binary.BigEndian.AppendUint64(e.b, n)
}

func (e *encoder) id(x ID) {
	if x.IsZero() {
		e.length(0)
		return
	}
	e.length(1 + x.alg.Size())
	e.b = x.AppendSum(append(e.b, byte(x.alg)))
}

// list appends a list; each writes the fields of one item.
func (e *encoder) list(n int, each func(i int)) {
	e.length(n)
	for i := range n {
		at := len(e.b)
		e.length(0)
		each(i)
		binary.BigEndian.PutUint64(e.b[at:], uint64(len(e.b)-at-8))
	}
}

// sum hashes what was encoded and returns the encoder to the pool.
func (e *encoder) sum(kind Kind) ID {
	x := ID{kind: kind, alg: e.alg, sum: sumOf(e.alg, e.b)}
	if cap(e.b) <= 1<<16 {
		encoders.Put(e)
	}
	return x
}

// smallBlob is the largest input that one call of the vectorised hash takes.
const smallBlob = guts.MaxSIMD * guts.ChunkSize

func sumOf(alg Alg, b []byte) [maxSum]byte {
	if alg == SHA256 {
		return sha256.Sum256(b)
	}
	if len(b) <= guts.ChunkSize || len(b) > smallBlob {
		return blake3.Sum256(b)
	}
	// The library hashes an input of several chunks in goroutines, which costs
	// more than the hash of so few.
	if cap(b) < smallBlob {
		b = append(make([]byte, 0, smallBlob), b...)
	}
	n := guts.CompressBuffer((*[smallBlob]byte)(b[:smallBlob]), len(b), &guts.IV, 0, 0)
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	return [maxSum]byte(out[:maxSum])
}
