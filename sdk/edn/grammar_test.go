package edn_test

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-011, VAL-030: accepted texts by grammar row, with their canonical text.
var accepted = []struct{ row, text, canonical string }{
	{"nil, boolean", "nil", "nil"},
	{"nil, boolean", "true", "true"},
	{"nil, boolean", "false", "false"},
	{"nil, boolean", "[nil? truest nil]", "[nil? truest nil]"},

	{"integer", "0", "0"},
	{"integer", "-7", "-7"},
	{"integer", "+5", "5"},
	{"integer", "12N", "12"},
	{"integer", "7N", "7"},
	{"integer", "-0", "0"},
	{"integer", "+0N", "0"},
	{"integer", "99999999999999999999", "99999999999999999999N"},
	{"integer", "+99999999999999999999N", "99999999999999999999N"},
	{"integer", "9223372036854775807", "9223372036854775807"},
	{"integer", "9223372036854775808", "9223372036854775808N"},
	{"integer", "-9223372036854775808", "-9223372036854775808"},
	{"integer", "-9223372036854775809", "-9223372036854775809N"},
	{"integer", "123456789012345678", "123456789012345678"},
	{"integer", strings.Repeat("9", 1000), strings.Repeat("9", 1000) + "N"},

	{"float", "1.0", "1.0"},
	{"float", "1e3", "1000.0"},
	{"float", "-2.5E-7", "-2.5e-7"},
	{"float", "1E+21", "1.0e21"},
	{"float", "1e20", "100000000000000000000.0"},
	{"float", "0.0000015", "0.0000015"},
	{"float", "0.000001", "0.000001"},
	{"float", "15e-8", "1.5e-7"},
	{"float", "-0.0", "0.0"},
	{"float", "-0e5", "0.0"},
	{"float", "1e-400", "0.0"},
	{"float", "-1e-400", "0.0"},
	{"float", "0.1", "0.1"},
	{"float", "1.7976931348623157e308", "1.7976931348623157e308"},
	{"float", "5e-324", "5.0e-324"},
	{"float", "+1.50", "1.5"},
	{"float", "1e0003", "1000.0"},

	{"decimal", "1M", "1M"},
	{"decimal", "1.50M", "1.5M"},
	{"decimal", "1e-9M", "0.000000001M"},
	{"decimal", "0.000131850M", "0.00013185M"},
	{"decimal", "1e2M", "100M"},
	{"decimal", "12e30M", "12E30M"},
	{"decimal", "0.00M", "0M"},
	{"decimal", "-0M", "0M"},
	{"decimal", "-1.5E+2M", "-150M"},
	{"decimal", "1e-40M", "0." + strings.Repeat("0", 39) + "1M"},
	{"decimal", "1e-41M", "1E-41M"},
	{"decimal", "1e20M", "100000000000000000000M"},
	{"decimal", "1e21M", "1E21M"},
	{"decimal", "1e1000M", "1E1000M"},
	{"decimal", "123456789.123456789012345M", "123456789.123456789012345M"},
	{"decimal", "-12345678901234567890.5M", "-12345678901234567890.5M"},

	{"string", `"a\u0007ż"`, `"a\u0007ż"`},
	{"string", `"\t\n\r\b\f\\\""`, `"\t\n\r\b\f\\\""`},
	{"string", "\"a\nb\r\n\tc\"", `"a\nb\r\n\tc"`},
	{"string", `"\ud83d\ude00 \u00e9"`, `"😀 é"`},
	{"string", `"\u007F\u0000"`, `"\u007f\u0000"`},
	{"string", `"; #_ no comment"`, `"; #_ no comment"`},
	{"string", `""`, `""`},
	{"string", `"a"`, `"a"`},
	{"string", "\"e\u0301\"", "\"e\u0301\""}, // not normalised

	{"character", `\newline`, `\newline`},
	{"character", `[\return \space \tab \backspace \formfeed]`, `[\return \space \tab \backspace \formfeed]`},
	{"character", `\u0041`, `\A`},
	{"character", `\u002c`, `\u002c`},
	{"character", `\u000a`, `\newline`},
	{"character", `\u0000`, `\u0000`},
	{"character", `\u00A0`, `\u00a0`},
	{"character", `\u`, `\u`},
	{"character", `[\( \) \" \; \\ \# \{]`, `[\( \) \" \; \\ \# \{]`},
	{"character", `\ż`, `\ż`},
	{"character", `\😀`, `\😀`},
	{"character", `[\a"b"]`, `[\a "b"]`},
	{"character", `[\n\newline]`, ""}, // one token, rejected below

	{"symbol", "a", "a"},
	{"symbol", "[. * + ! - _ ? $ % & = < > /]", "[. * + ! - _ ? $ % & = < > /]"},
	{"symbol", "a#b:c'd1", "a#b:c'd1"},
	{"symbol", "ns.x/name", "ns.x/name"},
	{"symbol", "->x/<-y", "->x/<-y"},
	{"symbol", "-a", "-a"},
	{"symbol", "+.5a", "+.5a"},
	{"symbol", "żółw/日本語", "żółw/日本語"},
	{"symbol", strings.Repeat("a", 255) + "/" + strings.Repeat("b", 255), strings.Repeat("a", 255) + "/" + strings.Repeat("b", 255)},

	{"keyword", ":a", ":a"},
	{"keyword", ":res/patch+tests", ":res/patch+tests"},
	{"keyword", ":true", ":true"},
	{"keyword", ":nil", ":nil"},
	{"keyword", "[:a:b :a/b:c :- :.]", "[:a:b :a/b:c :- :.]"},

	{"list, vector", "()", "()"},
	{"list, vector", "[1,2,,3]", "[1 2 3]"},
	{"list, vector", "(f [x] ())", "(f [x] ())"},
	{"list, vector", "[a(b)[c]\"d\"{}#{}]", "[a (b) [c] \"d\" {} #{}]"},

	{"map", "{}", "{}"},
	{"map", `{:b 1 :a/b 2 :a 3 "z" 4 10 5 9 6}`, `{"z" 4 10 5 9 6 :a 3 :a/b 2 :b 1}`},
	{"map", `{1 :a 1.0 :b 1M :c "1" :d \1 :e}`, `{"1" :d 1 :a 1.0 :b 1M :c \1 :e}`},
	{"map", `{[1] :v (1) :l {1 1} :m #{1} :s nil :n}`, `{#{1} :s (1) :l [1] :v nil :n {1 1} :m}`},
	{"map", `{"a" 1 "a!" 2 "" 3 "a\n" 4}`, `{"" 3 "a!" 2 "a" 1 "a\n" 4}`},

	{"set", "#{}", "#{}"},
	{"set", "#{2 10 nil [1] :a}", "#{10 2 :a [1] nil}"},
	{"set", "#{[1] [1 2] [12]}", "#{[1 2] [12] [1]}"},

	{"#inst", `#inst "2026-11-20T10:00:00+01:00"`, `#inst "2026-11-20T09:00:00.000Z"`},
	{"#inst", `#inst "2026-11-20T10:00:00.1Z"`, `#inst "2026-11-20T10:00:00.100Z"`},
	{"#inst", `#inst "2026-11-20T10:00:00.0001Z"`, `#inst "2026-11-20T10:00:00.000100Z"`},
	{"#inst", `#inst "2026-11-20T10:00:00.123456789-00:30"`, `#inst "2026-11-20T10:30:00.123456789Z"`},
	{"#inst", `#inst"0001-01-01T00:00:00Z"`, `#inst "0001-01-01T00:00:00.000Z"`},
	{"#inst", `#inst "9999-12-31T23:59:59.999999999Z"`, `#inst "9999-12-31T23:59:59.999999999Z"`},
	{"#inst", `#inst "2024-02-29T00:00:00Z"`, `#inst "2024-02-29T00:00:00.000Z"`},

	{"#uuid", `#uuid "F81D4FAE-7dec-11d0-a765-00a0c91e6bf6"`, `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`},

	{"other tag", "#name form", "#name form"},
	{"other tag", "#a #b/c [1]", "#a #b/c [1]"},
	{"other tag", "#a{}", "#a {}"},
	{"other tag", "#a #_ x ; y\n 1", "#a 1"},
	{"other tag", `#ferment/secret "key"`, `#ferment/secret "key"`},
	{"other tag", `#ferment/secret :key`, `#ferment/secret :key`},
	{"other tag", `#ferment/value "b3:` + strings.Repeat("0a", 32) + `"`, `#ferment/value "b3:` + strings.Repeat("0a", 32) + `"`},

	{"discard", "[#_ #_ a b c]", "[c]"},
	{"discard", "[#_[1 2] 3 #_ {:a}]", ""}, // discarded forms must be well formed
	{"discard", "[#_#inst \"bad\" 1]", "[1]"},
	{"discard", "[#_#ferment/other x #_[#uuid 5] 1]", "[1]"},
	{"discard", "#_a b #_c", "b"},
	{"discard", "{:a #_b 1 #_:c}", "{:a 1}"},
	{"discard", "[#_ #a #_ b c d]", "[d]"},

	{"comment", "; a\n1 ; b", "1"},
	{"comment", ";a\r1;", "1"},
	{"comment", "[1;]\n]", "[1]"},

	{"end of text", " \t\r\n,1,\n", "1"},
	{"end of text", "\uFEFF1", "1"},
}

