package schema

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

var (
	genKeys  = []string{"a", "b", "ns/c", "d?", "e-f"}
	genTexts = []string{"", "a", "ns/c", ":a", "żółć", "10", "1.5", " ", "2026-11-20T10:00:00Z", "a b", "\U0001D11E"}
	genWords = []string{"a", "b", "ns/c", "x", "true", "nil"}
)

// genForm draws a schema form. typed leaves out forms that do not type a value
// for JSON: :any, untyped collections, and unions whose branches are equal in
// JSON.
func genForm(depth int, typed bool) *rapid.Generator[edn.Value] {
	return rapid.Custom(func(t *rapid.T) edn.Value { return drawForm(t, depth, typed) })
}

func drawForm(t *rapid.T, depth int, typed bool) edn.Value {
	scalars := []func() edn.Value{
		func() edn.Value {
			return edn.K(rapid.SampledFrom([]string{"nil", "boolean", "int", "double", "decimal", "string", "char", "keyword", "symbol", "inst", "uuid"}).Draw(t, "word"))
		},
		func() edn.Value {
			return drawLimited(t, rapid.SampledFrom([]string{"int", "double", "decimal"}).Draw(t, "num"))
		},
		func() edn.Value { return drawSized(t, "string") },
		func() edn.Value {
			return edn.Vector(edn.K("re"), edn.Text(rapid.SampledFrom([]string{`\S`, "a", "^1"}).Draw(t, "re")))
		},
		func() edn.Value { return drawEnum(t) },
	}
	if !typed {
		scalars = append(scalars,
			func() edn.Value {
				return edn.K(rapid.SampledFrom([]string{"any", "number", "map", "vector", "list", "set"}).Draw(t, "word"))
			},
			func() edn.Value { return drawLimited(t, "number") },
			func() edn.Value { return edn.Vector(edn.K("ref"), edn.K("ferment/text")) },
		)
	}
	if depth <= 0 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")()
	}
	inner := func() edn.Value { return drawForm(t, depth-1, typed) }
	nested := []func() edn.Value{
		func() edn.Value { return drawMap(t, inner) },
		func() edn.Value { return drawSized(t, "vector", inner()) },
		func() edn.Value { return drawSized(t, "list", inner()) },
		func() edn.Value { return edn.Vector(edn.K("set"), inner()) },
		func() edn.Value { return edn.Vector(edn.K("tuple"), inner(), inner()) },
		func() edn.Value { return edn.Vector(edn.K("map-of"), drawForm(t, 0, true), inner()) },
	}
	if !typed {
		nested = append(nested,
			func() edn.Value { return edn.Vector(edn.K("maybe"), inner()) },
			func() edn.Value { return drawSized(t, "sequential", inner()) },
			func() edn.Value { return edn.Vector(edn.K("or"), inner(), inner()) },
			func() edn.Value { return edn.Vector(edn.K("and"), inner(), inner()) },
			func() edn.Value { return edn.Vector(edn.K("not"), inner()) },
		)
	}
	if rapid.IntRange(0, 3).Draw(t, "nest") == 0 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")()
	}
	return rapid.SampledFrom(nested).Draw(t, "nested")()
}

func drawLimited(t *rapid.T, kind string) edn.Value {
	n := rapid.IntRange(-3, 3).Draw(t, "min")
	bound := func(i int) edn.Value {
		switch {
		case kind == "double":
			return edn.MustFloat(float64(i) + 0.5)
		case kind == "decimal":
			return edn.MustDecimal(fmt.Sprintf("%d.5", i))
		}
		return edn.Int(int64(i))
	}
	return edn.Vector(edn.K(kind), edn.MustMap(edn.K("min"), bound(n), edn.K("max"), bound(n+rapid.IntRange(0, 4).Draw(t, "span"))))
}

