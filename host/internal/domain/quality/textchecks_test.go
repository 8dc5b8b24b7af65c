package quality_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TXT-007: every check is known by its name, is not applicable where the table
// says so, and otherwise passes and fails.
func TestTextChecks(t *testing.T) {
	set, err := quality.NewSet()
	require.NoError(t, err)
	const fence = "```"
	for name, c := range map[string]struct {
		check, intent, request, out, meta, system string
		want                                      string // pass, fail, n/a
	}{
		"a whole text":              {check: "no-truncated-ending", out: `{:text "All is well."}`, want: "pass"},
		"a text that stops":         {check: "no-truncated-ending", out: `{:text "All is"}`, want: "fail"},
		"the limit of tokens":       {check: "no-truncated-ending", out: `{:text "All is well."}`, meta: `{:finish :length}`, want: "fail"},
		"cut at a sentence":         {check: "no-truncated-ending", out: `{:text "All is well."}`, meta: `{:finish :stop :text/cut? true}`, want: "pass"},
		"cut, and cut by its limit": {check: "no-truncated-ending", out: `{:text "All is well."}`, meta: `{:finish :length :text/cut? true}`, want: "fail"},
		"cut between words":         {check: "no-truncated-ending", out: `{:text "All is…"}`, meta: `{:text/cut? true}`, want: "fail"},
		"code needs no end":         {check: "no-truncated-ending", intent: "code/generate", out: `{:text "x ="}`, want: "n/a"},
		"no text, no end":           {check: "no-truncated-ending", out: `{:code "x ="}`, want: "n/a"},
		"an intent of one's own":    {check: "no-truncated-ending", intent: "support/answer", out: `{:text "All is"}`, want: "fail"},
		"complete":                  {check: "complete", out: `{:text "All"}`, meta: `{:finish :stop}`, want: "pass"},
		"half a function":           {check: "complete", intent: "code/generate", out: `{:code "func a() {"}`, meta: `{:finish :length}`, want: "fail"},
		"half a chat":               {check: "complete", intent: "model/chat", out: `{:text "All" :finish :length}`, want: "fail"},
		"complete, then cut":        {check: "complete", out: `{:text "All is well."}`, meta: `{:finish :stop :text/cut? true}`, want: "pass"},
		"incomplete, then cut":      {check: "complete", out: `{:text "All is well."}`, meta: `{:finish :length :text/cut? true}`, want: "fail"},
		"a structure that ended":    {check: "complete", intent: "route/decide", out: `{:cap/id :a/b}`, meta: `{:finish :length}`, want: "fail"},
		"no finish reason":          {check: "complete", out: `{:text "All"}`, want: "n/a"},
		"a list":                    {check: "no-list-expansion", out: `{:text "- a\n- b"}`, want: "fail"},
		"a list that was asked":     {check: "no-list-expansion", request: `{:input {:prompt "a list please"}}`, out: `{:text "- a\n- b"}`, want: "pass"},
		"steps of a solution":       {check: "no-list-expansion", intent: "problem/solve", out: `{:text "- a\n- b"}`, want: "n/a"},
		"blank":                     {check: "sufficient-detail", out: `{:text " "}`, want: "fail"},
		"enough":                    {check: "sufficient-detail", out: `{:text "A bird."}`, want: "pass"},
		"a message asks":            {check: "sufficient-detail", request: `{:input {:messages [{:role :user :content "explain in detail"}]}}`, out: `{:text "A bird."}`, want: "fail"},
		"the wanted language":       {check: "language-match", request: `{:constraints {:language :de}}`, out: `{:text "Das ist nicht so einfach, wie es am Anfang ausgesehen hat."}`, want: "pass"},
		"another language":          {check: "language-match", request: `{:constraints {:language :en}}`, out: `{:text "Das ist nicht so einfach, wie es am Anfang ausgesehen hat."}`, want: "fail"},
		"that of the prompt":        {check: "language-match", request: `{:input {:prompt "What is the reason for this and how did they do it?"}}`, out: `{:text "Das ist nicht so einfach, wie es am Anfang ausgesehen hat."}`, want: "fail"},
		"no language":               {check: "language-match", out: `{:text "Das ist nicht so einfach, wie es am Anfang ausgesehen hat."}`, want: "n/a"},
		"a short text":              {check: "language-match", request: `{:constraints {:language :en}}`, out: `{:text "Das ist."}`, want: "n/a"},
		"numbers of the source":     {check: "numbers-from-source", intent: "context/summarize", request: `{:input {:frames [{:text "In 2019 it was 5."}]}}`, out: `{:text "5 in 2019."}`, want: "pass"},
		"another number":            {check: "numbers-from-source", intent: "context/summarize", request: `{:input {:text "In 2019 it was 5."}}`, out: `{:text "6 in 2019."}`, want: "fail"},
		"no source":                 {check: "numbers-from-source", out: `{:text "6 in 2019."}`, want: "n/a"},
		"quotes of the source":      {check: "quotes-from-source", intent: "context/summarize", request: `{:input {:text "he came late"}}`, out: `{:text "\"came late\""}`, want: "pass"},
		"another quote":             {check: "quotes-from-source", intent: "context/summarize", request: `{:input {:text "he came late"}}`, out: `{:text "\"came early\""}`, want: "fail"},
		"reasoning":                 {check: "no-think-leak", out: `{:text "</think>a"}`, want: "fail"},
		"no reasoning":              {check: "no-think-leak", out: `{:text "a"}`, want: "pass"},
		"a call":                    {check: "no-tool-leak", out: `{:text "<tool_call>"}`, want: "fail"},
		"no call":                   {check: "no-tool-leak", out: `{:text "a"}`, want: "pass"},
		"the prompt":                {check: "no-prompt-leak", system: "one two three four five six seven eight nine ten eleven twelve", out: `{:text "One two three four five six seven eight nine ten eleven twelve."}`, want: "fail"},
		"the prompt of a message":   {check: "no-prompt-leak", request: `{:input {:messages [{:role :system :content "one two three four five six seven eight nine ten eleven twelve"}]}}`, out: `{:text "One two three four five six seven eight nine ten eleven twelve."}`, want: "fail"},
		"not the prompt":            {check: "no-prompt-leak", system: "one two three", out: `{:text "one two three"}`, want: "pass"},
		"no prompt":                 {check: "no-prompt-leak", out: `{:text "one two three"}`, want: "n/a"},
		"a secret":                  {check: "no-secret", intent: "eval/grade", out: `{:note {:deep ["password: hunter2!x"]}}`, want: "fail"},
		"no secret":                 {check: "no-secret", out: `{:text "a"}`, want: "pass"},
		"nothing":                   {check: "no-secret", out: `{:ok true}`, want: "n/a"},
		"what Go has":               {check: "no-hallucinated-apis", out: `{:text "` + fence + `go\nx := strings.ToUpper(y)\n` + fence + `"}`, want: "pass"},
		"what Go has not":           {check: "no-hallucinated-apis", out: `{:text "` + fence + `go\nx := strings.Reverse(y)\n` + fence + `"}`, want: "fail"},
		"under its key":             {check: "no-hallucinated-apis", intent: "code/generate", out: `{:code "package p\nimport \"strings\"\nvar x = strings.Reverse(y)"}`, want: "fail"},
		"what a patch adds":         {check: "no-hallucinated-apis", intent: "code/patch", out: `{:patch "+++ b/a.go\n@@ -1 +1 @@\n-x = fmt.Foo()\n+x = strings.Reverse(y)\n"}`, want: "fail"},
		"what a patch takes away":   {check: "no-hallucinated-apis", intent: "code/patch", out: `{:patch "+++ b/a.go\n@@ -1 +1 @@\n-x = fmt.Foo()\n+x = fmt.Sprint()\n"}`, want: "pass"},
		"no code":                   {check: "no-hallucinated-apis", out: `{:text "a"}`, want: "n/a"},
		"of a language not known":   {check: "no-hallucinated-apis", out: `{:text "` + fence + `python\nos.foo()\n` + fence + `"}`, want: "n/a"},
		"by an index":               {check: "no-hallucinated-apis", request: `{:context {:api/index {"shop.cart" ["add"]}}}`, out: `{:text "` + fence + `python\ncart.add(1)\ncart.fill()\n` + fence + `"}`, want: "fail"},
		"in an index":               {check: "no-hallucinated-apis", request: `{:context {:api/index {"shop.cart" ["add"]}}}`, out: `{:text "` + fence + `python\ncart.add(1)\n` + fence + `"}`, want: "pass"},
		"it says so":                {check: "no-hallucinated-apis", out: `{:text "a" :violations [:hallucinated/api]}`, want: "fail"},
		"it says which":             {check: "no-hallucinated-apis", out: `{:text "a" :hallucinated-apis ["x"]}`, want: "fail"},
	} {
		check, ok := set.Check(c.check)
		require.True(t, ok, c.check)
		request := edn.MustMap(edn.K("intent"), edn.K("text/respond"))
		if c.intent != "" {
			request = edn.MustMap(edn.K("intent"), edn.K(c.intent))
		}
		if c.request != "" {
			request = request.Merge(edn.MustRead(c.request))
		}
		s := quality.Subject{Result: edn.MustRead(c.out), Request: request, System: c.system}
		if c.meta != "" {
			s.Meta = edn.MustRead(c.meta)
		}
		o := check.Run(s)
		got := map[bool]string{true: "pass", false: "fail"}[o.Pass]
		if o.NotApplicable {
			got = "n/a"
		}
		assert.Equal(t, c.want, got, "%s: %v", name, o.Findings)
	}
}

