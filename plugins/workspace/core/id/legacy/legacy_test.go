package legacy

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"
)

func b3(t *testing.T, hexText string) ID {
	text, err := hex.DecodeString(hexText)
	require.NoError(t, err)
	return blake3.Sum256(text)
}

// WS-018: the texts of annex A, written out byte by byte.
func TestAnnexA(t *testing.T) {
	content := Content([]byte("hi"))
	c := hex.EncodeToString(content[:])
	assert.Equal(t, b3(t, "6869"), content)
	file := File("/w/a", content, map[string]string{"k2": "v", "k1": "u"})
	assert.Equal(t, b3(t, "66696c65"+"0000000000000004"+"2f772f61"+c+"6b313a750a"+"6b323a760a"), file)
	f := hex.EncodeToString(file[:])
	dir := Directory("/w", []Child{{Name: "b", ID: file}, {Name: "a", ID: content}}, nil)
	assert.Equal(t, b3(t, "6469726563746f7279"+"0000000000000002"+"2f77"+"0000000000000002"+"613a"+c+"623a"+f), dir)
	assert.Equal(t, b3(t, "6e6f64653a"+f), NodeBasis(file))
	assert.Equal(t, b3(t, "6672616d653a"+f), FrameBasis(file))
	assert.Equal(t, b3(t, "626f74683a"+f+c), BothBasis(file, content))
	basis := NodeBasis(file)
	n := hex.EncodeToString(basis[:])
	frame := Frame(basis, "ag", "ty", "co")
	assert.Equal(t, b3(t, n+"6167656e743a"+"6167"+"747970653a"+"7479"+"636f6e74656e743a"+"636f"), frame)

	assert.Equal(t, b3(t, "656d7074795f6672616d655f736574"), FrameSet(nil))
	leaf := func(x ID) string {
		l := b3(t, "6672616d655f6c656166"+hex.EncodeToString(x[:]))
		return hex.EncodeToString(l[:])
	}
	one, two, three := ID{1}, ID{2}, ID{3}
	pair := b3(t, leaf(one)+leaf(two))
	assert.Equal(t, b3(t, hex.EncodeToString(pair[:])+leaf(three)), FrameSet([]ID{three, one, two}))

	assert.Equal(t, b3(t, f+n+c+"7479"+"66696c746572"+"0500000000000000"), SynthesisBasis(file, []ID{basis, content}, "ty", Policy{Name: "filter", Maximum: 5}))
	assert.Equal(t, b3(t, f+"7479"+"636f6e636174"), SynthesisBasis(file, nil, "ty", Policy{Name: "concat", Maximum: 5}))
	assert.Equal(t, "/w/é", Path("/w/e\u0301/"))
	assert.Equal(t, "/", Path("/"))
}
