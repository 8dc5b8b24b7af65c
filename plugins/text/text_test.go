package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }

// EMB-003: sentences of the source, in order, with their places.
func TestSummarize(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	out := p.MustInvoke("text/extractive", edn.MustRead(`{:text "Żółw idzie. The bees of the hive dance on the comb. Their dance tells the other bees where food is. A cat sleeps." :max-sentences 2}`))
	text, _ := out.Key("text").AsString()
	assert.Equal(t, "The bees of the hive dance on the comb. Their dance tells the other bees where food is.", text)
	source := []rune("Żółw idzie. The bees of the hive dance on the comb. Their dance tells the other bees where food is. A cat sleeps.")
	var joined []string
	for s := range out.Key("sentences").Elems() {
		from, _ := s.Key("range").Nth(0)
		to, _ := s.Key("range").Nth(1)
		a, _ := from.AsInt()
		b, _ := to.AsInt()
		joined = append(joined, string(source[a:b]))
	}
	assert.Equal(t, text, strings.Join(joined, " "))

	frames := p.MustInvoke("text/extractive", edn.MustRead(`{:frames ["First frame." {:text "Second frame."}] :max-sentences 2}`))
	got, _ := frames.Key("text").AsString()
	assert.Equal(t, "First frame. Second frame.", got)
}

// The contract of the intent permits the text in several fields; :text and
// :frames take precedence.
func TestSummarizeFindsTheText(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	for input, want := range map[string]string{
		`{:context {:frames ["No end" {:text "Here."}]}}`:                                   "No end\n\nHere.",
		`{:context {:text "Inside."} :prompt "Sum it up."}`:                                 "Inside.",
		`{:path "d" :frames [{:path "d/a" :content "One."} {:content "No." :text "Two."}]}`: "One.\n\nTwo.",
		`{:prompt "Only this."}`:                                                            "Only this.",
		`{:summary "A summary of a summary."}`:                                              "A summary of a summary.",
		`{:text "The text." :prompt "Sum it up."}`:                                          "The text.",
		`{:text "The text." :language :en-GB :extra 1}`:                                     "The text.",
	} {
		got, _ := p.MustInvoke("text/extractive", edn.MustRead(input)).Key("text").AsString()
		assert.Equal(t, strings.ReplaceAll(want, "\n\n", " "), got, input)
	}
}

// TXT-006: the language is the input's, else that of the constraints, else the
// detected one. Only German knows that "Mai" does not begin a sentence.
func TestSummarizeLanguage(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	for _, c := range []struct {
		input, constraints string
		sentences          int
	}{
		{`{:text "Sie kam am 3. Mai."}`, `{:language :de}`, 1},
		{`{:text "Sie kam am 3. Mai."}`, `{:language "en"}`, 2},
		{`{:text "Sie kam am 3. Mai." :language :de}`, `{:language :en}`, 1},
		{`{:text "Sie kam am 3. Mai, und das ist nicht der Tag."}`, `{}`, 1},
	} {
		out, err := p.Do(context.Background(), sdktest.Call{
			Capability: "text/extractive",
			Input:      edn.MustRead(c.input),
			Fields:     edn.MustMap(edn.K("constraints"), edn.MustRead(c.constraints)),
		})
		require.NoError(t, err)
		assert.Equal(t, c.sentences, out.Key("result").Key("out").Key("sentences").Len(), "%s %s", c.input, c.constraints)
	}
}

func TestRender(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	out := p.MustInvoke("text/template", edn.MustRead(`{:template "{{#xs}}<{{.}}>{{/xs}}{{>end}}" :data {:xs ["a" "&"]} :partials {"end" "."} :escape :html}`))
	assert.Equal(t, `{:text "<a><&amp;>."}`, out.String())
}

func TestClassifyAndDecide(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(edn.MustRead(`{:route {"text/respond" {:capability "llm/voice"}} :default "llm/meta"}`)))
	ask := func(intent, input string) edn.Value {
		out, err := p.Do(context.Background(), sdktest.Call{Capability: "text/classifier", Intent: intent, Input: edn.MustRead(input)})
		require.NoError(t, err)
		return out.Key("result").Key("out")
	}
	out := ask("route/classify", `{:text "Please summarize this article in two sentences."}`)
	assert.True(t, edn.Equal(edn.K("context/summarize"), out.Key("intent")), "%s", out)
	assert.Equal(t, `{:cap/id :llm/voice}`, ask("route/decide", `{:request {:task {:intent :text/respond}}}`).String())
	assert.Equal(t, `{:cap/id :llm/meta}`, ask("route/decide", `{:request {:task {:intent :code/patch}}}`).String())
	for _, name := range []string{"text/respond", ":text/respond"} { // VAL-006: as JSON has it
		assert.Equal(t, `{:cap/id :llm/voice}`, ask("route/decide", `{:request {:task {:intent "`+name+`"}}}`).String(), name)
	}
}

// A table with impossible names is rejected with its place.
func TestConfigIsChecked(t *testing.T) {
	for config, says := range map[string]string{
		`{:default "voice"}`:                             `"voice" is not the id of a capability`,
		`{:route {"text/respond" {:capability "a b"}}}`:  `"a b" is not the id of a capability`,
		`{:route {"respond" {:capability "llm/voice"}}}`: `"respond" is not an intent`,
	} {
		var cfg settings
		require.NoError(t, edn.Decode(edn.MustRead(config), &cfg))
		assert.ErrorContains(t, checkRoutes(cfg), says, config)
	}
}

