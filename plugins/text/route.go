package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// classifyIn is the input of :route/classify.
type classifyIn struct {
	Text     *string   `edn:"text"`
	Language edn.Value `edn:"language,omitempty"`
}

type classifyOut struct {
	Intent     edn.Value   `edn:"intent"`
	Confidence float64     `edn:"confidence"`
	Language   edn.Value   `edn:"language"`
	Ranking    []edn.Value `edn:"ranking"`
	Evidence   []edn.Value `edn:"evidence"`
}

// leastConfidence is the confidence below which the fallback intent is returned, unless the
// settings have another limit.
const (
	leastConfidence = 0.35
	anyIntent       = "problem/solve"
)

type router struct {
	settings
	languages *text.Packs
}

// answer serves the two intents of the classifier.
func (r router) answer(ctx context.Context, in edn.Value) (any, error) {
	if sdk.CallFrom(ctx).Intent == "route/decide" {
		return r.decide(in)
	}
	var typed classifyIn
	if err := edn.Decode(in, &typed); err != nil {
		return nil, contract.Errorf("input/invalid", "read the input: %w", err)
	}
	return r.classify(typed)
}

func (r router) classify(in classifyIn) (classifyOut, error) {
	if in.Text == nil {
		return classifyOut{}, refused("a text", edn.Nil(), "text")
	}
	language, err := languageOf(in.Language, "language")
	if err != nil {
		return classifyOut{}, err
	}
	if language == "" {
		language, _ = r.languages.Detect(*in.Text)
	}
	least := leastConfidence
	if r.Least != nil {
		least = *r.Least
	}
	c := text.ShippedRules().Classify(*in.Text, language, least, anyIntent)
	tag, err := edn.Keyword(language)
	if err != nil {
		return classifyOut{}, refused("a language such as :en", in.Language, "language")
	}
	out := classifyOut{
		Intent:     edn.K(c.Intent),
		Confidence: c.Confidence,
		Language:   tag,
		Ranking:    []edn.Value{},
		Evidence:   []edn.Value{},
	}
	for _, one := range c.Ranking {
		if one.Confidence > 0 {
			out.Ranking = append(out.Ranking, edn.MustMap(edn.K("intent"), edn.K(one.Intent), edn.K("confidence"),
				steady(one.Confidence)))
		}
	}
	for _, e := range c.Evidence {
		out.Evidence = append(out.Evidence, edn.MustMap(edn.K("intent"), edn.K(e.Intent), edn.K("weight"), steady(e.Weight),
			edn.K("match"), edn.Text(e.Match)))
	}
	return out, nil
}

// steady returns a finite number as a rounded value.
func steady(x float64) edn.Value { return edn.MustFloat(math.Round(x*1000) / 1000) }

// decide returns the capability that the configured table names for the intent
// of the request.
func (r router) decide(in edn.Value) (edn.Value, error) {
	v := in.Key("request").Key("task").Key("intent")
	intent, ok := v.AsKeyword()
	if s, written := v.AsString(); written { // a caller without EDN writes names as strings
		intent = strings.TrimPrefix(s, ":")
		ok = intent != ""
	}
	if !ok {
		return edn.Nil(), refused("a request with :task :intent", v, "request", "task", "intent")
	}
	capability := r.Default
	if row, ok := r.Routes[intent]; ok {
		capability = row.Capability
	}
	if capability == "" {
		return edn.Nil(), contract.Errorf("route/decide-failed",
			"the table of this plugin names no capability for :%s", intent).
			WithHint("add a route block for it to the config block of the plugin, or set default")
	}
	id, err := edn.Keyword(capability)
	if err != nil {
		return edn.Nil(), fmt.Errorf("route :%s by the table: capability: %w", intent, err)
	}
	return edn.MustMap(edn.K("cap/id"), id), nil
}