func TestGrammarAccepts(t *testing.T) {
	for _, c := range accepted {
		t.Run(c.row, func(t *testing.T) {
			v, err := edn.ReadString(c.text)
			if c.canonical == "" {
				require.Error(t, err, "%s", c.text)
				return
			}
			require.NoError(t, err, "%s", c.text)
			assert.Equal(t, c.canonical, v.String(), "%s", c.text)
			back, err := edn.ReadString(c.canonical)
			require.NoError(t, err)
			assert.True(t, edn.Equal(v, back))
		})
	}
}

// VAL-011, VAL-012, VAL-013: rejected texts by grammar row, with code and
// position.
var refused = []struct {
	row, text, code string
	offset          int
}{
	{"integer", "007", "invalid-number", 0},
	{"integer", "[1 -01]", "invalid-number", 3},
	{"integer", "0x1F", "invalid-number", 0},
	{"integer", "2r101", "invalid-number", 0},
	{"integer", "36rZ", "invalid-number", 0},
	{"integer", "1NN", "invalid-number", 0},
	{"integer", "1_000", "invalid-number", 0},
	{"integer", strings.Repeat("9", 1001), "limit-digits", 1000},
	{"integer", "-" + strings.Repeat("9", 1001), "limit-digits", 1001},
	{"VAL-012", "1a", "invalid-number", 0},
	{"VAL-012", "1:a", "invalid-number", 0},
	{"VAL-012", "1#a", "invalid-number", 0},
	{"VAL-012", "1ż", "invalid-number", 0},

	{"float", "1.", "invalid-number", 0},
	{"float", ".5", "invalid-number", 0},
	{"float", "##Inf", "invalid-number", 0},
	{"float", "##NaN", "invalid-number", 0},
	{"float", "##-Inf", "invalid-number", 0},
	{"float", "1e", "invalid-number", 0},
	{"float", "1.e5", "invalid-number", 0},
	{"float", "1e5N", "invalid-number", 0},
	{"float", "01.5", "invalid-number", 0},
	{"float", "1e400", "number-range", 0},
	{"float", "[-1e309]", "number-range", 1},
	{"float", "0." + strings.Repeat("1", 1000), "limit-digits", 1001},

	{"decimal", "1e1001M", "limit-digits", 0},
	{"decimal", "1e-1001M", "limit-digits", 0},
	{"decimal", "1e99999999999999999999M", "limit-digits", 0},
	{"decimal", strings.Repeat("9", 990) + "e20M", "limit-digits", 0}, // its canonical text has 1,010 digits
	{"decimal", "1" + strings.Repeat("0", 999) + "e1000M", "limit-digits", 0},
	{"decimal", "1.5MM", "invalid-number", 0},
	{"decimal", strings.Repeat("9", 1001) + "M", "limit-digits", 1000},

	{"ratio", "22/7", "unsupported-syntax", 0},
	{"ratio", "[-1/2]", "unsupported-syntax", 1},
	{"ratio", "1/", "invalid-number", 0},

	{"string", `"\q"`, "invalid-escape", 1},
	{"string", `"\012"`, "invalid-escape", 1},
	{"string", `"\/"`, "invalid-escape", 1},
	{"string", `"\u12"`, "invalid-escape", 1},
	{"string", `"a\ud800b"`, "invalid-escape", 2},
	{"string", `"\udc00\ud800"`, "invalid-escape", 1},
	{"string", `"\ud800\u0041"`, "invalid-escape", 1},
	{"string", "\"a\x00\"", "invalid-string", 2},
	{"string", "\"a\x1f\"", "invalid-string", 2},
	{"string", "\"\x7f\"", "invalid-string", 1},
	{"string", `"abc`, "unexpected-end", 4},
	{"string", `"abc\`, "unexpected-end", 5},

	{"character", `\ab`, "invalid-character", 0},
	{"character", `\ud800`, "invalid-character", 0},
	{"character", `\udfff`, "invalid-character", 0},
	{"character", `\ `, "invalid-character", 0},
	{"character", "\\\n", "invalid-character", 0},
	{"character", `\,`, "invalid-character", 0},
	{"character", "\\\x01", "invalid-character", 0},
	{"character", "\\\u0085", "invalid-character", 0},
	{"character", `\u004`, "invalid-character", 0},
	{"character", `\u00411`, "invalid-character", 0},
	{"character", `\Newline`, "invalid-character", 0},
	{"character", `\`, "unexpected-end", 1},

	{"symbol", "a/b/c", "invalid-name", 0},
	{"symbol", "/a", "invalid-name", 0},
	{"symbol", "a/", "invalid-name", 0},
	{"symbol", "//", "invalid-name", 0},
	{"symbol", "a:", "invalid-name", 0},
	{"symbol", "a::b", "invalid-name", 0},
	{"symbol", "a:/b", "invalid-name", 0},
	{"symbol", "a/1", "invalid-name", 0},
	{"symbol", "a/-1", "invalid-name", 0},
	{"symbol", "a/:b", "invalid-name", 0},
	{"symbol", strings.Repeat("a", 256), "invalid-name", 0},
	{"symbol", "x/" + strings.Repeat("ż", 128), "invalid-name", 0},

	{"keyword", "::a", "invalid-name", 0},
	{"keyword", ":/", "invalid-name", 0},
	{"keyword", ":1a", "invalid-name", 0},
	{"keyword", ":", "invalid-name", 0},
	{"keyword", ": a", "invalid-name", 0},
	{"keyword", ":a b", "trailing-form", 3},
	{"keyword", ":a/b/c", "invalid-name", 0},
	{"keyword", ":a:", "invalid-name", 0},
	{"keyword", ":-1", "invalid-name", 0},

	{"list, vector", "[1)", "unbalanced", 2},
	{"list, vector", "(1]", "unbalanced", 2},
	{"list, vector", "{:a 1]", "unbalanced", 5},
	{"list, vector", "#{1)", "unbalanced", 3},
	{"list, vector", "]", "unbalanced", 0},
	{"list, vector", "1 }", "unbalanced", 2},
	{"list, vector", "[1", "unexpected-end", 2},
	{"list, vector", "([{", "unexpected-end", 3},

	{"map", "{:a}", "odd-map", 3},
	{"map", "{:a 1 :b}", "odd-map", 8},
	{"map", "{:a 1 :a 2}", "duplicate-key", 6},
	{"map", "{1 :a 1N :b}", "duplicate-key", 6},
	{"map", "{1.50M 1 1.5M 2}", "duplicate-key", 9},
	{"map", `{"a" 1 "\u0061" 2}`, "duplicate-key", 7},
	{"map", "{{:a 1 :b 2} 1 {:b 2 :a 1} 2}", "duplicate-key", 15},
	{"map", "{[1 1.0] 1 [1 1e0] 2}", "duplicate-key", 11},

	{"set", "#{1 1}", "duplicate-member", 4},
	{"set", "#{1.0 10e-1 2 2}", "duplicate-member", 6},
	{"set", "[#{a #_a a}]", "duplicate-member", 9},

	{"#inst", `#inst "2026-11-20T10:00:60Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00:00"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-02-30T10:00:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2023-02-29T10:00:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-13-20T10:00:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T24:00:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00:00.Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00:00.1234567890Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00:00,5Z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20t10:00:00z"`, "invalid-inst", 0},
	{"#inst", `#inst "2026-11-20T10:00:00+24:00"`, "invalid-inst", 0},
	{"#inst", `#inst "0000-01-01T00:00:00Z"`, "invalid-inst", 0},
	{"#inst", `#inst "0001-01-01T00:00:00+01:00"`, "invalid-inst", 0},
	{"#inst", `#inst "9999-12-31T23:59:59-01:00"`, "invalid-inst", 0},
	{"#inst", `[#inst 5]`, "invalid-inst", 1},

	{"#uuid", `#uuid "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"`, "invalid-uuid", 0},
	{"#uuid", `#uuid "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, "invalid-uuid", 0},
	{"#uuid", `#uuid "f81d4fae7dec11d0a76500a0c91e6bf6"`, "invalid-uuid", 0},
	{"#uuid", `#uuid "g81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, "invalid-uuid", 0},
	{"#uuid", `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf"`, "invalid-uuid", 0},
	{"#uuid", `#uuid nil`, "invalid-uuid", 0},

	{"other tag", "# a", "invalid-tag", 0},
	{"other tag", "[#a]", "invalid-tag", 3},
	{"other tag", "#1 a", "invalid-tag", 0},
	{"other tag", "#a/b/c 1", "invalid-tag", 0},
	{"other tag", "#nil 1", "invalid-tag", 0},
	{"other tag", "#[1]", "invalid-tag", 0},
	{"other tag", "#", "invalid-tag", 0},
	{"other tag", "#/ 1", "invalid-tag", 0},
	{"other tag", "#a", "unexpected-end", 2},
	{"VAL-013", "#ferment/other 1", "reserved-tag", 0},
	{"VAL-013", "[#ferment/secret 5]", "reserved-tag", 1},
	{"VAL-013", `#ferment/value "x"`, "reserved-tag", 0},
	{"VAL-013", `#ferment/value "b3:` + strings.Repeat("0A", 32) + `"`, "reserved-tag", 0},

	{"discard", "[#_]", "unexpected-end", 3},
	{"discard", "[#_ #_ a]", "unexpected-end", 8},
	{"discard", "1 #_", "unexpected-end", 4},
	{"discard", "#_ a", "empty-input", 4},
	{"discard", "[#_ {:a} 1]", "odd-map", 7},
	{"discard", "[#_ 007 1]", "invalid-number", 4},

	{"comment", "1 ;\x00", "unexpected-character", 3},

	{"unsupported", "^{:a 1} [1]", "unsupported-syntax", 0},
	{"unsupported", "'a", "unsupported-syntax", 0},
	{"unsupported", "`a", "unsupported-syntax", 0},
	{"unsupported", "[~a]", "unsupported-syntax", 1},
	{"unsupported", "@a", "unsupported-syntax", 0},
	{"unsupported", `#"a+"`, "unsupported-syntax", 0},
	{"unsupported", "#(inc %)", "unsupported-syntax", 0},
	{"unsupported", "#'a", "unsupported-syntax", 0},
	{"unsupported", "#=(exit)", "unsupported-syntax", 0},
	{"unsupported", "#?(:clj 1)", "unsupported-syntax", 0},
	{"unsupported", "#:a{:b 1}", "unsupported-syntax", 0},
	{"unsupported", "#!/bin/sh", "unsupported-syntax", 0},

	{"end of text", "1 2", "trailing-form", 2},
	{"end of text", "1 #_a [", "trailing-form", 6},
	{"end of text", "", "empty-input", 0},
	{"end of text", " ; nothing\n", "empty-input", 11},
	{"end of text", "\x00", "unexpected-character", 0},
	{"end of text", "[1 \x00]", "unexpected-character", 3},
	{"end of text", "[1 \xff]", "invalid-utf8", 3},
	{"end of text", "\"a\xc3\"", "invalid-utf8", 2},
	{"end of text", "; \xff\n1", "invalid-utf8", 2},
	{"end of text", ":a\xffb", "invalid-utf8", 2},
	{"end of text", "[\xed\xa0\x80]", "invalid-utf8", 1}, // a surrogate in UTF-8

	{"VAL-010", "1 |", "unexpected-character", 2},
	{"VAL-010", "a\\b", "unexpected-character", 1},
	{"VAL-010", "a@b", "unexpected-character", 1},
	{"VAL-010", "😀", "unexpected-character", 0},
	{"VAL-010", "a😀", "unexpected-character", 1},
	{"VAL-010", "1 \u00a0 2", "unexpected-character", 2},
	{"VAL-010", "[1\u2028]", "unexpected-character", 2},
	{"VAL-010", "1 \uFEFF", "unexpected-character", 2},
	{"VAL-010", "\x0b1", "unexpected-character", 0},
}

func TestGrammarRefuses(t *testing.T) {
	for _, c := range refused {
		t.Run(c.row, func(t *testing.T) {
			_, err := edn.ReadString(c.text)
			syntax := asSyntaxError(t, err, c.text)
			assert.Equal(t, c.code, syntax.Code, "%s: %v", c.text, err)
			assert.Equal(t, c.offset, syntax.Pos.Offset, "%s: %v", c.text, err)
			assert.NotEmpty(t, syntax.Message)
			assert.NotContains(t, syntax.Error(), "\n")
			assert.True(t, syntax.Value().Key("code").IsKeyword())

			_, _, err = edn.ReadWithPositions([]byte(c.text))
			assert.Equal(t, syntax.Value().String(), asSyntaxError(t, err, c.text).Value().String())
		})
	}
}

func asSyntaxError(t require.TestingT, err error, text string) *edn.SyntaxError {
	var syntax *edn.SyntaxError
	require.True(t, errors.As(err, &syntax), "%q is accepted: %v", text, err)
	return syntax
}

// VAL-011: each unsupported form has its own message.
func TestUnsupportedFormsHaveTheirOwnSentence(t *testing.T) {
	seen := map[string]string{}
	for _, c := range refused {
		if c.row != "unsupported" {
			continue
		}
		_, err := edn.ReadString(c.text)
		message := asSyntaxError(t, err, c.text).Message
		assert.Empty(t, seen[message], "%s and %s", c.text, seen[message])
		seen[message] = c.text
	}
	assert.Len(t, seen, 12)
}

// VAL-010: the message about an unexpected character contains its number.
func TestUnexpectedCharacterIsNamed(t *testing.T) {
	for text, want := range map[string]string{"\x00": "U+0000", "a😀": "U+1F600", "1 \u00a0": "U+00A0", "|": "U+007C"} {
		_, err := edn.ReadString(text)
		assert.Contains(t, asSyntaxError(t, err, text).Message, want)
	}
}

// VAL-016: lines end at LF, CR or CR LF; columns count code points; a byte
// order mark has no column.
func TestPositionsOfErrors(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
	}{
		{"007", 1, 1},
		{"[\n007", 2, 1},
		{"[\r\n 007", 2, 2},
		{"[\r 007", 2, 2},
		{"[\n\r\n\r007", 4, 1},
		{"[\"żółw\" 007", 1, 9},
		{"\uFEFF[ 007", 1, 3},
		{"[1\n", 2, 1},
	} {
		_, err := edn.ReadString(c.text)
		pos := asSyntaxError(t, err, c.text).Pos
		assert.Equal(t, [2]int{c.line, c.column}, [2]int{pos.Line, pos.Column}, "%q", c.text)
	}
}

// VAL-016: the path contains the open collections by key or index, and [:key n]
// for a form in key position.
func TestPathsOfErrors(t *testing.T) {
	for text, want := range map[string]string{
		"007":                            "[]",
		"[1 (2 007)]":                    "[1 1]",
		"{:a {:b [0 007]}}":              "[:a :b 1]",
		"{:a 1 ::b 2}":                   "[[:key 1]]",
		"{[1 007] 2}":                    "[[:key 0] 1]",
		"{:a #x [007]}":                  "[:a 0]",
		"{:a 1 :b {:c 1 :c 2}}":          "[:b]",
		"[{:a}]":                         "[0]",
		"[1 [2":                          "[1]",
		"[1 (2]]":                        "[1]",
		"[#_ [007] 1]":                   "[0]",
		"[1 #_ 2 #_ [3 007]]":            "[1]",
		"#{1 2 #{3 007}}":                "[2 1]",
		"{:nodes [{:id :a} {:id #inst 5": "[:nodes 1 :id]",
	} {
		_, err := edn.ReadString(text)
		syntax := asSyntaxError(t, err, text)
		got := edn.Vector(syntax.Path...).String()
		if strings.Contains(text, "#_") {
			got = edn.Vector(syntax.Path[:1]...).String()
		}
		assert.Equal(t, want, got, "%s: %v", text, err)
	}
	long := "[" + strings.Repeat("0 ", 2000) + "{:a " + strings.Repeat("[] ", 1023) + "007]}]"
	_, err := edn.ReadString(long)
	assert.Equal(t, "2000", asSyntaxError(t, err, long).Path[0].String())
}

// VAL-017: the excerpt has at most 80 code points, escapes control characters
// and masks secrets at any position.
func TestExcerpts(t *testing.T) {
	excerpt := func(text string) string {
		_, err := edn.ReadString(text)
		return asSyntaxError(t, err, text).Excerpt()
	}
	assert.Equal(t, "   1 | [1 \\u0000]\n     |    ^", excerpt("[1 \x00]"))
	assert.Equal(t, "   2 | \\t007\n     |   ^", excerpt("[\n\t007"))
	assert.Equal(t, "   1 | \\xff\n     | ^", excerpt("\xff"))

	long := excerpt("[" + strings.Repeat("ż ", 5000) + "007 " + strings.Repeat("b ", 5000) + "]")
	line := strings.TrimPrefix(strings.Split(long, "\n")[0], "   1 | ")
	assert.LessOrEqual(t, len([]rune(line)), 80)
	mark := strings.TrimPrefix(strings.Split(long, "\n")[1], "     | ")
	assert.Equal(t, "007", string([]rune(line)[len(mark)-1:][:3]))

	for _, text := range []string{
		`{:k #ferment/secret "hunter2" :x 007}`,
		`{:x 007 :k #ferment/secret "hunter2"}`,
		`{:x 007 :k #ferment/secret :hunter2}`,
		"{:k #ferment/secret\n \"hunter2\" :x 007}",
		"{:k #ferment/secret \"first line\n hunter2\" :x 007}",
		`{:k #ferment/secret [007 "hunter2"]}`,
		`{:k #ferment/secret hunter2}`,
		`{#ferment/secret "hunter2" 1 #ferment/secret "hunter2" 2}`,
		`#{#ferment/secret "hunter2" #ferment/secret "hunter2"}`,
		`{#ferment/secret "hunter2" {:a 007}}`,
		`{#ferment/secret "hunter2"}`,
		`{:k #ferment/secret "hunter2\q"}`,
	} {
		_, err := edn.ReadString(text)
		syntax := asSyntaxError(t, err, text)
		all := syntax.Error() + syntax.Excerpt() + syntax.Value().String()
		assert.NotContains(t, all, "hunter2", "%s", text)
	}
}

// VAL-014: ReadPrefix reads the forms of a stream one by one.
func TestReadPrefix(t *testing.T) {
	stream := []byte("; first\n{:a 1} #_no [2]\n\"x\"3 :end ; done")
	var got []string
	for rest := stream; ; {
		v, n, err := edn.ReadPrefix(rest)
		if err != nil {
			assert.Equal(t, "empty-input", asSyntaxError(t, err, string(rest)).Code)
			break
		}
		got = append(got, v.String())
		rest = rest[n:]
	}
	assert.Equal(t, []string{"{:a 1}", "[2]", `"x"`, "3", ":end"}, got)

	_, _, err := edn.ReadPrefix([]byte("{:a 1\n:a 2} garbage ]"))
	syntax := asSyntaxError(t, err, "")
	assert.Equal(t, "duplicate-key", syntax.Code)
	assert.Equal(t, 2, syntax.Pos.Line)
	assert.Equal(t, 2, syntax.First.Column)

	v, n, err := edn.ReadPrefix([]byte("1 \xff"))
	require.NoError(t, err, "what follows is not looked at")
	assert.Equal(t, 1, n)
	assert.Equal(t, "1", v.String())

	small := edn.WithLimits(edn.Limits{Bytes: 8})
	_, n, err = edn.ReadPrefix([]byte("[1 2 3] [4 5 6]"), small)
	require.NoError(t, err, "the limit holds for the form")
	assert.Equal(t, 7, n)
	for _, text := range []string{"[1 2 3 4 5]", "123456789", "              1", `"aaaaaaaaaaaa"`} {
		_, _, err = edn.ReadPrefix([]byte(text), small)
		assert.Equal(t, "limit-bytes", asSyntaxError(t, err, text).Code, "%s", text)
	}
}

// VAL-014: positions of values and keys by path.
func TestReadWithPositions(t *testing.T) {
	text := "{:b [1\n     (2 :x)] #_skip\n :a #my/tag {:k \"v\"} :s #{3 4} :t #inst \"2026-11-20T10:00:00Z\"}"
	v, pos, err := edn.ReadWithPositions([]byte(text))
	require.NoError(t, err)
	assert.True(t, edn.Equal(edn.MustRead(text), v))
	for path, want := range map[string]string{
		"[]":         text,
		"[:b]":       "[1\n     (2 :x)]",
		"[:b 1]":     "(2 :x)",
		"[:b 1 1]":   ":x",
		"[:a]":       `#my/tag {:k "v"}`,
		"[:a :k]":    `"v"`,
		"[:s 4]":     "4",
		"[:t]":       `#inst "2026-11-20T10:00:00Z"`,
		"[:missing]": "",
		"[:b 2]":     "",
		"[:b 0 0]":   "",
	} {
		var steps []edn.Value
		for step := range edn.MustRead(path).Elems() {
			steps = append(steps, step)
		}
		span, ok := pos.At(steps...)
		assert.Equal(t, want, text[span.Start.Offset:span.End.Offset], "%s", path)
		assert.Equal(t, want != "", ok, "%s", path)
	}
	span, ok := pos.At(edn.K("b"), edn.Int(1))
	require.True(t, ok)
	assert.Equal(t, edn.Position{Line: 2, Column: 6, Offset: 12}, span.Start)
	key, ok := pos.KeyAt(edn.K("a"), edn.K("k"))
	require.True(t, ok)
	assert.Equal(t, ":k", text[key.Start.Offset:key.End.Offset])
	_, ok = pos.KeyAt(edn.K("b"), edn.Int(0))
	assert.False(t, ok)
	_, ok = pos.KeyAt()
	assert.False(t, ok)
	_, ok = pos.KeyAt(edn.K("missing"))
	assert.False(t, ok)
}

// VAL-014: positions in a JSON text, also below a tagged literal.
func TestReadJSONWithPositions(t *testing.T) {
	text := "{\"b\": [1,\n  {\"x\": \"é\"}], \"t\": {\"#value\": [5, 6], \"#tag\": \"my/tag\"},\n" +
		"\"at\": {\"#tag\": \"inst\", \"#value\": \"2026-11-20T10:00:00Z\"}, \"z\": [true]}"
	v, pos, err := edn.ReadJSONWithPositions([]byte(text))
	require.NoError(t, err)
	same, err := edn.ReadJSON([]byte(text))
	require.NoError(t, err)
	assert.True(t, edn.Equal(same, v))
	for path, want := range map[string]string{
		"[]":        text,
		"[:b 1]":    `{"x": "é"}`,
		"[:b 1 :x]": `"é"`,
		"[:t]":      `{"#value": [5, 6], "#tag": "my/tag"}`,
		"[:t 1]":    "6",
		"[:at]":     `{"#tag": "inst", "#value": "2026-11-20T10:00:00Z"}`,
		"[:z 0]":    "true",
		"[:z 1]":    "",
	} {
		span, ok := pos.At(slices.Collect(edn.MustRead(path).Elems())...)
		assert.Equal(t, want, text[span.Start.Offset:span.End.Offset], "%s", path)
		assert.Equal(t, want != "", ok, "%s", path)
	}
	key, ok := pos.KeyAt(edn.K("b"), edn.Int(1), edn.K("x"))
	require.True(t, ok)
	assert.Equal(t, `"x"`, text[key.Start.Offset:key.End.Offset])
	assert.Equal(t, 2, key.Start.Line)
	_, pos, err = edn.ReadJSONWithPositions([]byte(`{"z": {"#tag": "ferment/secret", "#value": "one"}, "a": [{"#value": "two", "#tag": "ferment/secret"}]}`))
	require.NoError(t, err)
	assert.Equal(t, `{"z": {"#tag": "ferment/secret", "#value": *****}, "a": [{"#value": *****, "#tag": "ferment/secret"}]}`, pos.Shown())
	_, _, err = edn.ReadJSONWithPositions([]byte("{:b 1}"))
	require.Error(t, err)
}

// VAL-001: decimals are exact; integers are limited only by the number of
// digits.
func TestNumbersAreExact(t *testing.T) {
	coef, exp, ok := edn.MustRead("123456789.1234567890123450M").AsDecimal()
	require.True(t, ok)
	assert.Equal(t, "123456789123456789012345", coef.String())
	assert.Equal(t, -15, exp)
	third, ok := edn.MustRead("0.1").AsNumber()
	require.True(t, ok)
	assert.Equal(t, big.NewRat(1, 10), third)
	i, ok := edn.MustRead("123456789012345678901234567890").AsBigInt()
	require.True(t, ok)
	assert.Equal(t, "123456789012345678901234567890", i.String())
}
