package failure

import (
	"github.com/fermenthq/ferment/sdk/contract"
)

// Row is the number of a failure in the table.
type Row int

// The failures.
const (
	NotConfigured   Row = iota + 1 // no key, provider not set up
	Unavailable                    // refused, DNS, TLS, reset before headers
	Foreign                        // redirect, 404 without a model code, a body that is not an answer
	RequestInvalid                 // 400, 422
	ContextExceeded                // context-length codes, 413
	AuthFailed                     // 401, or a body that blames the key
	QuotaExhausted                 // 402, 429 whose code names quota
	RateLimited                    // other 429
	ModelNotFound                  // in any of the error bodies
	ProviderError                  // other 5xx, in-band error, finish "error"
	Overloaded                     // 503, 529, overloaded code
	Timeout                        // 408, 504, silence or first-token timer
	Deadline                       // of the host
	Truncated                      // end of file without terminator
	Stalled                        // stall timer
	Malformed                      // too many malformed events, event over 1 MiB
	Refused                        // refusal, content filter
	OutputTruncated                // length stop with schema or tools
	Empty                          // no text and no tool call
	ToolCallInvalid                // arguments cut or not an object, unknown tool
	FormatDrift                    // schema asked: cannot be parsed
	QueueFull                      // own queue full
	SchemaInvalid                  // schema asked: parsed and invalid
	Canceled                       // by the caller
	Forbidden                      // 403 that does not blame the key, such as the page of a firewall
	Unsayable                      // this model or its format cannot express the request
)

// hint returns the next step after a response with a report, "" if it is that of the error type.
func (r Row) hint(said Report) string {
	switch {
	case r == Refused && said.Message != "" && said.Category == "":
		return "change the request, or use another model"
	case r == Forbidden:
		return "the message says why, for example a firewall or a region; if it is the key, set a valid one in ferment.hcl"
	}
	return ""
}

// family is one of three error types that cover all failures of a provider.
type family string

const (
	notConfigured family = "provider/not-configured"
	requestFailed family = "provider/request-failed"
	providerError family = "provider/error"
)

type row struct {
	typ    string
	source contract.Source
	family family
}

// Said returns a short description of the row for the status of a plugin. model
// is the name of the model.
func (r Row) Said(model string) string {
	said, known := map[Row]string{
		Foreign:         "no model answers at this address",
		ModelNotFound:   "the provider has no model " + model,
		AuthFailed:      "the key is refused",
		QuotaExhausted:  "the quota is used up",
		RateLimited:     "too many requests",
		Overloaded:      "the provider is overloaded",
		ContextExceeded: "the request is longer than the model can read",
		Refused:         "the request was refused",
		ToolCallInvalid: "the model wrote a tool call that cannot be read",
		Forbidden:       "access is denied",
		Unsayable:       "the model does not support a part of the request",
		Timeout:         "the provider reported a timeout",
	}[r]
	if !known {
		return "failed"
	}
	return said
}

func rows() map[Row]row {
	host, request, down := contract.SourceHost, contract.SourceRequest, contract.SourceDownstream
	return map[Row]row{
		NotConfigured:   {"provider/not-configured", host, notConfigured},
		Unavailable:     {"provider/unavailable", down, requestFailed},
		Foreign:         {"provider/request-failed", down, requestFailed},
		RequestInvalid:  {"provider/request-invalid", request, providerError},
		ContextExceeded: {"provider/context-exceeded", request, providerError},
		AuthFailed:      {"provider/auth-failed", host, providerError},
		QuotaExhausted:  {"provider/quota-exhausted", down, providerError},
		RateLimited:     {"provider/rate-limited", down, requestFailed},
		ModelNotFound:   {"provider/model-not-found", host, notConfigured},
		ProviderError:   {"provider/error", down, providerError},
		Overloaded:      {"provider/overloaded", down, requestFailed},
		Timeout:         {"provider/timeout", down, requestFailed},
		Deadline:        {"timeout/hard", down, providerError},
		Truncated:       {"stream/truncated", down, requestFailed},
		Stalled:         {"stream/stalled", down, requestFailed},
		Malformed:       {"stream/malformed", down, requestFailed},
		Refused:         {"provider/refused", down, providerError},
		OutputTruncated: {"provider/output-truncated", down, providerError},
		Empty:           {"provider/empty", down, providerError},
		ToolCallInvalid: {"provider/tool-call-invalid", down, providerError},
		FormatDrift:     {"format/drift", down, providerError},
		SchemaInvalid:   {"schema/invalid", down, providerError},
		// A host treats source host from a plugin as its own; calls that wait
		// here wait for the provider.
		QueueFull: {"runtime/overloaded", down, providerError},
		Canceled:  {"canceled", request, providerError},
		Forbidden: {"provider/request-failed", down, requestFailed},
		Unsayable: {"provider/request-invalid", request, providerError},
	}
}
