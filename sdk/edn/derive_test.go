package edn_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Section 1.3, make: invalid arguments give an error, Must variants panic, and
// the zero Value is nil.
func TestConstructors(t *testing.T) {
	var zero edn.Value
	assert.True(t, zero.IsNil())
	assert.True(t, edn.Equal(zero, edn.Nil()))

	for name, make := range map[string]func() (edn.Value, error){
		"NaN":                func() (edn.Value, error) { return edn.Float(math.NaN()) },
		"infinity":           func() (edn.Value, error) { return edn.Float(math.Inf(-1)) },
		"UTF-8":              func() (edn.Value, error) { return edn.String("a\xff") },
		"surrogate":          func() (edn.Value, error) { return edn.Char(0xd800) },
		"beyond Unicode":     func() (edn.Value, error) { return edn.Char(0x110000) },
		"blank in keyword":   func() (edn.Value, error) { return edn.Keyword("x :admin true") },
		"bracket in keyword": func() (edn.Value, error) { return edn.Keyword("x]") },
		"empty keyword":      func() (edn.Value, error) { return edn.Keyword("") },
		"colon in keyword":   func() (edn.Value, error) { return edn.Keyword(":a") },
		"slash as keyword":   func() (edn.Value, error) { return edn.Keyword("/") },
		"nil as symbol":      func() (edn.Value, error) { return edn.Symbol("nil") },
		"number as symbol":   func() (edn.Value, error) { return edn.Symbol("-1") },
		"bad UTF-8 in name":  func() (edn.Value, error) { return edn.Symbol("a\xff") },
		"no coefficient":     func() (edn.Value, error) { return edn.Decimal(nil, 0) },
		"large exponent":     func() (edn.Value, error) { return edn.Decimal(big.NewInt(1), 1001) },
		"huge exponent":      func() (edn.Value, error) { return edn.Decimal(big.NewInt(1), math.MaxInt) },
		"tiny exponent":      func() (edn.Value, error) { return edn.Decimal(big.NewInt(1), math.MinInt) },
		"huge coefficient":   func() (edn.Value, error) { return edn.Decimal(new(big.Int).Lsh(big.NewInt(1), 99999), 0) },
		"no decimal":         func() (edn.Value, error) { return edn.ParseDecimal("1.5N") },
		"no number":          func() (edn.Value, error) { return edn.ParseDecimal("") },
		"large decimal":      func() (edn.Value, error) { return edn.ParseDecimal("1e1001") },
		"equal keys": func() (edn.Value, error) {
			return edn.Map([]edn.Entry{{Key: edn.Int(1)}, {Key: edn.BigInt(big.NewInt(1))}})
		},
		"equal members":  func() (edn.Value, error) { return edn.Set([]edn.Value{edn.K("a"), edn.K("b"), edn.K("a")}) },
		"bad tag":        func() (edn.Value, error) { return edn.Tagged("a b", edn.Nil()) },
		"discard as tag": func() (edn.Value, error) { return edn.Tagged("_a", edn.Nil()) },
		"bad instant":    func() (edn.Value, error) { return edn.Tagged("inst", edn.Int(1)) },
		"reserved tag":   func() (edn.Value, error) { return edn.Tagged("ferment/x", edn.Nil()) },
		"secret map":     func() (edn.Value, error) { return edn.Tagged("ferment/secret", edn.MustRead("{}")) },
	} {
		v, err := make()
		var problem *edn.ValueError
		require.True(t, errors.As(err, &problem), name)
		assert.NotEmpty(t, problem.Code, name)
		assert.Contains(t, err.Error(), "edn: make ", name)
		assert.True(t, v.IsNil(), name)
	}
	odd := edn.MustRead("[:a 1 :b]")
	for name, f := range map[string]func(){
		"K":       func() { edn.K("a b") },
		"MustMap": func() { edn.MustMap(slices.Collect(odd.Elems())...) },
		"MustSet": func() { edn.MustSet(edn.Nil(), edn.Nil()) },
		"BigInt":  func() { edn.BigInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(1000), nil)) },
		"nil int": func() { edn.BigInt(nil) },
		"Inst":    func() { edn.Inst(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) },
		"Read":    func() { edn.MustRead("[") },
		"Merge":   func() { edn.K("a").Merge(edn.Nil()) },
		"Assoc":   func() { edn.K("a").Assoc(edn.Nil(), edn.Nil()) },
		"index":   func() { edn.Vector().Assoc(edn.Int(1), edn.Nil()) },
		"Dissoc":  func() { edn.Vector().Dissoc(edn.Int(0)) },
		"Conj":    func() { edn.Int(1).Conj(edn.Nil()) },
	} {
		assert.Panics(t, f, name)
	}
	largest := new(big.Int).Exp(big.NewInt(10), big.NewInt(999), nil)
	assert.Len(t, edn.BigInt(largest).String(), 1001, "1,000 digits and an N")
	assert.Equal(t, "\"a\uFFFDb\"", edn.Text("a\xff\xfeb").String())
	assert.Equal(t, "#{:a :b}", edn.Keywords("b", "a", "b").String())
	assert.Equal(t, `#inst "2026-11-20T09:00:00.000Z"`, edn.MustTagged("inst", edn.MustString("2026-11-20T10:00:00+01:00")).String())
	assert.Equal(t, "0.0", edn.MustFloat(math.Copysign(0, -1)).String())
	assert.Equal(t, "15M", edn.MustDecimal("1.50e1").String())
}

