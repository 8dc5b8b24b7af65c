package text

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// TXT-002: removed reasoning, and content that stays.
func TestReasoningGoes(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                          "plain",
		"":                                               "",
		"<think>a</think>b":                              "b",
		"a <thinking>x</thinking> b":                     "a  b",
		"<REASONING>x</Reasoning>b":                      "b",
		"<think>a<think>b</think>c</think>d":             "d",
		"<think>a<reasoning>b</think>c":                  "c",
		"<thinking>a</think>b":                           "b",
		"a<think>never closed":                           "a",
		"hidden</think>answer":                           "answer",
		"one</think>two</think>three":                    "three",
		"use `<think>` tags":                             "use `<think>` tags",
		"``a ` <think>`` b<think>c</think>":              "``a ` <think>`` b",
		"```\n<think>\n```\nb<think>c</think>":           "```\n<think>\n```\nb",
		"~~~xml\n</think>\n~~~\nb":                       "~~~xml\n</think>\n~~~\nb",
		"````\n```\n<think>\n````\n<think>x</think>y":    "````\n```\n<think>\n````\ny",
		"~~x~~ <think>a</think>b":                        "~~x~~ b",
		"a ` stray\n<think>x</think>b":                   "a ` stray\nb",
		"<think>`</think>b":                              "b",
		"<think>the tag `<think>` is odd</think>b":       "b",
		"<think>it ends with `</think>` so</think>b":     "b",
		"<think>```\nfoo</think>b":                       "b",
		"<think>x</think>```\n<think>\n```":              "```\n<think>\n```",
		"a < b and <thin ice> or <thinker> or </thinks>": "a < b and <thin ice> or <thinker> or </thinks>",
		"<<think>a</think>>":                             "<>",
		"<think":                                         "<think",
		"x</reasoning":                                   "x</reasoning",
		"<think>x</think>\n\n<think>y</think>answer":     "\n\nanswer",
		"``` inline ```<think>x</think>b":                "``` inline ```b",
		"żółć<think>ą</think>ę":                          "żółćę",

		// The strings of a value at the beginning are content.
		`{"text":"<think> opens","n":1}`:                              `{"text":"<think> opens","n":1}`,
		`{"text":"the tag </think> ends it","n":1}`:                   `{"text":"the tag </think> ends it","n":1}`,
		` [[1,"<think>x</think> y"]]`:                                 ` [[1,"<think>x</think> y"]]`,
		`{"a":"\"<think>","b":"` + "`" + `"}` + "\n<think>x</think>":  `{"a":"\"<think>","b":"` + "`" + `"}` + "\n",
		`{:text "</think>"}`:                                          `{:text "</think>"}`,
		`"a </think> b"`:                                              `"a </think> b"`,
		`<think>{"a":"b"}</think>` + "\n" + `{"text":"</reasoning>"}`: "\n" + `{"text":"</reasoning>"}`,
		`Maybe {"a":1} </think>{"text":"</think>"}`:                   `{"text":"</think>"}`,
		`{"text":"draft"} or so</think>{"n":1}`:                       `{"n":1}`,
		`[1] says "no</think>b`:                                       "b",
		`[0, 1) is "open</think>b`:                                    "b",
		`[so "it</think>b`:                                            "b",
		"\"He said\nso</think>b":                                      "b",
		`It is {"text":"</think>"}`:                                   `"}`,
	} {
		assert.Equal(t, want, WithoutReasoning(in), in)
	}
	assert.Empty(t, CheckReasoning(`{"a":["`+"`"+`","</think>"],"b":"`+"`"+`<think>"}`), "strings of a value")
	assert.Len(t, CheckReasoning(`{"a":1} <think>`), 1)
}

var pieces = []string{"<", "/", "think>", "<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>",
	"`", "``", "```", "~~~", "\n", " ", "a", "ą", "b. ", "<tool_call>", "</tool_call>", `{"tool_calls":[{"name":"x"}]}`, `{`, `}`, `"`, `{"a":1}`, "\n\n\n", "word ", `[`, `]`, `,`, `:`, `\"`, "\u00a0", "\x00", "\x1b", "\u0085"}

func drawText(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
}

func drawChunks(t *rapid.T, s string) []string {
	var out []string
	for s != "" {
		n := rapid.IntRange(1, len(s)).Draw(t, "cut")
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// TXT-002: the output does not depend on how the text is split, and at most 12
// bytes outside a block are held back.
func TestFilterDoesNotSeeChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawText(t)
		var f filter
		var got strings.Builder
		for _, piece := range drawChunks(t, s) {
			text, void := f.write(piece)
			if void {
				got.Reset()
			}
			got.WriteString(text)
			if !f.inside {
				require.LessOrEqual(t, len(f.held), 12)
			}
		}
		got.WriteString(f.end())
		require.Equal(t, WithoutReasoning(s), got.String())
	})
}

