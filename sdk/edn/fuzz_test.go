package edn_test

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// fuzzLimits keep one execution of a fuzz target short.
var fuzzLimits = edn.WithLimits(edn.Limits{Bytes: 1 << 20, Depth: 128, Nodes: 50_000, String: 1 << 20})

// addTextSeeds adds every row of VAL-011 and small versions of the hostile
// texts of section 7 (VAL-051).
func addTextSeeds(f *testing.F) {
	for _, c := range accepted {
		f.Add([]byte(c.text))
	}
	for _, c := range refused {
		f.Add([]byte(c.text))
	}
	for _, c := range hostile(600) {
		f.Add([]byte(c.text))
	}
	for _, name := range []string{"testdata/request.edn", "testdata/plan.edn"} {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
}

// VAL-051: any bytes return an error or a value; a value survives writing and
// reading, and reading costs no more memory than VAL-015 allows.
func FuzzRead(f *testing.F) {
	addTextSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := edn.Read(text, fuzzLimits)
		runtime.ReadMemStats(&after)
		if err != nil {
			checkSyntaxError(t, err, text)
			_, _, again := edn.ReadWithPositions(text, fuzzLimits)
			require.Equal(t, err.Error(), again.Error())
			return
		}
		// A form takes at least one byte, and every further byte adds at most
		// one form.
		bound := uint64(64*(len(text)+1) + 2*len(text) + 64<<10)
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, bound)
		checkRoundTrip(t, v)

		located, pos, err := edn.ReadWithPositions(text, fuzzLimits)
		require.NoError(t, err)
		require.True(t, edn.Equal(v, located))
		whole, ok := pos.At()
		require.True(t, ok)
		part, n, err := edn.ReadPrefix(text, fuzzLimits)
		require.NoError(t, err)
		require.True(t, edn.Equal(v, part))
		require.Equal(t, n, whole.End.Offset)
	})
}

func checkSyntaxError(t *testing.T, err error, text []byte) {
	var syntax *edn.SyntaxError
	require.True(t, errors.As(err, &syntax))
	require.LessOrEqual(t, syntax.Pos.Offset, len(text))
	require.NotContains(t, syntax.Error(), "\n")
	require.Len(t, strings.Split(syntax.Excerpt(), "\n"), 2)
	_, err = edn.Read(syntax.Value().Canonical())
	require.NoError(t, err)
}

func checkRoundTrip(t *testing.T, v edn.Value) {
	canonical := v.Canonical()
	back, err := edn.Read(canonical, edn.WithLimits(edn.Limits{Depth: edn.MaxDepth, Nodes: 1 << 20}))
	require.NoError(t, err, "%s", canonical)
	require.True(t, edn.Equal(v, back))
	require.Equal(t, string(canonical), back.String())
	require.Zero(t, edn.Compare(v, back.Detach()))
}

// VAL-051: JSON returns an error or a value that can be written again; nothing
// is accepted that encoding/json rejects.
func FuzzReadJSON(f *testing.F) {
	for _, c := range refusedJSON {
		f.Add([]byte(c.text))
	}
	for _, text := range []string{
		`{"a":[1,2.5,-0,1e5,"x\u017c\ud83d\ude00",null,true,false,{}],"not a name":{"b":[]}}`,
		`{"#tag":"my/tag","#value":{"#tag":"inst","#value":"2026-11-20T10:00:00Z"}}`,
		"\uFEFF[123456789012345678901234567890]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.ReadJSON(text, fuzzLimits)
		if err != nil {
			checkSyntaxError(t, err, text)
			return
		}
		require.True(t, json.Valid([]byte(strings.TrimPrefix(string(text), "\uFEFF"))))
		checkRoundTrip(t, v)
		out, err := edn.WriteJSON(v)
		if err != nil {
			var collision *edn.JSONCollisionError
			require.True(t, errors.As(err, &collision))
			return
		}
		require.True(t, json.Valid(out))
		back, err := edn.ReadJSON(out)
		require.NoError(t, err, "%s", out)
		again, err := edn.WriteJSON(back)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
	})
}

// VAL-051: decoding any value into any struct does not panic, and a value
// decoded without a problem encodes and decodes to the same.
func FuzzDecodeStruct(f *testing.F) {
	addTextSeeds(f)
	f.Add([]byte(everythingText))
	f.Add([]byte(`{:name 5 :files [{:lines [1]}] :weights {:a "b"} :when nil :depth nil}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.Read(text, fuzzLimits)
		if err != nil {
			return
		}
		var x everything
		if err := edn.Decode(v, &x); err != nil {
			var problems *edn.DecodeError
			require.True(t, errors.As(err, &problems))
			require.NotEmpty(t, problems.Problems)
			require.Error(t, edn.DecodeStrict(v, &everything{}))
			return
		}
		out, err := edn.Encode(x)
		require.NoError(t, err, "%s", v)
		var y everything
		require.NoError(t, edn.Decode(out, &y), "%s", out)
		again, err := edn.Encode(y)
		require.NoError(t, err)
		require.Equal(t, out.String(), again.String())
	})
}

// VAL-051, VAL-033: pretty text reads back at every width.
func FuzzPretty(f *testing.F) {
	for i, c := range accepted {
		f.Add([]byte(c.text), uint8(i), uint8(i%4))
	}
	plan, err := os.ReadFile("testdata/plan.edn")
	require.NoError(f, err)
	f.Add(plan, uint8(60), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, width, indent uint8) {
		v, err := edn.Read(text, fuzzLimits)
		if err != nil {
			return
		}
		first := []edn.Value{edn.K("id"), edn.K("a"), v}
		out := edn.WritePretty(v, edn.PrettyOptions{Width: int(width), Indent: int(indent), First: first})
		back, err := edn.Read(out, edn.WithLimits(edn.Stored))
		require.NoError(t, err, "%s", out)
		require.True(t, edn.Equal(v, back), "%s", out)
	})
}