// VAL-021: a constructor rejects a value beyond the depth limit; the deepest
// allowed value is written, compared, walked and read.
func TestDepthLimit(t *testing.T) {
	v := edn.Vector()
	for v.Depth() < edn.MaxDepth {
		switch v.Depth() % 4 {
		case 0:
			v = edn.Vector(v)
		case 1:
			v = edn.MustMap(v, v)
		case 2:
			v = edn.MustSet(edn.Int(1), v)
		default:
			v = edn.List(v)
		}
		if v.Len() > 0 && v.Depth() > 16 { // a map doubles its text: shared in memory, but long
			break
		}
	}
	for v.Depth() < edn.MaxDepth {
		if v.Depth()%2 == 0 {
			v = edn.MustTagged("t", v)
		} else {
			v = edn.Vector(v)
		}
	}
	back, err := edn.Read(v.Canonical(), edn.WithLimits(edn.Limits{Depth: edn.MaxDepth}))
	require.NoError(t, err)
	assert.True(t, edn.Equal(v, back))
	assert.Zero(t, edn.Compare(v, back))
	assert.Equal(t, edn.Hash(v), edn.Hash(back))
	same, err := v.Walk(nil, nil)
	require.NoError(t, err)
	assert.True(t, edn.Equal(v, same))

	tooDeep := func(err error) bool {
		var problem *edn.ValueError
		return errors.As(err, &problem) && problem.Code == "limit-depth"
	}
	_, err = edn.Set([]edn.Value{v})
	assert.True(t, tooDeep(err))
	_, err = edn.Map([]edn.Entry{{Key: edn.Nil(), Val: v}})
	assert.True(t, tooDeep(err))
	_, err = edn.Tagged("t", v)
	assert.True(t, tooDeep(err))
	_, err = edn.MustMap().AssocIn([]edn.Value{edn.K("a")}, v)
	assert.True(t, tooDeep(err))
	_, err = edn.MustMap().AssocIn(make([]edn.Value, 600), edn.Nil())
	assert.True(t, tooDeep(err))
	_, err = edn.Vector(edn.Int(1)).Walk(nil, func(x edn.Value) edn.Value {
		if x.IsInt() {
			return v
		}
		return x
	})
	assert.True(t, tooDeep(err))
	_, err = edn.Int(1).Walk(func(x edn.Value) edn.Value { return edn.Vector(x) }, nil)
	assert.True(t, tooDeep(err), "a walk that grows its own food ends")
	var b edn.MapBuilder
	b.Key("a", v)
	for _, f := range []func(){
		func() { edn.Vector(v) },
		func() { edn.List(v) },
		func() { edn.SetOf(v) },
		func() { b.Map() },
		func() { edn.Nil().Assoc(edn.Nil(), v) },
		func() { edn.Vector(edn.Int(1)).MapValues(func(edn.Value) edn.Value { return v }) },
	} {
		assert.Panics(t, f)
	}
}