// TXT-008: a finding has a range in characters and a next step.
func TestTextFindings(t *testing.T) {
	set, err := quality.NewSet()
	require.NoError(t, err)
	check, _ := set.Check("no-think-leak")
	o := check.Run(quality.Subject{Result: edn.MustRead(`{:text "żółć </think>"}`), Request: edn.MustRead(`{:intent :text/respond}`)})
	require.Len(t, o.Findings, 1)
	assert.Equal(t, `{:fix "leave the reasoning out" :gate :no-think-leak :message "a tag of hidden reasoning is left" :path [:text] :range [5 13] :severity :must}`, o.Findings[0].Value().String())
}

// TXT-007: tests-pass passes only if at least one test was run.
func TestTestsPassRequiresTests(t *testing.T) {
	c := &quality.Check{}
	c.Name = registry.TestsPass
	assert.False(t, quality.Interpret(c, edn.MustRead(`{:tests/pass? true :passed 0}`), quality.Subject{}).Pass)
	assert.True(t, quality.Interpret(c, edn.MustRead(`{:tests/pass? true :passed 1}`), quality.Subject{}).Pass)
	assert.True(t, quality.Interpret(c, edn.MustRead(`{:ok? true}`), quality.Subject{}).Pass)
}

// TXT-008: texts that no check was made for are judged too.
func TestBadTexts(t *testing.T) {
	for _, text := range []string{strings.Repeat("🎉", 1000), strings.Repeat("a", 1<<20), strings.Repeat("1. ", 1<<17), strings.Repeat("\"", 1<<17), strings.Repeat("password=", 1<<15), strings.Repeat("{\"", 1<<17), strings.Repeat("`", 1<<17), strings.Repeat("a: ", 1<<17), strings.Repeat("<", 1<<17), strings.Repeat("9,", 1<<17)} {
		for _, c := range quality.Builtins(nil) {
			o := c.Run(quality.Subject{Result: edn.MustMap(edn.K("text"), edn.Text(text)), Request: edn.MustRead(`{:intent :text/respond :input {:prompt "p"}}`)})
			for _, f := range o.Findings {
				assert.NotEqual(t, quality.CheckError, f.Code, "%s: %s", c.Name, f.Message)
			}
		}
	}
}

