package conformance

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The profiles. Core applies to every plugin, a kind to a plugin with a
// capability of that kind, and an optional part of the protocol to a plugin
// that advertises it as a feature.
const (
	profileCore = "core"

	profileLLM     = "llm"
	profileJudge   = "judge"
	profileChecker = "checker"
	profileSolver  = "solver"
	profileTool    = "tool"
	profileAgent   = "agent"

	profileStreaming = sdk.FeatureStreaming
	profileHostCalls = sdk.FeatureHostCalls
	profileMux       = sdk.FeatureMux
	profileHotSwap   = sdk.FeatureHotSwap
)

// Profiles returns the names of all profiles in the order of a report.
func Profiles() []string {
	return append([]string{profileCore}, append(kinds(), features()...)...)
}

func kinds() []string {
	return []string{profileLLM, profileJudge, profileChecker, profileSolver, profileTool, profileAgent}
}
func features() []string {
	return []string{profileStreaming, profileHostCalls, profileMux, profileHotSwap}
}

// profilesOf returns the profiles that a plugin must pass. They follow from its
// description alone.
func profilesOf(d contract.Description) []string {
	all := []string{profileCore}
	for _, kind := range kinds() {
		if slices.ContainsFunc(d.Capabilities, func(c contract.Capability) bool { return c.Kind == kind }) {
			all = append(all, kind)
		}
	}
	for _, feature := range features() {
		if slices.Contains(d.Features, feature) ||
			feature == profileStreaming && slices.ContainsFunc(d.Capabilities, streams) {
			all = append(all, feature)
		}
	}
	return all
}

// streams reports whether a capability declares that it streams, which it may
// without the feature.
func streams(c contract.Capability) bool { return c.Streams }

// profileOf returns the profile in the id of a check.
func profileOf(id string) string {
	profile, _, _ := strings.Cut(id, "/")
	return profile
}