// EMB-007: each row is one typed error, class stop, that names the field.
func TestMalformedInput(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	for _, c := range []struct{ capability, intent, input, typ, field string }{
		{"text/extractive", "context/summarize", `{}`, "input/invalid", "text"},
		{"text/extractive", "context/summarize", `{:text 7}`, "input/invalid", "text"},
		{"text/extractive", "context/summarize", `{:text "  "}`, "text/nothing-to-summarize", "text"},
		{"text/extractive", "context/summarize", `{:text "a." :frames ["b."]}`, "input/invalid", "frames"},
		{"text/extractive", "context/summarize", `{:frames [7]}`, "input/invalid", "frames"},
		{"text/extractive", "context/summarize", `{:text "a." :max-sentences 0}`, "input/invalid", "max-sentences"},
		{"text/extractive", "context/summarize", `{:text "A long sentence." :max-chars 3}`, "input/invalid", "max-chars"},
		{"text/extractive", "context/summarize", `{:text "a." :language 7}`, "input/invalid", "language"},
		{"text/extractive", "context/summarize", `{:text "a." :language "e1"}`, "input/invalid", "language"},
		{"text/extractive", "context/summarize", `{:frames []}`, "text/nothing-to-summarize", "frames"},
		{"text/extractive", "context/summarize", `{:frames ["a." {:body "b"}]}`, "input/invalid", "frames 1"},
		{"text/extractive", "context/summarize", `{:context {:frames 7}}`, "input/invalid", "context frames"},
		{"text/extractive", "context/summarize", `{:context {:frames [7]}}`, "input/invalid", "context frames 0"},
		{"text/extractive", "context/summarize", `{:context {:text 7}}`, "input/invalid", "context text"},
		{"text/extractive", "context/summarize", `{:context {}}`, "input/invalid", "text"},
		{"text/extractive", "context/summarize", `{:text "a." :max-sentences 101}`, "input/invalid", "max-sentences"},
		{"text/extractive", "context/summarize", `{:text "a." :max-chars 0}`, "input/invalid", "max-chars"},
		{"text/template", "text/render", `{}`, "input/invalid", "template"},
		{"text/template", "text/render", `{:template "{{a}}" :data 7}`, "input/invalid", "data"},
		{"text/template", "text/render", `{:template "{{a}}"}`, "render/missing", "template"},
		{"text/template", "text/render", `{:template "{{#a}}"}`, "render/syntax", "template"},
		{"text/template", "text/render", `{:template "{{>p}}" :partials {"p" "{{>p}}"}}`, "render/syntax", "p"},
		{"text/template", "text/render", `{:template "{{>p}}" :partials {"p" "a\n{{x}}"}}`, "render/missing", "partial p line 2"},
		{"text/template", "text/render", `{:template "{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}" :data {:xs [1 2 3 4 5 6 7 8 9 10 11 12]}}`, "render/too-large", "template"},
		{"text/template", "text/render", `{:template "x" :escape :xml}`, "input/invalid", "escape"},
		{"text/template", "text/render", `{:template "x" :missing :crash}`, "input/invalid", "missing"},
		{"text/classifier", "route/classify", `{}`, "input/invalid", "text"},
		{"text/classifier", "route/classify", `{:text 1}`, "input/invalid", "text"},
		{"text/classifier", "route/decide", `{:request {}}`, "input/invalid", "request"},
		{"text/classifier", "route/decide", `{:request {:task {:intent ""}}}`, "input/invalid", "request"},
		{"text/classifier", "route/decide", `{:request {:task {:intent :a/b}}}`, "route/decide-failed", "a/b"},
	} {
		_, err := p.Do(context.Background(), sdktest.Call{Capability: c.capability, Intent: c.intent, Input: edn.MustRead(c.input)})
		e := contract.AsError(err)
		if assert.NotNil(t, e, c.input) {
			assert.Equal(t, c.typ, e.Type, "%s: %v", c.input, e)
			assert.Equal(t, contract.ClassStop, e.Class, c.input)
			assert.Contains(t, e.Message+e.Details.String(), c.field, c.input)
		}
	}
}

// EMB-001: equal input, byte-equal output.
func TestAnswersAreSteady(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	input := edn.MustRead(`{:text "One bee flies. Two bees dance. Three bees dance in the hive. The hive hums."}`)
	first := p.MustInvoke("text/extractive", input)
	for range 5 {
		assert.Equal(t, first.String(), p.MustInvoke("text/extractive", input).String())
	}
}

// TXT-006: configured languages are read from files.
func TestLanguagePacks(t *testing.T) {
	packs := func(files ...edn.Value) edn.Value {
		return edn.MustMap(edn.K("language-packs"), edn.Vector(files...))
	}
	italian, shipped := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(packs(edn.Text("../../examples/languages/it.edn")))), sdktest.Serve(t, newPlugin())
	in := edn.MustRead(`{:text "Il sig. Rossi è andato a casa e non ha detto perché. Le api danzano, ma non sempre." :max-sentences 5}`)
	assert.Equal(t, 2, italian.MustInvoke("text/extractive", in).Key("sentences").Len())
	assert.Equal(t, 3, shipped.MustInvoke("text/extractive", in).Key("sentences").Len())
	ask := sdktest.Call{Capability: "text/classifier", Intent: "route/classify", Input: edn.MustRead(`{:text "Le api della casa non sono nel giardino, ma anche gli altri lo sanno già."}`)}
	for p, want := range map[*sdktest.Plugin]string{italian: ":it", shipped: ":und"} {
		out, err := p.Do(context.Background(), ask)
		require.NoError(t, err)
		assert.Equal(t, want, out.Key("result").Key("out").Key("language").String())
	}
	err := check(settings{Packs: []string{"../../examples/languages/it.edn", "absent.edn"}})
	assert.ErrorContains(t, err, "absent.edn: no such file")
}
