package edn_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	olympos "olympos.io/encoding/edn"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-007: the codec compared with olympos.io/encoding/edn and encoding/json in
// one run. The library reads and writes its own tree of Go values,
// encoding/json the JSON view of the same value.
var benchTexts = []struct{ name, file string }{
	{"1KiB", "testdata/request.edn"},
	{"10KiB", "testdata/plan.edn"},
}

func BenchmarkDecode(b *testing.B) {
	for _, doc := range benchTexts {
		text, asJSON := benchText(b, doc.file)
		run := func(name string, size int, f func() error) {
			b.Run(doc.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("ferment", len(text), func() error {
			_, err := edn.Read(text)
			return err
		})
		run("olympos", len(text), func() error {
			var v any
			return olympos.Unmarshal(text, &v)
		})
		run("json", len(asJSON), func() error {
			var v any
			return json.Unmarshal(asJSON, &v)
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, doc := range benchTexts {
		text, asJSON := benchText(b, doc.file)
		value, err := edn.Read(text)
		require.NoError(b, err)
		var tree, jsonTree any
		require.NoError(b, olympos.Unmarshal(text, &tree))
		require.NoError(b, json.Unmarshal(asJSON, &jsonTree))
		run := func(name string, f func() ([]byte, error)) {
			b.Run(doc.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("ferment", func() ([]byte, error) { return edn.Write(value), nil })
		run("olympos", func() ([]byte, error) { return olympos.Marshal(tree) })
		run("json", func() ([]byte, error) { return json.Marshal(jsonTree) })
	}
}

// A long text is scanned, not read byte by byte.
func BenchmarkLongString(b *testing.B) {
	text := fmt.Appendf(nil, "{:text %q}", strings.Repeat("a line of text, and another one. ", 32<<10))
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := edn.Read(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	v, err := edn.Read(text)
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		var buf []byte
		for b.Loop() {
			buf = v.AppendCanonical(buf[:0])
		}
	})
}

func BenchmarkKey(b *testing.B) {
	text, _ := benchText(b, "testdata/request.edn")
	v, err := edn.Read(text)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if v.Key("input").Key("lang").IsNil() {
			b.Fatal("lost")
		}
	}
}

func benchText(b *testing.B, file string) (text, asJSON []byte) {
	text, err := os.ReadFile(file)
	require.NoError(b, err)
	v, err := edn.Read(text)
	require.NoError(b, err)
	asJSON, err = edn.WriteJSON(v)
	require.NoError(b, err)
	return text, asJSON
}