// TXT-009: precision and recall of the check of API names.
func TestLabelledAPIs(t *testing.T) {
	raw, err := os.ReadFile("testdata/apis.txt")
	require.NoError(t, err)
	set, err := quality.NewSet()
	require.NoError(t, err)
	check, ok := set.Check(quality.NoHallucinatedAPIs)
	require.True(t, ok)
	counts := map[string]int{} // "fail pass": should fail, but passes
	for line := range strings.Lines(string(raw)) {
		if line[0] == '#' {
			continue
		}
		verdict, code, found := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		require.True(t, found, line)
		answer := "```go\n" + strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(code) + "\n```"
		out := check.Run(quality.Subject{Request: edn.MustMap(edn.K("intent"), edn.K("code/explain")), Result: edn.MustMap(edn.K("text"), edn.Text(answer))})
		got := map[bool]string{true: "pass", false: "fail"}[out.Pass]
		counts[verdict+" "+got]++
		if got != verdict {
			t.Logf("should %s: %s: %v", verdict, code, out.Findings)
		}
	}
	require.Equal(t, 20, counts["fail fail"]+counts["fail pass"])
	require.Equal(t, 20, counts["pass fail"]+counts["pass pass"])
	precision := float64(counts["fail fail"]) / float64(counts["fail fail"]+counts["pass fail"])
	recall := float64(counts["fail fail"]) / 20
	t.Logf("precision %.2f recall %.2f", precision, recall)
	assert.GreaterOrEqual(t, precision, 0.95)
	assert.GreaterOrEqual(t, recall, 0.95)
}
