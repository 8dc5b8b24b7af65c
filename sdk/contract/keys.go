package contract

import "github.com/fermenthq/ferment/sdk/edn"

// Keys of envelopes, metadata and errors, created once.
var (
	kProto = edn.K("proto")
	kCapID = edn.K("cap/id")

	kResult    = edn.K("result")
	kError     = edn.K("error")
	kType      = edn.K("type")
	kOut       = edn.K("out")
	kPlan      = edn.K("plan")
	kBindings  = edn.K("bindings")
	kStreamKey = edn.K("stream")
	kUsage     = edn.K("usage")
	kValue     = edn.K("value")
	kText      = edn.K("text")

	kMessage   = edn.K("message")
	kRetryable = edn.K("retryable?")
	kClass     = edn.K("class")
	kSource    = edn.K("source")
	kWhere     = edn.K("where")
	kDetails   = edn.K("details")
	kHint      = edn.K("hint")
	kCause     = edn.K("cause")

	kReason   = edn.K("reason")
	kPath     = edn.K("path")
	kExpected = edn.K("expected")
	kGot      = edn.K("got")
	kNearest  = edn.K("nearest")
	kFindings = edn.K("findings")

	// Schema words for expected values.
	kMap     = edn.K("map")
	kKeyword = edn.K("keyword")
	kString  = edn.K("string")
	kInt     = edn.K("int")
	kBoolean = edn.K("boolean")
)
