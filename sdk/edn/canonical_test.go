package edn_test

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-030: the examples of the specification's table.
func TestCanonicalSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"+5":                                "5",
		"7N":                                "7",
		"-0":                                "0",
		"9223372036854775808":               "9223372036854775808N",
		"1e3":                               "1000.0",
		"1E+21":                             "1.0e21",
		"0.0000015":                         "0.0000015",
		"15e-8":                             "1.5e-7",
		"1.50M":                             "1.5M",
		"0.000131850M":                      "0.00013185M",
		"1e2M":                              "100M",
		"12e30M":                            "12E30M",
		"0.00M":                             "0M",
		`"a\u0007ż"`:                        `"a\u0007ż"`,
		`\u0041`:                            `\A`,
		`\u002c`:                            `\u002c`,
		":res/patch+tests":                  ":res/patch+tests",
		`#inst "2026-11-20T10:00:00+01:00"`: `#inst "2026-11-20T09:00:00.000Z"`,
		`#uuid "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"`: `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`,
		`{:b 1 :a/b 2 :a 3 "z" 4 10 5 9 6}`:            `{"z" 4 10 5 9 6 :a 3 :a/b 2 :b 1}`,
		`#{2 10 nil [1] :a}`:                           `#{10 2 :a [1] nil}`,
		"( 1,[ 2 ]\n;c\n{ } #x  5)":                    "(1 [2] {} #x 5)",
	} {
		v := edn.MustRead(text)
		assert.Equal(t, want, string(edn.Write(v)), text)
		assert.Equal(t, want, string(v.AppendCanonical([]byte("x"))[1:]), text)
	}
}

// VAL-003: the hash is that of the canonical bytes. The sums were computed with
// another implementation of BLAKE3 (testdata/reader.py).
func TestHash(t *testing.T) {
	assert.Equal(t, "b3:895a91014231b6b48dc21588b192d64ee13517459f7a2f5e7fd94a2e75484394",
		edn.Hash(edn.MustRead(`{:b 1 :a/b 2 :a 3 "z" 4 10 5 9 6}`)))
	v := edn.MustRead("[1 {:a #x 2}]")
	assert.Equal(t, edn.Hash(v), edn.Hash(v), "the second is the cached one")
	assert.NotEqual(t, edn.Hash(edn.MustRead("[1]")), edn.Hash(edn.MustRead("(1)")))
	assert.NotEqual(t, edn.Hash(edn.MustRead("1")), edn.Hash(edn.MustRead("1.0")))
}

// VAL-003: the hash of a long text is that of its canonical bytes, although
// they are never all in memory.
func TestHashOfLongTexts(t *testing.T) {
	for _, unit := range []string{"a", "\x00", "\"", "\u017c", "\U0001F600", "a\n\u017c", "plain words; "} {
		for _, n := range []int{1, 1 << 10, 16<<10 - 3, 16<<10 - 2, 16<<10 - 1, 16 << 10, 17 << 10, 31<<10 + 5, 256<<10 - 2, 256<<10 - 1, 256 << 10, 301<<10 + 9} {
			v := edn.Text(strings.Repeat(unit, n/len(unit)+1))
			sum := blake3.Sum256(v.Canonical())
			require.Equal(t, "b3:"+hex.EncodeToString(sum[:]), edn.Hash(v), "%q x %d", unit, n)
		}
	}
}

// VAL-003: the hash of a value of more than a chunk of BLAKE3, 1 KiB, is that of its
// canonical bytes, at every number of whole and broken chunks.
func TestHashOfChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 7))
	for chunks := range 41 {
		for _, rest := range []int{-1, 0, 1, random.IntN(1 << 10)} {
			size := max(0, chunks<<10+rest-len(`["" 123456]`))
			text := make([]byte, size)
			for i := range text {
				text[i] = 'a' + byte(random.IntN(26))
			}
			v := edn.Vector(edn.Text(string(text)), edn.Int(123456))
			sum := blake3.Sum256(v.Canonical())
			require.Equal(t, "b3:"+hex.EncodeToString(sum[:]), edn.Hash(v), "%d bytes", len(v.Canonical()))
		}
	}
}

