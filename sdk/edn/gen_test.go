package edn_test

import (
	"math"
	"math/big"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// genValue draws values of every kind, nested at most depth deep, with names,
// numbers and strings that are difficult for codecs.
func genValue(depth int) *rapid.Generator[edn.Value] {
	return rapid.Custom(func(t *rapid.T) edn.Value { return drawValue(t, depth) })
}

func drawValue(t *rapid.T, depth int) edn.Value {
	kinds := 12
	if depth > 0 {
		kinds = 17
	}
	// rapid prefers small numbers; here every kind and size has equal
	// probability.
	even := func(n int) int {
		return int(rapid.Uint64().Draw(t, "even") * 0x9e3779b97f4a7c15 >> 33 % uint64(n))
	}
	sub := func() []edn.Value {
		n := []int{0, 1, 1, 2, 2, 3, 5, 14}[even(8)]
		if depth > 4 || depth == 1 {
			n = min(n, 3)
		}
		out := make([]edn.Value, n)
		for i := range out {
			out[i] = drawValue(t, depth-1)
		}
		return out
	}
	kind := even(kinds)
	if depth > 2 && even(3) > 0 {
		kind = 12 + even(5)
	}
	switch kind {
	case 0:
		return edn.Nil()
	case 1:
		return edn.Bool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return edn.Int(rapid.Int64().Draw(t, "int"))
	case 3:
		return edn.BigInt(drawBig(t))
	case 4:
		return edn.MustFloat(drawFloat(t))
	case 5:
		exp := rapid.IntRange(-60, 60).Draw(t, "exp")
		v, err := edn.Decimal(drawBig(t), exp)
		if err != nil {
			t.Fatal(err)
		}
		return v
	case 6:
		return edn.MustString(drawText(t))
	case 7:
		return edn.MustChar(drawRune(t))
	case 8:
		return edn.MustKeyword(drawName(t))
	case 9:
		return edn.MustSymbol(drawSymbol(t))
	case 10:
		sec := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "sec")
		ns := rapid.SampledFrom([]int64{0, 1_000_000, 1_000, 1, 999_999_999}).Draw(t, "ns")
		return edn.Inst(time.Unix(sec, ns))
	case 11:
		var u [16]byte
		copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		return edn.UUID(u)
	case 12:
		return edn.List(sub()...)
	case 13:
		return edn.Vector(sub()...)
	case 14:
		return edn.SetOf(sub()...)
	case 15:
		var b edn.MapBuilder
		for _, k := range sub() {
			b.Set(k, drawValue(t, depth-1))
		}
		return b.Map()
	default:
		tag := drawSymbol(t)
		if tag == "/" || strings.ContainsAny(tag[:1], "!=?_") || tag == "inst" || tag == "uuid" || strings.HasPrefix(tag, "ferment/") {
			tag = "my/tag"
		}
		return edn.MustTagged(tag, drawValue(t, depth-1))
	}
}

func drawBig(t *rapid.T) *big.Int {
	digits := rapid.StringMatching(`-?[0-9]{1,60}`).Draw(t, "digits")
	i, _ := new(big.Int).SetString(digits, 10)
	return i
}

func drawFloat(t *rapid.T) float64 {
	f := rapid.OneOf(
		rapid.Float64(),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.999999e-7, 1e20, 1e21, 123456789e13,
			math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 53, 1<<53 + 2, 1e-7, 1.5e300}),
	).Draw(t, "float")
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return 2.5
	}
	return f
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.SampledFrom([]rune("a\"\\\n\r\t\b\f\x00\x1f\x7f\u0080\u2028ż€😀; )]}#!")), 0, 12, -1),
	).Draw(t, "text")
}

func drawRune(t *rapid.T) rune {
	r := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x00\t\n\f\b\r ,;()\"\\u\x7f\u0085\u00a0\u2028\ufeffaż😀"))).Draw(t, "rune")
	if r >= 0xd800 && r <= 0xdfff || r < 0 {
		return 'x'
	}
	return r
}

func drawSymbol(t *rapid.T) string {
	name := drawName(t)
	if name == "nil" || name == "true" || name == "false" {
		return name + "?"
	}
	return name
}

func drawName(t *rapid.T) string {
	part := rapid.StringMatching(`[a-zA-Z*!_?$%&=<>][a-zA-Z0-9.*+!_?$%&=<>#'-]{0,6}(:[a-z])?`)
	return rapid.OneOf(
		part,
		rapid.Custom(func(t *rapid.T) string { return part.Draw(t, "ns") + "/" + part.Draw(t, "name") }),
		rapid.SampledFrom([]string{"-", "+", ".", "->", "-a", "+a", ".a", "a/-", "...", "ż", "日本", "a.b/c", "nil", "true", "false", "inst",
			"x#", "x'", "a:b", strings.Repeat("n", 255)}),
	).Draw(t, "name")
}
