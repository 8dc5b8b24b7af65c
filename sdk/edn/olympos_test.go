package edn_test

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	olympos "olympos.io/encoding/edn"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// olymposRead reads text with olympos.io/encoding/edn and converts its panics
// to errors.
func olymposRead(text string) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	err = olympos.Unmarshal([]byte(text), &v)
	return v, err
}

// lossy returns v in the form of the library's tree: lists as vectors,
// characters as integers, decimals as floats, instants as the library's time,
// and maps and sets without order.
func lossy(v edn.Value) string {
	switch v.Kind() {
	case edn.KindList, edn.KindVector:
		return "[" + strings.Join(lossyAll(v), " ") + "]"
	case edn.KindSet:
		parts := lossyAll(v)
		sort.Strings(parts)
		return "#{" + strings.Join(parts, " ") + "}"
	case edn.KindMap:
		var parts []string
		for k, val := range v.Entries() {
			parts = append(parts, lossy(k)+" "+lossy(val))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case edn.KindChar:
		r, _ := v.AsChar()
		return fmt.Sprint(r)
	case edn.KindDecimal, edn.KindFloat:
		r, _ := v.AsNumber()
		f, _ := r.Float64()
		return lossyFloat(f)
	case edn.KindInst:
		t, _ := v.AsInst()
		return t.Format(time.RFC3339Nano)
	case edn.KindUUID:
		u, _ := v.AsUUID()
		return fmt.Sprintf("#uuid %x", u)
	case edn.KindTagged:
		tag, val, _ := v.AsTagged()
		return "#" + tag + " " + lossy(val)
	}
	if v.IsInt() {
		return strings.TrimSuffix(v.String(), "N")
	}
	return v.String()
}

func lossyAll(v edn.Value) (parts []string) {
	for e := range v.Elems() {
		parts = append(parts, lossy(e))
	}
	return parts
}

// lossyTree returns a tree of the library in the same form.
func lossyTree(x any) string {
	switch x := x.(type) {
	case nil:
		return "nil"
	case bool, int64, int32:
		return fmt.Sprint(x)
	case float64:
		return lossyFloat(x)
	case *big.Int:
		return x.String()
	case big.Int:
		return x.String()
	case big.Float:
		return lossyTree(&x)
	case *big.Float:
		f, _ := x.Float64()
		return lossyFloat(f)
	case string:
		return edn.Text(x).String()
	case olympos.Keyword:
		return ":" + string(x)
	case olympos.Symbol:
		return string(x)
	case olympos.Tag:
		if s, ok := x.Value.(string); ok && x.Tagname == "uuid" {
			return "#uuid " + strings.ToLower(strings.ReplaceAll(s, "-", ""))
		}
		return "#" + x.Tagname + " " + lossyTree(x.Value)
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case []any:
		parts := make([]string, len(x))
		for i := range x {
			parts[i] = lossyTree(x[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	case map[any]any:
		var parts []string
		for k, val := range x {
			parts = append(parts, lossyTree(key(k))+" "+lossyTree(val))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case map[any]bool:
		var parts []string
		for k := range x {
			parts = append(parts, lossyTree(key(k)))
		}
		sort.Strings(parts)
		return "#{" + strings.Join(parts, " ") + "}"
	}
	return fmt.Sprintf("unknown %T", x)
}

func lossyFloat(f float64) string {
	if f == 0 {
		f = 0 // without its sign
	}
	return fmt.Sprintf("%x", f)
}

// key follows the pointers that the library uses for keys that Go cannot hash.
func key(k any) any {
	if p, ok := k.(*any); ok {
		return *p
	}
	return k
}

// onlyOurs lists the library's errors for texts that are valid here, onlyTheirs
// the codes for texts that only the library accepts. Both lists are reviewed; a
// difference outside of them fails the test (VAL-052).
var onlyOurs = []struct{ message, why string }{
	{`cannot unmarshal int -?\d+ into`, "integers beyond 64 bits need an N there"},
	{`unhashable type`, "big numbers, tags and the like cannot be keys or members there"},
	{`after token starting with "#"`, "tags begin with a letter there"},
	{`'\\ufeff' - unexpected rune`, "a byte order mark is not skipped there"},
	{`unexpected rune after legal character`, "the names backspace and formfeed are unknown there"},
	{`backslash cannot be followed by whitespace`, "blanks of Unicode are no characters there"},
	{`^EOF$`, "a comment does not end at CR there"},
}

var onlyTheirs = map[string]string{
	"trailing-form":        "the rest of the text is ignored there",
	"unbalanced":           "the rest of the text is ignored there",
	"unexpected-end":       "the rest of the text is ignored there",
	"unexpected-character": "the rest of the text is ignored, and blanks of Unicode are skipped there",
	"invalid-utf8":         "invalid bytes become U+FFFD there",
	"odd-map":              "discarded forms are not checked there",
	"duplicate-key":        "the last entry wins there",
	"duplicate-member":     "members are merged there",
	"invalid-escape":       "lone surrogates become U+FFFD there, and a slash may be escaped",
	"invalid-string":       "raw control characters are kept there",
	"invalid-character":    "characters may be surrogates, controls or touch one another there",
	"invalid-name":         "parts of names may begin with digits, have any length and colons there",
	"invalid-inst":         "time.Parse takes more spellings of instants and more years",
	"invalid-uuid":         "#uuid is a tag without meaning there",
	"invalid-tag":          "literals may be tags there",
	"reserved-tag":         "no tag is reserved there",
	"limit-digits":         "there is no limit there; a large decimal becomes infinite",
}

// compareReaders checks one text: results of both readers are equal after the
// known losses, and a text that only one accepts is in a reviewed list.
func compareReaders(t require.TestingT, text string) {
	v, err := edn.ReadString(text)
	tree, theirErr := olymposRead(text)
	switch {
	case err == nil && theirErr == nil:
		if why := knownDifference(text, v); why == "" {
			require.Equal(t, lossy(v), lossyTree(tree), "%q", text)
		}
	case err == nil:
		known := slices.ContainsFunc(onlyOurs, func(o struct{ message, why string }) bool {
			return regexp.MustCompile(o.message).MatchString(theirErr.Error())
		})
		require.True(t, known, "only we accept %q: %v", text, theirErr)
	case theirErr == nil:
		code := asSyntaxError(t, err, text).Code
		require.NotEmpty(t, onlyTheirs[code], "only the library accepts %q: %v", text, err)
	}
}

var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// knownDifference returns the reason if both readers accept a text but read it
// differently.
func knownDifference(text string, v edn.Value) (why string) {
	if surrogate.MatchString(text) {
		return "surrogate pairs in escapes become two U+FFFD there"
	}
	_, err := v.Walk(func(x edn.Value) edn.Value {
		switch x.Kind() {
		case edn.KindTagged:
			if tag, _, _ := x.AsTagged(); tag == "base64" {
				why = "#base64 is a tag with a meaning there"
			}
		case edn.KindMap:
			// Keys that are equal only in Go, such as 97 and \a, collide in the
			// library.
			seen := map[string]bool{}
			for k := range x.Entries() {
				if seen[lossy(k)] {
					why = "keys that differ only in what is lost"
				}
				seen[lossy(k)] = true
				if w := knownDifference("", k); w != "" {
					why = w
				}
			}
		case edn.KindSet:
			seen := map[string]bool{}
			for k := range x.Elems() {
				if seen[lossy(k)] {
					why = "members that differ only in what is lost"
				}
				seen[lossy(k)] = true
			}
		}
		return x
	}, nil)
	if err != nil {
		return err.Error()
	}
	return why
}

// VAL-052: the grammar table, hostile texts and generated values, read with
// both readers.
func TestDifferentialWithOlympos(t *testing.T) {
	for _, c := range accepted {
		t.Run(c.row, func(t *testing.T) { compareReaders(t, c.text) })
	}
	for _, c := range refused {
		t.Run(c.row, func(t *testing.T) { compareReaders(t, c.text) })
	}
	agreed, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := genValue(4).Draw(t, "v").String()
		compareReaders(t, text)
		total++
		if _, err := olymposRead(text); err == nil {
			agreed++
		}
	})
	assert.Greater(t, agreed, total/5, "the library reads too little for a comparison to mean anything")
}

// VAL-005, VAL-052: the tags have the same meaning as in the library. Both
// mappers get the same struct types and values; the differences are listed.
func TestDifferentialStructMapping(t *testing.T) {
	type part struct {
		Name string  `edn:"name"`
		Size int     `edn:"size,omitempty"`
		Rate float64 `edn:"rate"`
	}
	type whole struct {
		part
		Parts []part          `edn:"parts"`
		ByID  map[string]part `edn:"by-id"`
		Flags map[string]bool `edn:"flags"`
		Kept  map[string]bool `edn:"kept,map"`
		List  []int           `edn:"list,list"`
		Set   []int           `edn:"set,set"`
		Str   int             `edn:"str,str"`
		Sym   int             `edn:"sym,sym"`
		Skip  int             `edn:"-"`
		Ptr   *part           `edn:"ptr"`
		Opt   *part           `edn:"opt,omitempty"`
		When  time.Time       `edn:"when"`
		Big   *big.Int        `edn:"big"`
	}
	gen := rapid.Custom(func(t *rapid.T) whole {
		name := rapid.StringMatching(`[a-z]{1,5}`)
		number := rapid.IntRange(-5, 1000)
		p := rapid.Custom(func(t *rapid.T) part {
			return part{name.Draw(t, "n"), number.Draw(t, "s"), math.Trunc(rapid.Float64Range(-1e6, 1e6).Draw(t, "r")*8) / 8}
		})
		w := whole{
			part:  p.Draw(t, "part"),
			Parts: rapid.SliceOfN(p, 1, 3).Draw(t, "parts"), ByID: rapid.MapOfN(name, p, 1, 3).Draw(t, "by"),
			Flags: rapid.MapOfN(name, rapid.Just(true), 1, 3).Draw(t, "flags"), Kept: rapid.MapOfN(name, rapid.Bool(), 1, 3).Draw(t, "kept"),
			List: rapid.SliceOfN(number, 1, 3).Draw(t, "list"), Set: slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 3, rapid.ID).Draw(t, "set"))),
			Str: number.Draw(t, "str"), Sym: number.Draw(t, "sym"),
			When: time.Unix(rapid.Int64Range(0, 2e9).Draw(t, "when"), 0).UTC(), Big: big.NewInt(int64(number.Draw(t, "big"))),
		}
		if rapid.Bool().Draw(t, "with pointers") {
			a, b := p.Draw(t, "ptr"), p.Draw(t, "opt")
			w.Ptr, w.Opt = &a, &b
		}
		return w
	})
	rapid.Check(t, func(t *rapid.T) {
		w := gen.Draw(t, "w")
		ours, err := edn.Encode(w)
		require.NoError(t, err)
		theirs, err := olympos.Marshal(w)
		require.NoError(t, err)
		// The library writes big.Int with N and removes blanks; both readers
		// read the same value.
		require.True(t, edn.Equal(ours, edn.MustRead(string(theirs))), "%s\n%s", ours, theirs)

		var a, b whole
		require.NoError(t, edn.Decode(ours, &a))
		require.NoError(t, olympos.Unmarshal(theirs, &b))
		require.True(t, reflect.DeepEqual(a, b), "%+v\n%+v", a, b)
		again, err := edn.Encode(a)
		require.NoError(t, err)
		require.True(t, edn.Equal(ours, again))
	})

	// Reviewed differences: default names are kebab case here (VAL-022) and
	// have a lower first letter there; bytes are base64 text here, so that a
	// derived schema is :string, and tagged there.
	type differs struct {
		MaxTokens int
		Raw       []byte
	}
	ours, err := edn.Encode(differs{1, []byte("hi")})
	require.NoError(t, err)
	theirs, err := olympos.Marshal(differs{1, []byte("hi")})
	require.NoError(t, err)
	assert.Equal(t, `{:max-tokens 1 :raw "aGk="}`, ours.String())
	assert.Equal(t, `{:maxTokens 1 :raw #base64 "aGk="}`, edn.MustRead(string(theirs)).String())
	var back differs
	require.NoError(t, edn.Decode(edn.MustRead(`{:max-tokens 1 :raw #base64 "aGk="}`), &back))
	assert.Equal(t, "hi", string(back.Raw))
}
