package quality_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

func condition(name string, f quality.Func) quality.Check {
	return quality.Check{Check: registry.Check{Name: name, Kind: registry.CheckCondition}, Judge: f}
}

func byCapability(name string) quality.Check {
	return quality.Check{Check: registry.Check{Name: name, Kind: registry.CheckCapability, Intent: "x/check"}}
}

// TestGatesOrder: GATE-003 and EVAL-040, cheap first, musts before shoulds, by
// name; a name in both lists is must; schema-valid is always present with an
// out-schema (GATE-007).
func TestGatesOrder(t *testing.T) {
	set, err := quality.NewSet(condition("cond", nil), byCapability("cap-a"), byCapability("cap-b"))
	require.NoError(t, err)
	var got []string
	for _, g := range set.Gates([]string{"cap-b", "cond", "ghost"}, []string{"cap-a", "json-valid", "cond"}, true) {
		got = append(got, g.Name+" "+g.Severity.String())
	}
	assert.Equal(t, []string{"ghost must", "schema-valid must", "json-valid should", "cond must", "cap-b must", "cap-a should"}, got)
	assert.Empty(t, set.Gates(nil, nil, false))
	should := set.Gates(nil, []string{"schema-valid"}, true)
	require.Len(t, should, 1)
	assert.Equal(t, quality.Must, should[0].Severity)
}

// TestUnknownCheckFails: GATE-002.
func TestUnknownCheckFails(t *testing.T) {
	set, err := quality.NewSet()
	require.NoError(t, err)
	g := set.Gates([]string{"nobody"}, nil, false)[0]
	require.Nil(t, g.Check)
	r := quality.Unknown(g)
	assert.True(t, r.Failed())
	assert.Equal(t, quality.CheckError, r.Findings[0].Code)
	assert.Equal(t, quality.TierBuiltin, g.Tier())
}

// TestConditions: GATE-010, a condition is a function; its errors are findings,
// and applies false makes it not applicable.
func TestConditions(t *testing.T) {
	long := condition("long", func(s quality.Subject) quality.Outcome {
		text, _ := s.Result.Key("text").AsString()
		return quality.Outcome{Pass: len(text) > 3}
	})
	assert.True(t, long.Run(quality.Subject{Result: edn.MustRead(`{:text "abcd"}`)}).Pass)
	o := long.Run(quality.Subject{Result: edn.MustRead(`{:text "a"}`)})
	assert.False(t, o.Pass)
	assert.Equal(t, "check :long failed", o.Findings[0].Message)

	long.Message = func(quality.Subject) string { return "too short" }
	assert.Equal(t, "too short", long.Run(quality.Subject{}).Findings[0].Message)

	long.Applies = func(s quality.Subject) (bool, *quality.Finding) { return s.Request.HasKey("strict"), nil }
	assert.True(t, long.Run(quality.Subject{}).NotApplicable)
	long.Applies = func(quality.Subject) (bool, *quality.Finding) {
		return true, &quality.Finding{Code: quality.CheckError, Message: "no key"}
	}
	unknown := quality.Finding{Gate: "long", Code: quality.CheckError, Message: "no key"}
	assert.Contains(t, long.Run(quality.Subject{}).Findings, unknown, "a failure that may not be one")
	passed := long.Run(quality.Subject{Result: edn.MustRead(`{:text "abcd"}`)})
	assert.True(t, passed.Pass)
	assert.Empty(t, passed.Findings)

	broken := condition("broken", func(quality.Subject) quality.Outcome { panic("boom") })
	o = broken.Run(quality.Subject{})
	assert.False(t, o.Pass)
	assert.Equal(t, quality.CheckError, o.Findings[0].Code)
	assert.Contains(t, o.Findings[0].Message, "boom")

	empty := condition("empty", nil)
	assert.Equal(t, quality.CheckError, empty.Run(quality.Subject{}).Findings[0].Code)
}