func drawSized(t *rapid.T, kind string, kids ...edn.Value) edn.Value {
	form := []edn.Value{edn.K(kind)}
	if rapid.Bool().Draw(t, "sized") {
		n := rapid.IntRange(0, 2).Draw(t, "min")
		form = append(form, edn.MustMap(edn.K("min"), edn.Int(int64(n)), edn.K("max"), edn.Int(int64(n+2)), edn.K("title"), edn.Text("sized")))
	}
	return edn.Vector(append(form, kids...)...)
}

func drawEnum(t *rapid.T) edn.Value {
	members := rapid.SampledFrom([][]edn.Value{
		{edn.K("a"), edn.K("ns/c")},
		{edn.K("x")},
		{edn.Text("a"), edn.Text("b")},
		{edn.Int(1), edn.Text("x"), edn.Nil()},
		{edn.MustSymbol("a"), edn.MustDecimal("1.5"), edn.Bool(true)},
		{edn.MustMap(edn.K("k"), edn.K("v")), edn.SetOf(edn.K("a"))},
	}).Draw(t, "members")
	return edn.Vector(append([]edn.Value{edn.K("enum"), edn.MustMap()}, members...)...)
}

func drawMap(t *rapid.T, inner func() edn.Value) edn.Value {
	props := edn.MustMap()
	if rapid.Bool().Draw(t, "closed") {
		props = props.AssocKey("closed", edn.Bool(true))
	}
	if rapid.Bool().Draw(t, "described") {
		props = props.AssocKey("description", edn.Text("a map"))
	}
	form := []edn.Value{edn.K("map"), props}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(genKeys), 0, 4, rapid.ID).Draw(t, "keys") {
		entry := []edn.Value{edn.K(key)}
		switch rapid.IntRange(0, 3).Draw(t, "entry") {
		case 0:
			entry = append(entry, edn.MustMap(edn.K("optional"), edn.Bool(true)))
		case 1:
			entry = append(entry, edn.MustMap(edn.K("optional"), edn.Bool(true), edn.K("doc"), edn.Text("about"), edn.K("default"), edn.K("a"), edn.K("secret"), edn.Bool(true)))
		}
		form = append(form, edn.Vector(append(entry, inner())...))
	}
	return edn.Vector(form...)
}

// drawFor draws a value that fits the schema, or nearly fits where that is
// difficult.
func drawFor(t *rapid.T, s *Schema) edn.Value {
	n := 0
	if s.sized() {
		most := 4
		if s.maxLen >= 0 {
			most = s.maxLen
		}
		n = rapid.IntRange(min(s.minLen, most), most).Draw(t, "n")
	}
	many := func(kid *Schema) []edn.Value {
		var out []edn.Value
		for range n {
			out = append(out, drawFor(t, kid))
		}
		return out
	}
	element := &Schema{maxLen: -1}
	if len(s.kids) > 0 {
		element = s.kids[0]
	}
	switch s.kind {
	case KindAny, KindNot:
		return drawAny(t, 2)
	case KindNumber:
		return drawNumber(t, rapid.SampledFrom([]Kind{KindInt, KindDouble, KindDecimal}).Draw(t, "kind"), s)
	case KindInt, KindDouble, KindDecimal:
		return drawNumber(t, s.kind, s)
	case KindString:
		return edn.Text(string(rapid.SliceOfN(rapid.SampledFrom([]rune("aż \U0001D11E1:")), n, n).Draw(t, "text")))
	case KindRe:
		return edn.Text("1a" + rapid.SampledFrom(genTexts).Draw(t, "text"))
	case KindEnum:
		return rapid.SampledFrom(s.members).Draw(t, "member")
	case KindRef:
		return drawFor(t, s.target)
	case KindMaybe:
		if rapid.Bool().Draw(t, "nil") {
			return edn.Nil()
		}
		return drawFor(t, s.kids[0])
	case KindOr, KindAnd:
		return drawFor(t, rapid.SampledFrom(s.kids).Draw(t, "branch"))
	case KindMap:
		return drawEntries(t, s)
	case KindMapOf:
		var b edn.MapBuilder
		for range n {
			b.Set(drawFor(t, s.kids[0]), drawFor(t, s.kids[1]))
		}
		return b.Map()
	case KindVector, KindSequential:
		return edn.Vector(many(element)...)
	case KindList:
		return edn.List(many(element)...)
	case KindSet:
		return edn.SetOf(many(element)...)
	case KindTuple:
		var out []edn.Value
		for _, kid := range s.kids {
			out = append(out, drawFor(t, kid))
		}
		return edn.Vector(out...)
	}
	return drawScalar(t, s.kind)
}

