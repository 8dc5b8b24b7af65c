package question

// The intents with special forms.
const (
	Chat  = "model/chat"  // whose answer is a message instead of a value
	Embed = "model/embed" // which makes vectors of texts
)

// intentSchemas are the built-in schemas of the intents that models serve:
// input and output.
func intentSchemas() map[string][2]string {
	return map[string][2]string{
		Chat:                {"req/chat", "res/chat"},
		Embed:               {"req/embed", "res/embed"},
		"text/respond":      {"req/text", "res/text"},
		"context/summarize": {"req/context", "res/context-summary"},
		"problem/solve":     {"req/problem", "res/problem"},
		"code/generate":     {"req/code", "res/code"},
		"code/patch":        {"req/code", "res/patch+tests"},
		"code/explain":      {"req/code", "res/explanation"},
		"code/review":       {"req/code", "res/review"},
		"eval/grade":        {"req/eval", "res/eval"},
		"route/decide":      {"req/route", "res/route"},
	}
}

// InSchema returns the input schema of an intent, req/any for intents without
// their own.
func InSchema(intent string) string {
	if s, ok := intentSchemas()[intent]; ok {
		return s[0]
	}
	return "req/any"
}

// OutSchema returns the output schema of an intent, "" for intents without
// their own.
func OutSchema(intent string) string { return intentSchemas()[intent][1] }
