package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/text/packfile"
)

const version = "1.0.0"

func main() { sdk.Serve(newPlugin()) }

// settings are the config block of the plugin: the static table of
// :route/decide, and languages.
type settings struct {
	Routes  map[string]route `edn:"route,omitempty" doc:"a row of the table of :route/decide, by intent without colon"`
	Default string           `edn:"default,omitempty" doc:"capability of :route/decide for intents that the table does not name, without colon"`
	Least   *float64         `edn:"min-confidence,omitempty" doc:"least confidence of :route/classify, 0 to 1; below it the intent is problem/solve. Default: 0.35"`
	Packs   []string         `edn:"language-packs,omitempty" unit:"path" doc:"files of further languages, as in prompts.language_packs of the host; a pack of a built-in language replaces it"`
}

type route struct {
	Capability string `edn:"capability" doc:"id without colon"`
}

func newPlugin() sdk.Plugin {
	cost := sdk.Cost(contract.Cost{Latency: 5 * time.Millisecond, USD: edn.Int(0)})
	return sdk.Plugin{
		Name:     "text",
		Version:  version,
		Features: []string{sdk.FeatureHotSwap},
		Schemas: map[string]edn.Value{
			"req/text.render":    schema.For[renderIn](),
			"res/text.render":    schema.For[renderOut](),
			"req/route.classify": schema.For[classifyIn](),
			"res/route.classify": schema.For[classifyOut](),
		},
		Config: sdk.Config[settings]{
			Check: check,
			Offer: func(_ context.Context, cfg settings) (sdk.Offer, error) {
				languages, err := languagesOf(cfg)
				if err != nil {
					return sdk.Offer{}, err
				}
				return sdk.Offer{Capabilities: []sdk.Capability{
					sdk.Func("text/extractive", sdk.Intents("context/summarize"), summarizer{languages}.summarize,
						sdk.Kind("tool"), sdk.Tags("embedded"), sdk.Deterministic(), cost,
						sdk.In("req/context"), sdk.Out("res/context-summary"),
						sdk.Description("Picks the sentences that stand for the whole text.")),
					sdk.Func("text/template", sdk.Intents("text/render"), render,
						sdk.Kind("tool"), sdk.Tags("embedded"), sdk.Deterministic(), cost,
						sdk.In("req/text.render"), sdk.Out("res/text.render"),
						sdk.Description("Fills a Mustache template with data.")),
					sdk.Func("text/classifier", sdk.Intents("route/classify", "route/decide"), router{cfg, languages}.answer,
						sdk.Kind("tool"), sdk.Tags("embedded"), sdk.Deterministic(), cost,
						sdk.InFor("route/classify", "req/route.classify"), sdk.OutFor("route/classify", "res/route.classify"),
						sdk.InFor("route/decide", "req/route"), sdk.OutFor("route/decide", "res/route"),
						sdk.Description("Tells the intent of a request by rules, and the capability for it by a table.")),
				}}, nil
			},
		},
	}
}

func check(cfg settings) error {
	_, err := languagesOf(cfg)
	if least := cfg.Least; least != nil && !(*least >= 0 && *least <= 1) {
		err = errors.Join(sdk.Problem(fmt.Sprintf("the confidence %v, expected 0 to 1", *least), edn.K("min-confidence")), err)
	}
	return errors.Join(checkRoutes(cfg), err)
}

// languagesOf returns the built-in languages with those of the settings.
func languagesOf(cfg settings) (*text.Packs, error) {
	packs, err := packfile.Load(cfg.Packs)
	var bad *packfile.FileError
	if errors.As(err, &bad) {
		return nil, sdk.Problem(bad.Error(), edn.K("language-packs"), edn.Int(int64(bad.Index)))
	}
	return packs, err
}

// checkRoutes returns an error for names that cannot be an intent or a capability.
func checkRoutes(cfg settings) error {
	for _, intent := range slices.Sorted(maps.Keys(cfg.Routes)) {
		if !named(intent) {
			return sdk.Problem(fmt.Sprintf("%q is not an intent such as text/respond", intent), edn.K("route"), edn.Text(intent))
		}
		if id := cfg.Routes[intent].Capability; !named(id) {
			return sdk.Problem(fmt.Sprintf("%q is not the id of a capability such as llm/fast", id), edn.K("route"),
				edn.Text(intent), edn.K("capability"))
		}
	}
	if cfg.Default != "" && !named(cfg.Default) {
		return sdk.Problem(fmt.Sprintf("%q is not the id of a capability such as llm/fast", cfg.Default), edn.K("default"))
	}
	return nil
}

// named reports whether s is a name with a namespace.
func named(s string) bool {
	name, err := edn.Keyword(s)
	return err == nil && name.Namespace() != ""
}