// TestRebinding: GATE-002, a configured check with a built-in's name replaces
// it, and another name may be bound to a built-in.
func TestRebinding(t *testing.T) {
	set, err := quality.NewSet(
		byCapability("schema-valid"),
		quality.Check{Check: registry.Check{Name: "short", Kind: registry.CheckBuiltin, Builtin: "max-chars", Params: edn.MustRead("{:max 2}")}},
	)
	require.NoError(t, err)
	c, ok := set.Check("schema-valid")
	require.True(t, ok)
	assert.Equal(t, quality.TierCapability, c.Tier())
	short, ok := set.Check("short")
	require.True(t, ok)
	assert.False(t, short.Run(quality.Subject{Result: edn.MustRead(`{:text "abc"}`)}).Pass)
	var names []string
	for _, d := range set.Declarations() {
		names = append(names, d.Name)
	}
	assert.Subset(t, names, []string{"json-valid", "max-chars", "schema-valid", "short"})
	assert.IsNonDecreasing(t, names)

	_, err = quality.NewSet(byCapability("a"), byCapability("a"))
	assert.ErrorContains(t, err, "twice")
	_, err = quality.NewSet(quality.Check{Check: registry.Check{Name: "a", Kind: registry.CheckBuiltin, Builtin: "nope"}})
	assert.ErrorContains(t, err, "nope")
	_, err = quality.NewSet(quality.Check{})
	assert.ErrorContains(t, err, "no name")
}

// TestBuiltins: GATE-002, the answers that the built-in checks pass and fail.
func TestBuiltins(t *testing.T) {
	set, err := quality.NewSet()
	require.NoError(t, err)
	s := schema.MustCompile(edn.MustRead(`[:map [:text :string] [:n :int]]`))
	for _, row := range []struct {
		check, result, request, params string
		pass, applies                  bool
		finding                        string
	}{
		{"schema-valid", `{:text "a" :n 1}`, `{}`, `{}`, true, true, ""},
		{"schema-valid", `{:text 5}`, `{}`, `{}`, false, true, "(:res/test)"},
		{"max-chars", `{:text "zażółć"}`, `{:constraints {:max-chars 6}}`, `{}`, true, true, ""},
		{"max-chars", `{:text "zażółć!"}`, `{:constraints {:max-chars 6}}`, `{}`, false, true, "7 characters, 6 are allowed"},
		{"max-chars", `{:summary "abc"}`, `{:constraints {:max-chars 6}}`, `{:max 2}`, false, true, "3 characters, 2 are allowed"},
		{"max-chars", `{:text "abc"}`, `{}`, `{}`, true, false, "no :max-chars"},
		{"max-chars", `{:move "e4"}`, `{:constraints {:max-chars 6}}`, `{}`, true, false, "no text"},
		{"json-valid", `{:text "{\"a\": [1, 2.5e3]}"}`, `{}`, `{}`, true, true, ""},
		{"json-valid", `{:text "{'a': 1}"}`, `{}`, `{}`, false, true, "not one valid JSON"},
		{"json-valid", `{:text "{} {}"}`, `{}`, `{}`, false, true, "not one valid JSON"},
		{"json-valid", `"[1]"`, `{}`, `{}`, true, true, ""},
		{"json-valid", `{:n 1}`, `{}`, `{}`, true, false, "no text"},
	} {
		t.Run(row.check+" "+row.result+row.request, func(t *testing.T) {
			c, ok := set.Check(row.check)
			require.True(t, ok)
			c.Params = edn.MustRead(row.params)
			o := c.Run(quality.Subject{Result: edn.MustRead(row.result), Request: edn.MustRead(row.request), Schema: s, SchemaName: "res/test"})
			assert.Equal(t, row.pass, o.Pass)
			assert.Equal(t, row.applies, !o.NotApplicable)
			if row.finding != "" {
				require.NotEmpty(t, o.Findings)
				assert.Contains(t, o.Findings[0].Message, row.finding)
				assert.Equal(t, row.check, o.Findings[0].Gate)
			}
		})
	}
	c, _ := set.Check("schema-valid")
	assert.True(t, c.Run(quality.Subject{Result: edn.Int(1)}).NotApplicable, "without a schema there is nothing to say")
	all := c.Run(quality.Subject{Result: edn.MustRead(`{:text 5 :n "x"}`), Schema: s})
	assert.Len(t, all.Findings, 2, "all mismatches, not the first")
}

