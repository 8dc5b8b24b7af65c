package edn

import "encoding/hex"

// digest is a BLAKE3-256 sum.
type digest [32]byte

const hashPrefix = "b3:"

// Hash returns the identity of v: "b3:" and 64 lower-case hex digits of the
// BLAKE3-256 sum of its canonical bytes. The sum of a collection is computed
// once and kept with it.
func Hash(v Value) string {
	var out [len(hashPrefix) + 64]byte
	copy(out[:], hashPrefix)
	sum := v.digest()
	hex.Encode(out[len(hashPrefix):], sum[:])
	return string(out[:])
}

func (v *Value) digest() digest {
	switch {
	case v.kind == KindTagged:
		t := v.tagged()
		if d := t.hash.Load(); d != nil {
			return *d
		}
		d := v.sum()
		t.hash.Store(&d)
		return d
	case v.kind.isCollection() && v.p != nil:
		n := v.node()
		// A vector and a list never share a node, nor does a map with a set, so
		// the sum of a node is the sum of its value.
		if d := n.hash.Load(); d != nil {
			return *d
		}
		d := v.sum()
		n.hash.Store(&d)
		return d
	}
	return v.sum()
}

func (v *Value) sum() digest {
	if v.kind == KindString && v.num >= hashLong {
		return sumString(v)
	}
	var d digest
	withCanonical(v, func(b []byte) { d = sumBytes(b) })
	return d
}

// isHash reports whether s has the form that Hash returns.
func isHash(s string) bool {
	if len(s) != len(hashPrefix)+64 || s[:len(hashPrefix)] != hashPrefix {
		return false
	}
	for _, c := range []byte(s[len(hashPrefix):]) {
		if hexValue(c) < 0 || c >= 'A' && c <= 'F' {
			return false
		}
	}
	return true
}
