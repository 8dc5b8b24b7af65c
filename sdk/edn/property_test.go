package edn_test

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-050 requires values nested eight deep. Package schema tests its law
// VAL-041, which needs schemas.
const propertyDepth = 8

// VAL-004: read(write(v)) == v, and writing again returns the same bytes.
func TestReadWriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(propertyDepth).Draw(t, "v")
		text := edn.Write(v)
		back, err := edn.Read(text)
		require.NoError(t, err, "%s", text)
		require.True(t, edn.Equal(v, back), "%s read as %s", text, back)
		require.Equal(t, string(text), string(edn.Write(back)))
		require.Equal(t, edn.Hash(v), edn.Hash(back))
	})
}

// VAL-020: equal values have equal canonical bytes and the reverse. VAL-050:
// Compare is a total order that agrees with the bytes.
func TestCompareAgreesWithCanonicalBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flat := genValue(3)
		vs := []edn.Value{genValue(propertyDepth).Draw(t, "a"), flat.Draw(t, "b"), flat.Draw(t, "c")}
		vs = append(vs, near(t, vs[0]))
		for _, a := range vs {
			for _, b := range vs {
				want := bytes.Compare(a.Canonical(), b.Canonical())
				require.Equal(t, want, edn.Compare(a, b), "%s <> %s", a, b)
				require.Equal(t, want == 0, edn.Equal(a, b), "%s = %s", a, b)
				require.Equal(t, -want, edn.Compare(b, a))
			}
		}
		sorted := slices.Clone(vs)
		slices.SortFunc(sorted, edn.Compare)
		require.True(t, slices.IsSortedFunc(sorted, func(a, b edn.Value) int {
			return bytes.Compare(a.Canonical(), b.Canonical())
		}))
	})
}

// near draws a value that shares a long prefix with v.
func near(t *rapid.T, v edn.Value) edn.Value {
	other := genValue(1).Draw(t, "other")
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		return v.Conj(other)
	case edn.KindMap:
		return v.Assoc(other, other)
	case edn.KindString:
		s, _ := v.AsString()
		return edn.MustString(s + drawText(t))
	case edn.KindInt:
		i, _ := v.AsBigInt()
		return edn.BigInt(i.Add(i, i))
	}
	return other
}

// VAL-050: canonical bytes do not depend on the order in which a map or set was
// built.
func TestCanonicalBytesDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(genValue(2), 0, 30, func(v edn.Value) string { return v.String() }).Draw(t, "keys")
		list := make([]edn.Entry, len(keys))
		for i, k := range keys {
			list[i] = edn.Entry{Key: k, Val: edn.Int(int64(i))}
		}
		m, err := edn.Map(list)
		require.NoError(t, err)
		set, err := edn.Set(keys)
		require.NoError(t, err)
		shuffled := rapid.Permutation(list).Draw(t, "order")
		var b edn.MapBuilder
		one := edn.Nil()
		var members []edn.Value
		for _, e := range shuffled {
			b.Set(e.Key, edn.Nil()) // replaced below: the last entry wins
			one = one.Assoc(e.Key, e.Val)
			members = append(members, e.Key)
		}
		for _, e := range shuffled {
			b.Set(e.Key, e.Val)
		}
		require.Equal(t, m.String(), b.Map().String())
		if len(list) > 0 {
			require.Equal(t, m.String(), one.String())
		}
		require.Equal(t, set.String(), edn.SetOf(append(members, members...)...).String())
		for _, e := range list {
			got, ok := m.Get(e.Key)
			require.True(t, ok)
			require.True(t, edn.Equal(e.Val, got))
			require.True(t, set.Has(e.Key))
		}
	})
}

// VAL-050: Get(Assoc(m, k, v), k) = v, and the other laws of derived maps.
func TestMapLaws(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) edn.Value {
		var b edn.MapBuilder
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			b.Set(genValue(1).Draw(t, "k"), genValue(1).Draw(t, "v"))
		}
		return b.Map()
	})
	rapid.Check(t, func(t *rapid.T) {
		m, o := gen.Draw(t, "m"), gen.Draw(t, "o")
		k, v := genValue(1).Draw(t, "k"), genValue(2).Draw(t, "v")
		was, wasOther := m.String(), o.String()
		got, ok := m.Assoc(k, v).Get(k)
		require.True(t, ok)
		require.True(t, edn.Equal(v, got))
		require.False(t, m.Assoc(k, v).Dissoc(k).Has(k))
		if !m.Has(k) {
			require.True(t, edn.Equal(m, m.Assoc(k, v).Dissoc(k)))
		}
		merged := m.Merge(o)
		for key, val := range o.Entries() {
			got, _ := merged.Get(key)
			require.True(t, edn.Equal(val, got), "right wins")
		}
		for key, val := range m.Entries() {
			if !o.Has(key) {
				got, _ := merged.Get(key)
				require.True(t, edn.Equal(val, got))
			}
		}
		require.Equal(t, was, m.String(), "VAL-021: deriving changes nothing")
		require.Equal(t, wasOther, o.String())
		back, err := edn.Read(merged.Canonical())
		require.NoError(t, err)
		require.True(t, edn.Equal(merged, back))
	})
}

