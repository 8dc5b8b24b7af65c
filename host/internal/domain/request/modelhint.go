package request

import "slices"

// ModelHint explains how to configure a language model, for intents that only a
// model can serve. It is empty for every other intent.
func ModelHint(intent string) string {
	models := []string{
		"text/respond", "problem/solve", "model/chat", "code/generate", "code/patch", "code/explain", "code/review",
	}
	if !slices.Contains(models, intent) {
		return ""
	}
	return "a language model serves it: configure one with a plugin block whose command is the llm program, " +
		"with provider, api_key (or the base_url of a server of your own) and a model block that lists " + intent
}