func drawEntries(t *rapid.T, s *Schema) edn.Value {
	m := edn.MustMap()
	for i := range s.entries {
		e := &s.entries[i]
		if !e.Optional || rapid.Bool().Draw(t, "present") {
			m = m.Assoc(e.Key, drawFor(t, e.Schema))
		}
	}
	return m
}

func drawNumber(t *rapid.T, kind Kind, s *Schema) edn.Value {
	low, high := -1000, 1000
	if s.min != nil {
		f, _ := s.min.rat.Float64()
		low = int(f)
	}
	if s.max != nil {
		f, _ := s.max.rat.Float64()
		high = int(f)
	}
	n := rapid.IntRange(min(low, high), max(low, high)).Draw(t, "number")
	switch kind {
	case KindDouble:
		return edn.MustFloat(float64(n) + rapid.SampledFrom([]float64{0, 0.5, 0.25}).Draw(t, "part"))
	case KindDecimal:
		return edn.MustDecimal(fmt.Sprintf("%d.%s", n, rapid.SampledFrom([]string{"0", "5", "125"}).Draw(t, "part")))
	}
	if s.min == nil && s.max == nil && rapid.IntRange(0, 9).Draw(t, "big") == 0 {
		return edn.MustRead("99999999999999999999")
	}
	return edn.Int(int64(n))
}

func drawScalar(t *rapid.T, kind Kind) edn.Value {
	switch kind {
	case KindNil:
		return edn.Nil()
	case KindBoolean:
		return edn.Bool(rapid.Bool().Draw(t, "bool"))
	case KindChar:
		c, _ := edn.Char(rapid.SampledFrom([]rune("a 1ż\U0001D11E\n")).Draw(t, "char"))
		return c
	case KindKeyword:
		return edn.K(rapid.SampledFrom(genWords).Draw(t, "keyword"))
	case KindSymbol:
		return edn.MustSymbol(rapid.SampledFrom(genKeys).Draw(t, "symbol"))
	case KindInst:
		return edn.Inst(time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "inst"), rapid.SampledFrom([]int64{0, 1, 5e8}).Draw(t, "ns")))
	case KindUUID:
		return edn.UUID([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")))
	}
	return edn.Text(rapid.SampledFrom(genTexts).Draw(t, "text"))
}

// drawAny draws any value.
func drawAny(t *rapid.T, depth int) edn.Value {
	kinds := []Kind{KindNil, KindBoolean, KindInt, KindDouble, KindDecimal, KindString, KindChar, KindKeyword, KindSymbol, KindInst, KindUUID}
	if depth > 0 {
		kinds = append(kinds, KindMap, KindVector, KindList, KindSet)
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	var members []edn.Value
	if kind >= KindMap {
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			members = append(members, drawAny(t, depth-1))
		}
	}
	switch kind {
	case KindInt, KindDouble, KindDecimal:
		return drawNumber(t, kind, &Schema{})
	case KindMap:
		m := edn.MustMap()
		for _, v := range members {
			m = m.AssocKey(rapid.SampledFrom(genKeys).Draw(t, "key"), v)
		}
		return m
	case KindVector:
		return edn.Vector(members...)
	case KindList:
		return edn.List(members...)
	case KindSet:
		return edn.SetOf(members...)
	}
	return drawScalar(t, kind)
}
