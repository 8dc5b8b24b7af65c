package edn_test

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	olympos "olympos.io/encoding/edn"

	"github.com/fermenthq/ferment/sdk/edn"
)

type inner struct {
	Path  string `edn:"path"`
	Lines [2]int
}

type embedded struct {
	Shared string
	Hidden string `edn:"name"`
}

type everything struct {
	embedded
	*Optional
	Name       string `edn:"name"`
	MaxTokens  int
	HTTPPort   uint16
	Ratio      float64
	Small      float32
	OK         bool `edn:"ok?"`
	Files      []inner
	ByName     map[string]inner
	Weights    map[int]string
	Flags      map[string]bool
	Tags       map[string]struct{}
	When       time.Time
	ID         [16]byte
	Big        big.Int
	BigPointer *big.Int
	Raw        []byte
	Any        any
	Value      edn.Value
	Pointer    *int
	Letter     rune  `edn:",rune"`
	Order      []int `edn:",list"`
	Members    []int `edn:",set"`
	Quoted     int   `edn:"quoted,str"`
	Symbolic   int   `edn:"symbolic,sym"`
	Skipped    int   `edn:"-"`
	unexported int
	Empty      string               `edn:",omitempty"`
	Rest       map[string]edn.Value `edn:",rest"`
}

// Optional is exported so that Decode can set the embedded pointer.
type Optional struct {
	Depth *int `edn:"depth,omitempty"`
}

type hidden struct{ Depth int }

const everythingText = `{:name "n" :shared "s" :max-tokens 7 :http-port 80 :ratio 1.5M :small 0.1 :ok? true
 :files [{:path "a" :lines [1 2]} {"path" "b" "lines" (3 4)}] :by-name {:x {:path "p" :lines [0 0]} "y" {:path "q" :lines [0 0]}}
 :weights {1 "one"} :flags #{"a"} :tags {"t" {}} :when #inst "2026-11-20T10:00:00.5Z" :id #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
 :big 123456789012345678901234567890 :big-pointer -5 :raw "aGk=" :any [1 :k] :value #x {1 2} :pointer 3 :letter \ż :order (1 2) :members #{2 1}
 "quoted" 1 symbolic 2 :depth 4 :extra/key 1.25M "more" nil}`

// VAL-022: names, kinds and options of the struct mapping.
func TestDecodeStruct(t *testing.T) {
	var got everything
	got.Empty, got.Skipped, got.unexported = "kept", 1, 2
	require.NoError(t, edn.Decode(edn.MustRead(everythingText), &got))
	assert.Equal(t, "n", got.Name)
	assert.Equal(t, "s", got.Shared)
	assert.Empty(t, got.Hidden, "the shallower field of a name wins")
	assert.Equal(t, 7, got.MaxTokens)
	assert.Equal(t, uint16(80), got.HTTPPort)
	assert.Equal(t, 1.5, got.Ratio)
	assert.Equal(t, float32(0.1), got.Small)
	assert.True(t, got.OK)
	assert.Equal(t, []inner{{"a", [2]int{1, 2}}, {"b", [2]int{3, 4}}}, got.Files)
	assert.Equal(t, map[string]inner{"x": {Path: "p"}, "y": {Path: "q"}}, got.ByName)
	assert.Equal(t, map[int]string{1: "one"}, got.Weights)
	assert.Equal(t, map[string]bool{"a": true}, got.Flags)
	assert.Equal(t, map[string]struct{}{"t": {}}, got.Tags)
	assert.Equal(t, time.Date(2026, 11, 20, 10, 0, 0, 5e8, time.UTC), got.When)
	assert.Equal(t, byte(0xf8), got.ID[0])
	assert.Equal(t, "123456789012345678901234567890", got.Big.String())
	assert.Equal(t, int64(-5), got.BigPointer.Int64())
	assert.Equal(t, "hi", string(got.Raw))
	assert.Equal(t, "[1 :k]", got.Any.(edn.Value).String())
	assert.Equal(t, "#x {1 2}", got.Value.String())
	assert.Equal(t, 3, *got.Pointer)
	assert.Equal(t, 'ż', got.Letter)
	assert.Equal(t, []int{1, 2}, got.Order)
	assert.Equal(t, []int{1, 2}, got.Members)
	assert.Equal(t, 1, got.Quoted)
	assert.Equal(t, 2, got.Symbolic)
	assert.Equal(t, 4, *got.Depth)
	assert.Equal(t, "kept", got.Empty)
	assert.Equal(t, [2]int{1, 2}, [2]int{got.Skipped, got.unexported})
	require.Len(t, got.Rest, 2)
	assert.Equal(t, "1.25M", got.Rest["extra/key"].String())
}