// TXT-002, STR-001: the output of a stream is a prefix of the whole.
func TestStreamIsTheBeginning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawText(t)
		c := Cleaning{MaxChars: rapid.SampledFrom([]int{0, 0, 10, 20, 60}).Draw(t, "max"), Collapse: rapid.Bool().Draw(t, "collapse"),
			KeepCalls: rapid.Bool().Draw(t, "calls")}
		stream := NewStream(c)
		shown := ""
		for _, piece := range drawChunks(t, s) {
			text, void := stream.Write(piece)
			if void {
				shown = ""
			}
			shown += text
			require.True(t, utf8.ValidString(text))
			require.NotContains(t, text, "\x00")
		}
		whole := Clean(s, c)
		require.True(t, strings.HasPrefix(whole.Text, shown), "%q does not begin with %q", whole.Text, shown)
		if c.MaxChars > 0 {
			require.LessOrEqual(t, utf8.RuneCountInString(whole.Text), c.MaxChars)
		}
	})
}

// STR-001: text is output as it arrives, except for trailing blanks.
func TestStreamShowsAtOnce(t *testing.T) {
	s := NewStream(Cleaning{Collapse: true})
	var got []string
	for _, piece := range []string{" \n<thi", "nk>hm", "</think>\n", "Hello ", "world. ", "{\"a\":", "1} `x", "` <b>", "\n\n\n", "End"} {
		text, void := s.Write(piece)
		require.False(t, void)
		got = append(got, text)
	}
	assert.Equal(t, []string{"", "", "", "Hello", " world.", "", " {\"a\":1} `x", "` <b>", "", "\n\nEnd"}, got)
}

// TXT-004
func TestToolCallsAreFound(t *testing.T) {
	for in, want := range map[string]struct {
		names, rest string
		broken      bool
	}{
		"no call": {"", "no call", false},
		`<tool_call>{"name":"fs/read","arguments":{"path":"a"}}</tool_call>`:                                  {`fs/read{"path":"a"}`, "", false},
		`Let me. <tool_call>{"name":"a","arguments":"{\"x\":1}"}</tool_call> `:                                {`a{"x":1}`, "Let me.  ", false},
		`It says "<tool_call>{"name":"a"}</tool_call>". I will not.`:                                          {"a{}", `It says "". I will not.`, true},
		`<tool_call>{"name":"a"}</tool_call> and <tool_call>{"name":"b"}</tool_call>`:                         {"a{} b{}", " and ", true},
		`{"tool_call":{"name":"a"}} is how a call is written.`:                                                {"a{}", " is how a call is written.", true},
		"<tool_call>\n{\"name\":\"a\"}\n{\"name\":\"b\"}":                                                     {"a{} b{}", "", false},
		`{"tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{}"}},{"name":"b"}]}`: {"a{} b{}", "", false},
		`Sure: {"tool_call": {"tool":"a","args":{"n":1}}}`:                                                    {`a{"n":1}`, "Sure: ", false},
		"```json\n{\"tool_call\":{\"name\":\"a\"}}\n```":                                                      {"", "```json\n{\"tool_call\":{\"name\":\"a\"}}\n```", false},
		"the tag `<tool_call>` opens":                                                                         {"", "the tag `<tool_call>` opens", false},
		"<tool_call>not json</tool_call>":                                                                     {"", "", true},
		`{"tool_calls": "later"}`:                                                                             {"", "", true},
		`{"tool_calls": [], "text":"x"}`:                                                                      {"", `{"tool_calls": [], "text":"x"}`, false},
		`{"other": {"tool_calls": 1}}`:                                                                        {"", `{"other": {"tool_calls": 1}}`, false},
		`<tool_call>{"name":"a","arguments":[1]}</tool_call>`:                                                 {"", "", true},
		`Now {"tool_call": {"name":"a","args":{}}`:                                                            {"", "Now ", true},
		`Now {"plan": {"tool_calls":[{"name":"a","args":{}}]}`:                                                {"", "Now ", true},
		`Now {"plan": {"steps":[{}]}`:                                                                         {"", `Now {"plan": {"steps":[{}]}`, false},
	} {
		calls, rest, broken := toolCalls(in)
		var names []string
		for _, c := range calls {
			names = append(names, c.Name+string(c.Args))
		}
		assert.Equal(t, want.names, strings.Join(names, " "), in)
		assert.Equal(t, want.rest, rest, in)
		assert.Equal(t, want.broken, broken, in)
	}
}