// Section 1.3, reach and derive.
func TestReachAndDerive(t *testing.T) {
	v := edn.MustRead(`{:a [1 {:b #{:x "y"}}] "s" 2 nil 3 :big {1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 :k 10 sym 11 "z" 12}}`)
	get := func(path string) string {
		var steps []edn.Value
		for s := range edn.MustRead(path).Elems() {
			steps = append(steps, s)
		}
		got, ok := v.GetIn(steps...)
		return fmt.Sprint(got, ok)
	}
	assert.Equal(t, "1 true", get("[:a 0]"))
	assert.Equal(t, ":x true", get("[:a 1 :b :x]"))
	assert.Equal(t, "nil false", get("[:a 1 :b :z]"))
	assert.Equal(t, "nil false", get("[:a 2]"))
	assert.Equal(t, "nil false", get("[:a -1]"))
	assert.Equal(t, "nil false", get("[:a :b]"))
	assert.Equal(t, `2 true`, get(`["s"]`))
	assert.Equal(t, `3 true`, get(`[nil]`))
	assert.Equal(t, `10 true`, get(`[:big :k]`))
	assert.Equal(t, `11 true`, get(`[:big sym]`))
	assert.Equal(t, `9 true`, get(`[:big 9]`))
	assert.Equal(t, "nil false", get(`[:big :nope]`))
	assert.Equal(t, "nil false", get(`[:big 10]`))
	assert.True(t, v.HasKey("a"))
	assert.False(t, v.HasKey("s"))
	assert.False(t, edn.Nil().HasKey("a"))
	assert.True(t, edn.K("a").Key("b").IsNil())
	assert.Equal(t, 4, v.Len())
	assert.Equal(t, 3, edn.MustString("żół").Len())
	assert.Zero(t, edn.Int(5).Len())

	nth, ok := edn.MustRead("(1 2)").Nth(1)
	assert.True(t, ok)
	assert.Equal(t, "2", nth.String())
	_, ok = edn.MustRead("(1 2)").Nth(2)
	assert.False(t, ok)
	_, ok = v.Nth(0)
	assert.False(t, ok)

	list := func(s string) (out []string) {
		for k, x := range edn.MustRead(s).All() {
			out = append(out, k.String()+"="+x.String())
		}
		return out
	}
	assert.Equal(t, []string{"0=:x", "1=:y"}, list("[:x :y]"))
	assert.Equal(t, []string{":a=:a", "nil=nil"}, list("#{nil :a}"))
	assert.Equal(t, []string{"1=2", ":a=3"}, list("{:a 3 1 2}"))
	assert.Empty(t, list("5"))
	for range edn.MustRead("[1 2]").Elems() {
		break
	}
	assert.Len(t, slices.Collect(edn.MustRead("#{1 2 3}").Elems()), 3)

	text := func(v edn.Value) string { return v.String() }
	assert.Equal(t, "{:a 1}", text(edn.Nil().AssocKey("a", edn.Int(1))))
	assert.Equal(t, "[1 9]", text(edn.MustRead("[1 2]").Assoc(edn.Int(1), edn.Int(9))))
	assert.Equal(t, "[1 2 9]", text(edn.MustRead("[1 2]").Assoc(edn.Int(2), edn.Int(9))))
	assert.Equal(t, "{:b 2}", text(edn.MustRead("{:a 1 :b 2 :c 3}").Dissoc(edn.K("a"), edn.K("c"), edn.K("z"))))
	assert.Equal(t, "nil", text(edn.Nil().Dissoc(edn.K("a"))))
	assert.Equal(t, "[1 2 3]", text(edn.MustRead("[1]").Conj(edn.Int(2), edn.Int(3))))
	assert.Equal(t, "(3 2 1)", text(edn.MustRead("(1)").Conj(edn.Int(2), edn.Int(3))))
	assert.Equal(t, "#{1 2}", text(edn.MustRead("#{1}").Conj(edn.Int(2), edn.Int(1))))
	assert.Equal(t, "{:a 2 :b 3 :c 4}", text(edn.MustRead("{:a 1}").Conj(edn.MustRead("[:a 2]"), edn.MustRead("{:b 3 :c 4}"))))
	assert.Equal(t, "[1]", text(edn.Nil().Conj(edn.Int(1))))
	assert.Equal(t, "{:a 2 :b 1}", text(edn.MustRead("{:a 1 :b 1}").Merge(edn.MustRead("{:a 2}"))))
	assert.Equal(t, "{:a 1}", text(edn.Nil().Merge(edn.MustRead("{:a 1}"))))
	assert.Equal(t, "{}", text(edn.MustRead("{}").Merge(edn.Nil())))
	deep, err := edn.MustRead("{:a {:b 1}}").AssocIn([]edn.Value{edn.K("a"), edn.K("c"), edn.K("d")}, edn.Int(2))
	require.NoError(t, err)
	assert.Equal(t, "{:a {:b 1 :c {:d 2}}}", text(deep))
	whole, err := v.AssocIn(nil, edn.Int(1))
	require.NoError(t, err)
	assert.Equal(t, "1", text(whole))
	_, err = v.AssocIn([]edn.Value{edn.MustString("s"), edn.K("x")}, edn.Int(2))
	assert.ErrorContains(t, err, "assoc is not defined")

	double := func(x edn.Value) edn.Value {
		if i, ok := x.AsInt(); ok {
			return edn.Int(2 * i)
		}
		return x
	}
	assert.Equal(t, "{1 2 :a 4}", text(edn.MustRead("{1 1 :a 2}").MapValues(double)))
	assert.Equal(t, "(2 4)", text(edn.MustRead("(1 2)").MapValues(double)))
	assert.Equal(t, "#{0}", text(edn.MustRead("#{1 2}").MapValues(func(edn.Value) edn.Value { return edn.Int(0) })))
	assert.Equal(t, ":k", text(edn.K("k").MapValues(double)))
	walked, err := edn.MustRead("{1 [1 #{1 2} #t (3)]}").Walk(nil, double)
	require.NoError(t, err)
	assert.Equal(t, "{1 [2 #{2 4} #t (6)]}", text(walked))
	pruned, err := edn.MustRead("[[:stop 1] 2]").Walk(func(x edn.Value) edn.Value {
		if first, ok := x.Nth(0); ok && edn.Equal(first, edn.K("stop")) {
			return edn.K("stopped")
		}
		return double(x)
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, "[:stopped 4]", text(pruned))
	_, err = edn.MustRead(`#ferment/secret "s"`).Walk(nil, func(x edn.Value) edn.Value {
		if x.IsString() {
			return edn.Int(1)
		}
		return x
	})
	assert.Error(t, err, "the tag refuses what it would hold")
}

// Section 1.3, ask: exactly one predicate is true for each kind.
func TestAsk(t *testing.T) {
	values := []edn.Value{
		edn.KindNil: edn.Nil(), edn.KindBool: edn.Bool(true), edn.KindInt: edn.Int(1), edn.KindFloat: edn.MustFloat(1), edn.KindDecimal: edn.MustDecimal("1"),
		edn.KindString: edn.MustString("a/b"), edn.KindChar: edn.MustChar('a'), edn.KindKeyword: edn.K("a/b"), edn.KindSymbol: edn.MustSymbol("a/b"),
		edn.KindList: edn.List(), edn.KindVector: edn.Vector(), edn.KindMap: edn.MustMap(), edn.KindSet: edn.MustSet(),
		edn.KindTagged: edn.MustTagged("t", edn.Nil()), edn.KindInst: edn.Inst(time.Unix(0, 0)), edn.KindUUID: edn.UUID([16]byte{1}),
	}
	for k, v := range values {
		kind := edn.Kind(k)
		assert.Equal(t, kind, v.Kind())
		is := []bool{v.IsNil(), v.IsBool(), v.IsInt(), v.IsFloat(), v.IsDecimal(), v.IsString(), v.IsChar(), v.IsKeyword(), v.IsSymbol(),
			v.IsList(), v.IsVector(), v.IsMap(), v.IsSet(), v.IsTagged(), v.IsInst(), v.IsUUID()}
		for i, yes := range is {
			assert.Equal(t, i == k, yes, "%s", kind)
		}
		_, asBool := v.AsBool()
		_, asInt := v.AsInt()
		_, asBig := v.AsBigInt()
		_, asFloat := v.AsFloat()
		_, _, asDecimal := v.AsDecimal()
		_, asNumber := v.AsNumber()
		_, asString := v.AsString()
		_, asChar := v.AsChar()
		_, asKeyword := v.AsKeyword()
		_, asSymbol := v.AsSymbol()
		_, _, asTagged := v.AsTagged()
		_, asInst := v.AsInst()
		_, asUUID := v.AsUUID()
		for want, got := range map[edn.Kind]bool{edn.KindBool: asBool, edn.KindInt: asInt && asBig, edn.KindFloat: asFloat, edn.KindDecimal: asDecimal,
			edn.KindString: asString, edn.KindChar: asChar, edn.KindKeyword: asKeyword, edn.KindSymbol: asSymbol, edn.KindTagged: asTagged,
			edn.KindInst: asInst, edn.KindUUID: asUUID} {
			assert.Equal(t, kind == want, got, "%s as %s", kind, want)
		}
		assert.Equal(t, v.IsNumber(), asNumber)
		assert.Equal(t, kind != edn.KindNil, v.Truthy())
		named := kind == edn.KindKeyword || kind == edn.KindSymbol
		assert.Equal(t, named, v.Name() == "b" && v.Namespace() == "a")
		assert.NotEqual(t, "unknown", kind.String())
	}
	assert.False(t, edn.Bool(false).Truthy())
	assert.Equal(t, "plain", edn.K("plain").Name())
	assert.Empty(t, edn.K("plain").Namespace())
	_, ok := edn.MustRead("99999999999999999999").AsInt()
	assert.False(t, ok, "beyond 64 bits")
	assert.Equal(t, "unknown", edn.Kind(99).String())
	assert.Equal(t, "edn.MustRead(\"[:a]\")", fmt.Sprintf("%#v", edn.MustRead("[:a]")))
	assert.Equal(t, "[:a]", fmt.Sprint(edn.MustRead("[:a]")))
	for text, want := range map[string]string{"1.50M": "3/2", "1e3": "1000", "-5": "-5", "1e-2M": "1/100", "0.1": "1/10", "1E30M": "1000000000000000000000000000000"} {
		r, ok := edn.MustRead(text).AsNumber()
		require.True(t, ok)
		assert.Equal(t, want, r.RatString())
	}
}

// Every request looks up keyword keys.
func TestKeyAllocatesNothing(t *testing.T) {
	v := edn.MustRead(`{:task {:intent :a} :a 1 :b 2 :c 3 :d 4 :e 5 :f 6 :g 7 :h 8 "s" 9 1 2}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if !v.Key("task").HasKey("intent") || v.Has(edn.Int(7)) || !v.Has(edn.Int(1)) || edn.Compare(v, v) != 0 {
			panic("lost")
		}
	}))
}

// The optional entries of a MapBuilder are left out if they are empty.
func TestMapBuilderOpt(t *testing.T) {
	var b edn.MapBuilder
	b.Opt("nil", edn.Nil())
	b.OptText("text", "")
	b.OptKeyword("keyword", "")
	b.OptInt("int", 0)
	b.OptTrue("true", false)
	assert.Equal(t, "{}", b.Map().String())
	b.Opt("nil", edn.Bool(false))
	b.OptText("text", "x")
	b.OptKeyword("keyword", "a/b")
	b.OptInt("int", -1)
	b.OptTrue("true", true)
	assert.Equal(t, `{:int -1 :keyword :a/b :nil false :text "x" :true true}`, b.Map().String())
}