// Hashing a value neither allocates nor starts goroutines in proportion to its size:
// one of 4 KiB, whose sum is not kept yet, takes no more allocations than a short one.
func TestHashAllocations(t *testing.T) {
	allocations := func(size int) float64 {
		parts := make([]edn.Value, 101)
		for i := range parts {
			parts[i] = edn.Vector(edn.Text(strings.Repeat("a", size)), edn.Int(int64(i)))
		}
		i := 0
		return testing.AllocsPerRun(100, func() {
			_ = edn.Hash(parts[i])
			i++
		})
	}
	assert.LessOrEqual(t, allocations(4<<10), allocations(100)+1) // a pool may have to fill
}

// VAL-032: chains of tags are written in linear time and memory.
func TestDeepValuesAreWrittenLinearly(t *testing.T) {
	v := edn.Int(1)
	for range 512 {
		v = edn.MustTagged("a", v)
	}
	assert.Len(t, v.Canonical(), 512*3+1)
	wide := make([]edn.Value, 2000)
	for i := range wide {
		wide[i] = v
	}
	allocs := testing.AllocsPerRun(5, func() { _ = v.Canonical() })
	assert.LessOrEqual(t, allocs, 3.0)
	_, err := edn.Tagged("a", v)
	assert.Error(t, err, "VAL-021: one level more is refused")
}

// VAL-033: the layout.
func TestPrettyLayout(t *testing.T) {
	request := edn.MustRead(`{:input {:task "Fix the failing test and keep the signature" :files ["a.go" "b.go"]} :proto 1
	  :trace {:id "r-1" :turn 2} :done {:must #{:schema-valid :patch-applies}} :task {:intent :code/patch}}`)
	first := []edn.Value{edn.K("proto"), edn.K("trace"), edn.K("task"), edn.K("input"), edn.K("result"), edn.K("error")}
	assert.Equal(t, strings.Join([]string{
		`{:proto 1`,
		` :trace {:id "r-1" :turn 2}`,
		` :task {:intent :code/patch}`,
		` :input`,
		`  {:task`,
		`    "Fix the failing test and keep the signature"`,
		`   :files ["a.go" "b.go"]}`,
		` :done`,
		`  {:must`,
		`    #{:patch-applies`,
		`      :schema-valid}}}`,
	}, "\n"), string(edn.WritePretty(request, edn.PrettyOptions{Width: 30, First: first})))

	assert.Equal(t, "[1\n 2\n (3\n  4)\n #{5\n   6}\n #t\n  [7\n   8]\n {9\n   10}]",
		string(edn.WritePretty(edn.MustRead("[1 2 (3 4) #{5 6} #t [7 8] {9 10}]"), edn.PrettyOptions{Width: 1})))
	assert.Equal(t, "[1 2]", string(edn.WritePretty(edn.MustRead("[1 2]"), edn.PrettyOptions{Width: 5})))
	assert.Equal(t, "[1\n 2]", string(edn.WritePretty(edn.MustRead("[1 2]"), edn.PrettyOptions{Width: 4})))
	hundred := "[" + strings.Repeat("1 ", 48) + "1]"
	assert.Len(t, hundred, 99)
	assert.NotContains(t, string(edn.WritePretty(edn.MustRead(hundred), edn.PrettyOptions{})), "\n")
	assert.Contains(t, string(edn.WritePretty(edn.MustRead("["+hundred+"]"), edn.PrettyOptions{Width: 100})), "\n")
	long := `"` + strings.Repeat("x", 300) + `"`
	assert.Equal(t, long, string(edn.WritePretty(edn.MustRead(long), edn.PrettyOptions{Width: 20})))
	assert.Equal(t, "{:a\n    [1\n     2]}", string(edn.WritePretty(edn.MustRead("{:a [1 2]}"), edn.PrettyOptions{Width: 8, Indent: 3})))
}