// VAL-022: a decoded value encodes to the same value, except for forms that Go
// types cannot represent.
func TestEncodeStruct(t *testing.T) {
	var x everything
	require.NoError(t, edn.Decode(edn.MustRead(everythingText), &x))
	x.Rest = map[string]edn.Value{"more": edn.Nil()}
	got, err := edn.Encode(x)
	require.NoError(t, err)
	want := edn.MustRead(`{:name "n" :shared "s" :max-tokens 7 :http-port 80 :ratio 1.5 :small 0.1 :ok? true
	 :files [{:path "a" :lines [1 2]} {:path "b" :lines [3 4]}] :by-name {"x" {:path "p" :lines [0 0]} "y" {:path "q" :lines [0 0]}}
	 :weights {1 "one"} :flags #{"a"} :tags #{"t"} :when #inst "2026-11-20T10:00:00.5Z" :id #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	 :big 123456789012345678901234567890 :big-pointer -5 :raw "aGk=" :any [1 :k] :value #x {1 2} :pointer 3 :letter \ż :order (1 2) :members #{2 1}
	 "quoted" 1 symbolic 2 :depth 4 "more" nil}`)
	assert.Equal(t, want.String(), got.String())

	zero, err := edn.Encode(struct {
		A []int
		B map[string]int
		C *int
		D any
		E edn.Value
		F string    `edn:",omitempty"`
		G edn.Value `edn:",omitempty"`
		H []int     `edn:",omitempty"`
		I bool      `edn:",omitempty"`
		J map[string]bool
		K map[string]bool `edn:",map"`
		L struct{}
	}{J: map[string]bool{"yes": true, "no": false}, K: map[string]bool{"no": false}})
	require.NoError(t, err)
	assert.Equal(t, `{:a nil :b nil :c nil :d nil :e nil :j #{"yes"} :k {"no" false} :l {}}`, zero.String())

	nothing, err := edn.Encode(nil)
	require.NoError(t, err)
	assert.True(t, nothing.IsNil())
	bad, err := edn.Encode("a\xffb")
	require.NoError(t, err)
	assert.Equal(t, "\"a\uFFFDb\"", bad.String())
	v := edn.K("x")
	pointer, err := edn.Encode(map[string]any{"v": &v, "u": uint64(math.MaxUint64), "t": []any{nil, 1, "s"}})
	require.NoError(t, err)
	assert.Equal(t, `{"t" [nil 1 "s"] "u" 18446744073709551615N "v" :x}`, pointer.String())
}

// VAL-022: every problem is reported, with its path.
func TestDecodeReportsEveryProblem(t *testing.T) {
	type target struct {
		A int8
		B string
		C []struct{ X uint }
		D map[int]bool
		E [2]int
		F time.Time
		G *float32
		H chan int
		I []byte
		J big.Int
		K bool
		L int
		M struct{ N int }
	}
	err := edn.Decode(edn.MustRead(`{:a 300 :b :kw :c [{:x 1} {:x -1} 5] :d {:x true 1 2} :e [1] :f "now" :g 1e300 :h 1 :i "!" :j 1.5
	  :k nil :l 1 "l" 2 :m [] :unknown 1}`), &target{})
	var decode *edn.DecodeError
	require.True(t, errors.As(err, &decode))
	got := map[string]string{}
	for _, p := range decode.Problems {
		got[edn.Vector(p.Path...).String()] = p.Message
	}
	assert.Equal(t, map[string]string{
		"[:a]":      "integer 300 does not fit into int8",
		"[:b]":      "expected a string, got keyword :kw",
		"[:c 1 :x]": "integer -1 does not fit into uint",
		"[:c 2]":    "expected a map, got integer 5",
		"[:d :x]":   "expected an integer, got keyword :x",
		"[:d 1]":    "expected a boolean, got integer 2",
		"[:e]":      "expected 2 elements, got 1",
		"[:f]":      `expected an instant, got string "now"`,
		"[:g]":      "number 1.0e300 does not fit into float32",
		"[:h]":      "Go type chan int takes no value",
		"[:i]":      "expected base64 text: illegal base64 data at input byte 0",
		"[:j]":      "expected an integer, got float 1.5",
		"[:k]":      "expected a boolean, got nil nil",
		`["l"]`:     "the key occurs twice, also as :l",
		"[:m]":      "expected a map, got vector []",
	}, got)
	assert.Contains(t, err.Error(), "edn: decode: ")
	assert.Contains(t, err.Error(), "at [:c 1 :x] integer -1 does not fit into uint")

	// Unknown keys are errors only in DecodeStrict.
	type small struct{ A int }
	require.NoError(t, edn.Decode(edn.MustRead("{:a 1 :b 2}"), &small{}))
	err = edn.DecodeStrict(edn.MustRead("{:a 1 :b 2}"), &small{})
	require.True(t, errors.As(err, &decode))
	assert.Equal(t, "[:b]", edn.Vector(decode.Problems[0].Path...).String())

	for _, dst := range []any{nil, small{}, (*small)(nil)} {
		assert.Error(t, edn.Decode(edn.Nil(), dst))
	}
	err = edn.Decode(edn.MustRead("{:depth 1}"), &struct{ *hidden }{})
	assert.ErrorContains(t, err, "not exported")
	var clash map[string]int
	assert.Error(t, edn.Decode(edn.MustRead(`{:a 1 "a" 2}`), &clash))
	secret := ""
	err = edn.Decode(edn.MustRead(`#ferment/secret "hunter2"`), &secret)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}