// TestInterpret: GATE-009, how the answer of a capability check is parsed.
func TestInterpret(t *testing.T) {
	c := byCapability("legal-move")
	for _, row := range []struct {
		answer  string
		pass    bool
		code    string
		finding string
	}{
		{"true", true, "", ""},
		{"false", false, "", "check :legal-move failed"},
		{"[]", true, "", ""},
		{"()", true, "", ""},
		{`[{:message "a"} {:message "b" :fix "c" :path [:x 0]}]`, false, "", "a"},
		{`["plain words"]`, false, "", "plain words"},
		{`[{:rule 7}]`, false, "", "{:rule 7}"},
		{"[1]", false, quality.CheckError, "not a finding"},
		{"{:ok? true}", true, "", ""},
		{"{:accepted? false}", false, "", "check :legal-move failed"},
		{"{:pass? true}", true, "", ""},
		{`{:legal? false :findings [{:message "illegal"}]}`, false, "", "illegal"},
		{"{:valid? true :legal? false}", false, "", "check :legal-move failed"},
		{"{:applies? true}", true, "", ""},
		{"{:tests/pass? true}", true, "", ""},
		{"{:tests/pass? nil :ok? nil}", false, quality.CheckError, "none of"},
		{"{:ok? nil :tests/pass? true}", true, "", ""},
		{"{:ok? 1}", false, quality.CheckError, "not a boolean"},
		{`{:findings ["x"]}`, false, "", "x"},
		{"{:findings []}", true, "", ""},
		{"{}", false, quality.CheckError, "none of"},
		{"nil", false, quality.CheckError, "not a boolean"},
		{`"yes"`, false, quality.CheckError, "not a boolean"},
		{"1", false, quality.CheckError, "not a boolean"},
	} {
		t.Run(row.answer, func(t *testing.T) {
			o := quality.Interpret(&c, edn.MustRead(row.answer), quality.Subject{})
			assert.Equal(t, row.pass, o.Pass)
			if row.pass {
				return
			}
			require.NotEmpty(t, o.Findings)
			assert.Equal(t, row.code, o.Findings[0].Code)
			assert.Contains(t, o.Findings[0].Message, row.finding)
			assert.Equal(t, "legal-move", o.Findings[0].Gate)
		})
	}
	o := quality.InterpretError(&c, errors.New("timed out"), quality.Subject{})
	assert.Equal(t, quality.CheckError, o.Findings[0].Code)
	assert.Contains(t, o.Findings[0].Message, "timed out")
	full := quality.Interpret(&c, edn.MustRead(`[{:message "b" :fix "c" :path [:x 0]}]`), quality.Subject{})
	g := quality.Gate{Name: "legal-move", Severity: quality.Should, Check: &c}
	r := quality.Result{Gate: g, Outcome: full}.Named()
	assert.Equal(t, `{:fix "c" :gate :legal-move :message "b" :path [:x 0] :severity :should}`, r.Findings[0].Value().String())
}

// TestInterpretNeverPanics: every value gives an outcome.
func TestInterpretNeverPanics(t *testing.T) {
	c := byCapability("x")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{
			"{", "}", "[", "]", "#{", ":ok?", ":findings", "true", "false", "nil", "1", `"t"`, ":message", ":path",
		}), 0, 12).Draw(t, "words")
		v, err := edn.ReadString(strings.Join(words, " "))
		if err != nil {
			return
		}
		o := quality.Interpret(&c, v, quality.Subject{})
		assert.True(t, o.Pass || len(o.Findings) > 0)
	})
}

// TestCapabilityInput: GATE-009, later parts take precedence, and whole input
// and answer are included.
func TestCapabilityInput(t *testing.T) {
	c := byCapability("x")
	c.Params = edn.MustRead("{:depth 3}")
	in := quality.CapabilityInput(&c, quality.Subject{
		Request: edn.MustRead(`{:input {:fen "f" :depth 1 :move "old"}}`),
		Result:  edn.MustRead(`{:move "e4" :depth 2}`),
	})
	assert.Equal(t, `{:check/request {:input {:depth 1 :fen "f" :move "old"}} :check/result {:depth 2 :move "e4"} :depth 3 :fen "f" :move "e4"}`, in.String())
	in = quality.CapabilityInput(&c, quality.Subject{Result: edn.MustRead(`"text"`)})
	assert.Equal(t, `{:check/request nil :check/result "text" :depth 3}`, in.String())
}

// TestText: SLOT-008, the order of the text keys.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		`{:patch "p" :code "c" :explanation "e" :answer "a" :summary "s" :content "k" :text "t"}`: "t",
		`{:patch "p" :code "c" :explanation "e" :answer "a" :summary "s" :content "k"}`:           "k",
		`{:patch "p" :code "c" :explanation "e" :answer "a" :summary "s"}`:                        "s",
		`{:patch "p" :code "c" :explanation "e" :answer "a"}`:                                     "a",
		`{:patch "p" :code "c" :explanation "e"}`:                                                 "e",
		`{:patch "p" :code "c"}`:   "c",
		`{:patch "p"}`:             "p",
		`{:text " \n" :patch "p"}`: "p",
		`{:text 1 :patch "p"}`:     "p",
		`"s"`:                      "s",
		`{:move "e4"}`:             "",
		`[1]`:                      "",
		`nil`:                      "",
	} {
		_, got, ok := quality.Text(edn.MustRead(text))
		assert.Equal(t, want, got, text)
		assert.Equal(t, want != "", ok, text)
	}
}
