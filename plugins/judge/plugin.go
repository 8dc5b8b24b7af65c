package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fermenthq/ferment/plugins/judge/internal/rules"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/text/packfile"
)

const version = "1.0.0"

// The capabilities and their intents.
const (
	grade     = "eval/grade"
	rubricCap = "judge/rubric"
	rulesCap  = "judge/rules"
)

// settings are the config block of the plugin.
type settings struct {
	Intent    string   `edn:"intent" doc:"intent that judge/rubric calls if the request names none"`
	Family    string   `edn:"family,omitempty" doc:"family of the model behind the intent, if there is only one; an author of that family is then rejected before the model is called"`
	MaxBytes  int64    `edn:"max-bytes" unit:"bytes" min:"1024" max:"1048576" doc:"the middle of a longer answer is omitted"`
	MaxTokens int64    `edn:"max-tokens" min:"64" max:"65536" doc:"token limit of one verdict"`
	Packs     []string `edn:"language-packs,omitempty" unit:"path" doc:"files of further languages for judge/rules, as in prompts.language_packs of the host; a pack of a built-in language replaces it"`
}

func newPlugin(random io.Reader) sdk.Plugin {
	return sdk.Plugin{
		Name: "judge", Version: version,
		Features: []string{sdk.FeatureHotSwap, sdk.FeatureHostCalls},
		Schemas:  map[string]edn.Value{rules.SchemaName: rules.Schema()},
		Config: sdk.Config[settings]{
			Default: settings{Intent: "model/chat", MaxBytes: 64 << 10, MaxTokens: 2000},
			Check:   check,
			Offer: func(_ context.Context, cfg settings) (sdk.Offer, error) {
				languages, err := languagesOf(cfg)
				if err != nil {
					return sdk.Offer{}, err
				}
				byRules := rulesJudge{languages}
				r := rubricJudge{settings: cfg, random: random, rules: byRules}
				return sdk.Offer{Capabilities: []sdk.Capability{
					sdk.Func(rubricCap, sdk.Intents(grade), r.judge,
						sdk.Kind("judge"), sdk.In("req/eval"), sdk.Out("res/eval"), sdk.Tags("rubric"),
						sdk.Description("Asks a model to score an answer by the criteria of a rubric.")),
					sdk.Func(rulesCap, sdk.Intents(grade), byRules.judge,
						sdk.Kind("judge"), sdk.In("req/eval"), sdk.Out("res/eval"), sdk.Tags("embedded"), sdk.Deterministic(),
						sdk.Cost(contract.Cost{Latency: time.Millisecond, USD: edn.Int(0)}),
						sdk.Description("Scores the form of an answer by rules, without a model.")),
				}}, nil
			},
		},
	}
}

func check(cfg settings) error {
	if name, err := edn.Keyword(cfg.Intent); err != nil || name.Namespace() == "" {
		return sdk.Problem(fmt.Sprintf("%q is not an intent such as model/chat", cfg.Intent), edn.K("intent"))
	}
	if cfg.Intent == grade {
		return sdk.Problem("a judge does not ask itself: name the intent that a model serves, such as model/chat",
			edn.K("intent"))
	}
	_, err := languagesOf(cfg)
	return err
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