// VAL-021, VAL-050: a thousand goroutines read one value and compute its hash
// concurrently. Under the race detector this also proves that the cached hash
// is written atomically.
func TestManyGoroutinesShareOneValue(t *testing.T) {
	text := `{:nodes [{:id :a :n 1.5M} {:id :b :s #{1 2 "x"}}] :t #my/tag {:when #inst "2026-11-20T10:00:00Z"} "k" 123456789012345678901234567890}`
	v := edn.MustRead(text)
	want, hash := v.String(), edn.Hash(edn.MustRead(text))
	var wg sync.WaitGroup
	var mu sync.Mutex
	bad := 0
	for range 1000 {
		wg.Go(func() {
			inner, _ := v.GetIn(edn.K("nodes"), edn.Int(1), edn.K("id"))
			changed := v.AssocKey("x", edn.Int(1))
			ok := edn.Hash(v) == hash && v.String() == want && inner.Name() == "b" && edn.Equal(v, v.Detach()) &&
				edn.Compare(v, changed) != 0 && v.Key("x").IsNil() && v.Size() > 0
			for range v.All() {
				ok = ok && true
			}
			if !ok {
				mu.Lock()
				bad++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Zero(t, bad)
}

// VAL-021: inputs and outputs are copied; modifying them later does not change
// a value.
func TestValuesOwnTheirInputs(t *testing.T) {
	b := []byte(`{:a "text" :b [1 2]}`)
	v, err := edn.Read(b)
	require.NoError(t, err)
	prefix, n, err := edn.ReadPrefix(b)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	for i := range b {
		b[i] = 'x'
	}
	assert.Equal(t, `{:a "text" :b [1 2]}`, v.String())
	assert.Equal(t, `{:a "text" :b [1 2]}`, prefix.String())

	elems := []edn.Value{edn.Int(1), edn.Int(2)}
	vector, list := edn.Vector(elems...), edn.List(elems...)
	elems[0] = edn.Int(9)
	assert.Equal(t, "[1 2]", vector.String())
	assert.Equal(t, "(1 2)", list.String())
	out := v.Canonical()
	out[1] = '!'
	assert.Equal(t, `{:a "text" :b [1 2]}`, v.String())

	entries := []edn.Entry{{Key: edn.K("a"), Val: edn.Int(1)}}
	m, err := edn.Map(entries)
	require.NoError(t, err)
	entries[0] = edn.Entry{Key: edn.K("b"), Val: edn.Int(2)}
	assert.Equal(t, "{:a 1}", m.String())
	for _, text := range []string{"7", "123456789012345678901234567890"} {
		n, ok := new(big.Int).SetString(text, 10)
		require.True(t, ok)
		whole := edn.BigInt(n)
		tenths, err := edn.Decimal(n, -1)
		require.NoError(t, err)
		w, d := whole.String(), tenths.String()
		n.SetInt64(3)
		for _, number := range []edn.Value{whole, tenths} {
			if i, ok := number.AsBigInt(); ok {
				i.SetInt64(3)
			}
			if coef, _, ok := number.AsDecimal(); ok {
				coef.SetInt64(3)
			}
			r, ok := number.AsNumber()
			require.True(t, ok)
			r.SetInt64(3)
		}
		assert.Equal(t, w, whole.String())
		assert.Equal(t, d, tenths.String())
	}
}

// VAL-033: pretty text reads back to the value for every width from 1, and
// lines are broken only if necessary.
func TestPrettyReadsBack(t *testing.T) {
	first := []edn.Value{edn.K("proto"), edn.K("id"), edn.MustString("z")}
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(4).Draw(t, "v")
		opts := edn.PrettyOptions{Width: rapid.IntRange(1, 120).Draw(t, "width"), Indent: rapid.IntRange(0, 4).Draw(t, "indent")}
		if rapid.Bool().Draw(t, "ordered") {
			opts.First = first
		}
		text := edn.WritePretty(v, opts)
		back, err := edn.Read(text)
		require.NoError(t, err, "%s", text)
		require.True(t, edn.Equal(v, back), "%s", text)
		if len(v.String()) <= opts.Width && !strings.Contains(v.String(), "\n") {
			require.NotContains(t, string(text), "\n")
		}
	})
}

// VAL-021: a detached copy is equal; its size is counted.
func TestDetachIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(4).Draw(t, "v")
		d := v.Detach()
		require.True(t, edn.Equal(v, d))
		require.Equal(t, edn.Hash(v), edn.Hash(d))
		require.Equal(t, v.Size(), d.Size())
	})
}
