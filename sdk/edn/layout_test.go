package edn_test

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Section 1.3: a map made by a layout equals the map of its entries.
func TestLayout(t *testing.T) {
	l := edn.NewLayout("z", "a/b", "m")
	assert.Equal(t, `{:a/b 2 :m nil :z 1}`, l.Map(edn.Int(1), edn.Int(2), edn.Nil()).String())
	assert.Equal(t, `{:a/b 2 :z 1}`, l.Present(edn.Int(1), edn.Int(2), edn.Nil()).String())
	assert.Equal(t, `{}`, l.Present(edn.Nil(), edn.Nil(), edn.Nil()).String())
	assert.True(t, edn.Equal(edn.MustMap(), edn.NewLayout().Map()))
	nested := l.Map(edn.Vector(edn.MustMap()), edn.Int(1), edn.Int(2))
	assert.Equal(t, 3, nested.Depth())
	assert.True(t, edn.Equal(nested, edn.MustRead(nested.String())))

	assert.Panics(t, func() { edn.NewLayout("a", "a") })
	assert.Panics(t, func() { edn.NewLayout("a b") })
	assert.Panics(t, func() { l.Map(edn.Int(1)) })
	assert.Panics(t, func() { l.Present(edn.Int(1)) })
	deep := edn.Int(1)
	for range edn.MaxDepth {
		deep = edn.Vector(deep)
	}
	assert.Panics(t, func() { l.Map(deep, edn.Nil(), edn.Nil()) })
}

// A builder can be used after Map, which does not change the map, for any
// number of entries.
func TestMapBuilderGoesOn(t *testing.T) {
	var b edn.MapBuilder
	var made []edn.Value
	var texts []string
	for i := range 40 {
		b.Set(edn.Int(int64(39-i)), edn.Int(int64(i)))
		b.Set(edn.Int(int64(39-i/2)), edn.Int(int64(-i))) // the last of equal keys wins
		m := b.Map()
		made, texts = append(made, m), append(texts, m.String())
		assert.Equal(t, i+1, m.Len())
		last, _ := m.Get(edn.Int(int64(39 - i/2)))
		assert.True(t, edn.Equal(last, edn.Int(int64(-i))))
	}
	for i := range made {
		assert.Equal(t, texts[i], made[i].String())
	}
	copied := b
	copied.Key("a", edn.Int(1))
	assert.False(t, b.Map().HasKey("a"))
	assert.True(t, copied.Map().HasKey("a"))
}

// Section 1.2: a decimal made of a small number equals the decimal of its text.
func TestDecimalOfSmallNumbers(t *testing.T) {
	for _, coef := range []int64{1, -1, 10, 500, 1000, -1200, 999, 123456789, math.MaxInt64, math.MinInt64, 1e18, -1e18} {
		for _, exp := range []int{-999, -20, -3, -1, 0, 1, 3} {
			made, err := edn.Decimal(big.NewInt(coef), exp)
			read, wrong := edn.ParseDecimal(strconv.FormatInt(coef, 10) + "e" + strconv.Itoa(exp))
			require.Equal(t, wrong == nil, err == nil, "%d e %d: %v, %v", coef, exp, err, wrong)
			assert.Equal(t, read.String(), made.String())
			assert.True(t, edn.Equal(read, made))
			assert.Equal(t, edn.Hash(read), edn.Hash(made))
		}
	}
}

// A fraction becomes an equal decimal or returns an error.
func TestRatDecimal(t *testing.T) {
	long := strings.Repeat("7", 1000)
	for _, text := range []string{"0", "1", "-1", "0.1", "-12.5", "1E+40", "100", "0.000000000001", "1E-1000", long, "-0." + long[1:], "123456789012345678901234567890.5"} {
		want, err := edn.ParseDecimal(text)
		require.NoError(t, err)
		r, _ := want.AsNumber()
		got, err := edn.RatDecimal(r)
		require.NoError(t, err, text)
		assert.Equal(t, want.String(), got.String())
		assert.True(t, edn.Equal(want, got), text)
		assert.Equal(t, want.Kind(), got.Kind())
		again, _ := got.AsNumber()
		assert.Zero(t, r.Cmp(again), "the fraction that was given stays as it is")
	}
	thousand, _ := edn.MustDecimal("1E-1000").AsNumber()
	for name, r := range map[string]*big.Rat{
		"nil": nil, "a third": big.NewRat(1, 3), "digits": new(big.Rat).Add(big.NewRat(1, 1), thousand),
		"exponent": new(big.Rat).Quo(thousand, big.NewRat(10, 1)),
	} {
		_, err := edn.RatDecimal(r)
		var invalid *edn.ValueError
		require.ErrorAs(t, err, &invalid, name)
		assert.Equal(t, edn.KindDecimal, invalid.Kind)
	}
}