// VAL-022: parts that cannot be encoded are reported with their path.
func TestEncodeReportsEveryProblem(t *testing.T) {
	type loop struct{ Next *loop }
	circle := &loop{}
	circle.Next = circle
	_, err := edn.Encode(struct {
		A float64
		B []any
		C time.Time
		D *loop
	}{A: math.NaN(), B: []any{1, make(chan int)}, C: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), D: circle})
	var encode *edn.EncodeError
	require.True(t, errors.As(err, &encode))
	require.Len(t, encode.Problems, 4)
	assert.Equal(t, "[:b 1]", edn.Vector(encode.Problems[1].Path...).String())
	assert.Contains(t, err.Error(), "edn: encode: at [:a] ")

	_, err = edn.Encode(struct {
		X int `edn:"not a name"`
	}{})
	assert.Error(t, err)
	assert.Error(t, edn.Decode(edn.MustRead("{}"), &struct {
		X int `edn:"not a name"`
	}{}))
	_, err = edn.Encode(struct {
		A map[string]int `edn:",rest"`
		B map[string]int `edn:",rest"`
	}{})
	assert.Error(t, err)
	_, err = edn.Encode(struct {
		A int
		R edn.Value `edn:",rest"`
	}{R: edn.MustRead("{:a 1}")})
	assert.Error(t, err, "the rest repeats a key")
	huge := new(big.Int).Exp(big.NewInt(10), big.NewInt(2000), nil)
	_, err = edn.Encode(huge)
	assert.Error(t, err)
}

// selfMade encodes and decodes its own text, like types written for the
// library.
type selfMade struct{ text string }

func (s selfMade) MarshalEDN() ([]byte, error) { return []byte(s.text), nil }

func (s *selfMade) UnmarshalEDN(b []byte) error {
	s.text = string(b)
	return nil
}

// VAL-005: types of olympos.io/encoding/edn and types with its methods use that
// library, and its output is read strictly.
func TestTypesOfTheLibrary(t *testing.T) {
	type mixed struct {
		C selfMade
		K olympos.Keyword
		S olympos.Symbol
		R olympos.Rune
		T olympos.Tag
		M olympos.RawMessage
		O selfMade
		P *selfMade
		F big.Float
	}
	text := `{:c (1.5M \a) :k :a/b :m {:x [1]} :o [1 2] :p nil :r \x :s sym :t #my/tag [1] :f 1.5M}`
	var x mixed
	require.NoError(t, edn.Decode(edn.MustRead(text), &x))
	assert.Equal(t, olympos.Keyword("a/b"), x.K)
	assert.Equal(t, olympos.Symbol("sym"), x.S)
	assert.Equal(t, "my/tag", x.T.Tagname)
	assert.Equal(t, "{:x [1]}", string(x.M))
	assert.Equal(t, "[1 2]", x.O.text)
	back, err := edn.Encode(&x)
	require.NoError(t, err)
	assert.Equal(t, edn.MustRead(text).String(), back.String())

	_, err = edn.Encode(olympos.Keyword("x :admin true"))
	assert.Error(t, err, "section 7: a keyword with a blank writes three forms")
	_, err = edn.Encode(selfMade{"{:a 1 :a 2}"})
	assert.Error(t, err)
	_, err = edn.Encode(selfMade{""})
	assert.Error(t, err)

	// The library's own types can contain a Value.
	type host struct{ V edn.Value }
	b, err := olympos.Marshal(host{edn.MustRead(`(1 1.50M [:a])`)})
	require.NoError(t, err)
	assert.Equal(t, `{:v (1 1.5M[:a])}`, string(b))
	var h host
	require.NoError(t, olympos.Unmarshal([]byte(`{:v (1 1.50M \a)}`), &h))
	assert.Equal(t, `(1 1.5M \a)`, h.V.String())
	assert.Error(t, olympos.Unmarshal([]byte(`{:v {:a 1 :a 2}}`), &h))
}