// TXT-005
func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		most int
		want string
	}{
		"short enough":            {"One two.", 8, "One two."},
		"no limit":                {"One two.", 0, "One two."},
		"at a sentence":           {"One two. Three four. Five six.", 24, "One two. Three four."},
		"at a word":               {"One two three four five six", 20, "One two three four…"},
		"the sentence is too far": {"One. Two three four five six seven", 20, "One. Two three four…"},
		"an abbreviation is none": {"We met in Paris with Dr. Smith there", 26, "We met in Paris with Dr.…"},
		"counted in characters":   {"żółć gęśl jaźń", 10, "żółć gęśl…"},
		"one long word":           {strings.Repeat("a", 30), 10, strings.Repeat("a", 9) + "…"},
		"a family is one":         {"abcdefgh👨‍👩‍👧 x", 10, "abcdefgh…"},
		"a letter with its marks": {"abcdefghe\u0301\u0302zz", 10, "abcdefgh…"},
		"a flag is one":           {"abcdefgh🇵🇱🇩🇪z", 10, "abcdefgh…"},
		"no cut in a fence":       {"Look here:\n```\n1234567890\n1234567890\n```", 30, "Look here:"},
		"a fence alone is closed": {"```\n1234567890\n1234567890\n1234567890\n```", 30, "```\n1234567890\n1234567890\n```"},
	} {
		got, cut := ShippedPacks().Limit(c.in, c.most, "en")
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.in != c.want, cut, name)
		if c.most > 0 {
			assert.LessOrEqual(t, utf8.RuneCountInString(got), c.most, name)
		}
	}
	long, cut := ShippedPacks().Limit(strings.Repeat("Twelve chars. ", 2000), 1_000_000, "en")
	assert.True(t, cut)
	assert.LessOrEqual(t, utf8.RuneCountInString(long), MaxChars)
}

// TXT-001: the order, and TXT-005: line breaks.
func TestClean(t *testing.T) {
	got := Clean("\n<think>x</think> One.\n\n\n\nTwo. <tool_call>{\"name\":\"a\"}</tool_call>  ", Cleaning{Collapse: true})
	assert.Equal(t, "One.\n\nTwo.", got.Text)
	assert.Len(t, got.Calls, 1)
	got = Clean("\x00 a\x00b\tc\r\nd\x1b[0m\x7f <th\x00ink>x</think>\u0080e\x00", Cleaning{})
	assert.Equal(t, "ab\tc\r\nd[0m e", got.Text, "control characters go, white space stays")
	assert.Empty(t, Clean("\x00\x00", Cleaning{}).Text)
	const call = ` {"tool_calls":[{"name":"a"}],"text":"<think>"}`
	got = Clean(call, Cleaning{KeepCalls: true})
	assert.Equal(t, strings.TrimSpace(call), got.Text)
	assert.False(t, got.Broken || len(got.Calls) > 0)
	got = Clean("a\n\n\nb\n```\n1\n\n\n2\n```", Cleaning{Collapse: true})
	assert.Equal(t, "a\n\nb\n```\n1\n\n\n2\n```", got.Text)
}

// TXT-008: reasoning before a program is removed in linear time. The bound excludes quadratic time.
func TestReasoningBeforeIsLinear(t *testing.T) {
	for _, part := range []string{
		"</think>\n", "</think>\n\n", "<think></think>", "<think>a</think>\n", "```a\n</think>\n", "~~~\n</think>\n```a\n</think>\n",
		"`a` ", "\n", " ", "a </think>", "<think>", "</think>  ",
	} {
		spent := func(n int) time.Duration {
			s := strings.Repeat(part, n)
			start := proof.Spent()
			rest := WithoutReasoningBefore(s)
			assert.True(t, strings.HasSuffix(s, rest), part)
			return max(proof.Spent()-start, 50*time.Microsecond)
		}
		var small, large time.Duration
		for range 5 { // the best of five, because other work such as garbage collection is measured too
			if small, large = spent(1000), spent(16_000); large < 80*small {
				break
			}
		}
		assert.Less(t, large, 80*small, "%q: %v, then %v", part, small, large)
	}
}

// TXT-008
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"<think>a</think>b", "```\n<think>", "{\"tool_calls\":[{}]}", "<tool_call>", "a\n\n\n\nb", "\xff<think>", "🇵🇱🇩"} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		got := Clean(s, Cleaning{MaxChars: most, Collapse: true})
		if most > 0 && utf8.RuneCountInString(got.Text) > min(most, MaxChars) {
			t.Fatalf("%d characters, %d allowed: %q", utf8.RuneCountInString(got.Text), most, got.Text)
		}
		if again := WithoutReasoning(s); len(again) > len(s) {
			t.Fatal("longer than before")
		}
	})
}
