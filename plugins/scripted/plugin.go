package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// settings is the configuration of the plugin: exactly one of the two.
type settings struct {
	Script string `edn:"script,omitempty" unit:"path" doc:"file with the script"`
	Inline string `edn:"inline,omitempty" doc:"the script itself, as EDN text"`
}

func newPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name:     "scripted",
		Version:  "1.0.0",
		Features: []string{sdk.FeatureHotSwap},
		Config:   sdk.Config[settings]{Offer: offer},
	}
}

// offer parses the script and makes a player for each capability.
func offer(_ context.Context, s settings) (sdk.Offer, error) {
	text, source, at, err := s.text()
	if err != nil {
		return sdk.Offer{}, err
	}
	script, err := readScript(text, source)
	if err != nil {
		return sdk.Offer{}, located(err, at)
	}
	o := sdk.Offer{Schemas: script.schemas}
	for _, id := range slices.Sorted(maps.Keys(script.roles)) {
		r := script.roles[id]
		p := &player{role: r}
		o.Capabilities = append(o.Capabilities, sdk.Raw(id, r.meta.Intents, p.answer, sdk.Metadata(func(c *contract.Capability) { *c = r.meta })))
	}
	return o, nil
}

// text returns the script, the name under which errors cite it, and its
// setting.
func (s settings) text() (text []byte, source string, at edn.Value, err error) {
	switch {
	case s.Script != "" && s.Inline != "":
		return nil, "", at, sdk.Problem("script and inline are both set: set one, not both", edn.K("inline"))
	case s.Inline != "":
		return []byte(s.Inline), "inline", edn.K("inline"), nil
	case s.Script == "":
		return nil, "", at, sdk.Problem("a script is missing: name its file", edn.K("script"))
	}
	at = edn.K("script")
	info, err := os.Stat(s.Script)
	switch {
	case err != nil:
		return nil, "", at, sdk.Problem("read the script: "+err.Error(), at)
	case !info.Mode().IsRegular():
		return nil, "", at, sdk.Problem(fmt.Sprintf("%s is not a regular file", s.Script), at)
	case info.Size() > maxScript:
		return nil, "", at, sdk.Problem(fmt.Sprintf("%s has %d bytes, the limit is %d", s.Script, info.Size(), maxScript), at)
	}
	text, err = os.ReadFile(s.Script)
	if err != nil {
		return nil, "", at, sdk.Problem("read the script: "+err.Error(), at)
	}
	return text, s.Script, at, nil
}

// located converts script errors to problems of the setting at.
func located(err error, at edn.Value) error {
	var faults scriptErrors
	if !errors.As(err, &faults) {
		return sdk.Problem(err.Error(), at)
	}
	all := make([]error, len(faults))
	for i, f := range faults {
		all[i] = sdk.Problem(f.Error(), at)
	}
	return errors.Join(all...)
}
