package request

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Keys of requests, created once.
var (
	kProto          = edn.K("proto")
	kTrace          = edn.K("trace")
	kID             = edn.K("id")
	kTask           = edn.K("task")
	kIntent         = edn.K("intent")
	kCapID          = edn.K("cap/id")
	kRequires       = edn.K("requires")
	kDispatch       = edn.K("dispatch")
	kInput          = edn.K("input")
	kContext        = edn.K("context")
	kConstraints    = edn.K("constraints")
	kDone           = edn.K("done")
	kBudget         = edn.K("budget")
	kEffects        = edn.K("effects")
	kRequestID      = edn.K("request/id")
	kStream         = edn.K("stream?")
	kRouting        = edn.K("routing")
	kQueue          = edn.K("queue")
	kInSchema       = edn.K("in-schema")
	kOutSchema      = edn.K("out-schema")
	kResultType     = edn.K("result/type")
	kCapKind        = edn.K("cap/kind")
	kCapTags        = edn.K("cap/tags")
	kEffectsAllowed = edn.K("effects/allowed")
	kAllowed        = edn.K("allowed")
	kMust           = edn.K("must")
	kShould         = edn.K("should")
	kScoreMin       = edn.K("score-min")
	kMessages       = edn.K("messages")
	kPrompt         = edn.K("prompt")
	kError          = edn.K("error")
	kUsage          = edn.K("usage")
	kMessage        = edn.K("message")
	kPath           = edn.K("path")

	// Schema words for expected values.
	kMap     = edn.K("map")
	kKeyword = edn.K("keyword")
	kString  = edn.K("string")
	kInt     = edn.K("int")
	kBoolean = edn.K("boolean")
	kNumber  = edn.K("number")
	kDecimal = edn.K("decimal")

	setOfKeywords = edn.Vector(edn.K("set"), kKeyword)
)

func path(keys ...edn.Value) []edn.Value { return keys }

func invalidRequest(reason, message string, path []edn.Value) contract.Fault {
	return contract.Fault{Type: "invalid-request", Reason: reason, Message: message, Path: path}
}

func keywords(names []string) []edn.Value {
	list := make([]edn.Value, len(names))
	for i, n := range names {
		list[i] = edn.K(n)
	}
	return list
}

// isColl reports whether v is a set, a vector or a list: the kinds accepted for
// a collection of names.
func isColl(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindSet, edn.KindVector, edn.KindList:
		return true
	}
	return false
}
