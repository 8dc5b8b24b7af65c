package failure

import (
	"regexp"
	"strings"
)

// Of returns the failure for a response with this status and body.
func Of(status int, r Report) Row {
	row, named := r.named()
	switch {
	case status >= 300 && status < 400:
		return Foreign
	case status == 402, r.quota() && (status == 429 || r.Words != "" && (status == 403 || status == 400)):
		return QuotaExhausted
	case status == 401:
		return AuthFailed
	case status == 429:
		return RateLimited
	case named && status >= 400 && !(status >= 500 && (row == AuthFailed || row == QuotaExhausted)):
		return row
	case r.noModel() && (status == 400 || status == 403 || status == 404 || status == 422 || status >= 500):
		return ModelNotFound
	case status == 403 && r.blamesKey():
		return AuthFailed
	case status == 403:
		return Forbidden
	case r.tooLong() && status >= 400, status == 413:
		return ContextExceeded
	case status == 404, status == 405, status < 400:
		return Foreign
	case status == 408, status == 504:
		return Timeout
	case status == 503, status == 529, r.overloaded():
		return Overloaded
	case status >= 500, status == 409, status == 425:
		return ProviderError
	case status == 400, status == 422:
		return RequestInvalid
	}
	return Foreign // another status is about the route, not about the request
}

// InBand returns the failure for an error that arrives in place of an answer,
// in a response with status 200. It distinguishes only failures that differ in
// whether and where to retry.
func InBand(r Report) Row {
	row, named := r.named()
	switch {
	case r.Words != "" && r.quota():
		return QuotaExhausted
	case r.overloaded():
		return Overloaded
	case r.rated():
		return RateLimited
	case r.tooLong():
		return ContextExceeded
	case named:
		return row
	case r.noModel():
		return ModelNotFound
	case r.badInput():
		return RequestInvalid
	}
	return ProviderError
}

// blamesKey reports whether a response of status 403 says that the key is the reason. Pages of
// firewalls have this status too, and depend on the prompt or the network.
func (r Report) blamesKey() bool {
	return !r.page && (r.has("permission_error", "permission_denied") ||
		r.says("api key", "api-key", "apikey", "access token", "credential", "permission", "unauthorized", "not authorized", "invalid token"))
}

// badInput reports whether the codes of a response blame the request
// (openai-python, types/responses/response_error.py, 2026-08-21).
func (r Report) badInput() bool {
	return r.Words != "" && r.has("invalid_prompt", "_image", "image_")
}

func (r Report) quota() bool {
	return r.has("quota", "balance", "billing", "spend", "usage_limit", "usage limit", "credit")
}

func (r Report) rated() bool { return r.has("rate_limit", "rate limit", "too_many_requests") }

func (r Report) overloaded() bool { return r.has("overloaded") }

// aboutModel matches the word, not a part of the name of a tool.
var aboutModel = regexp.MustCompile(`(?i)\bmodels?\b`)

func (r Report) noModel() bool {
	if !aboutModel.MatchString(r.Own()) {
		return false
	}
	return r.has("not_found") || // anthropic: the message is "model: NAME"
		r.says("not found", "does not exist", "not loaded", "unknown model", "no such model",
			"is not available", "try pulling")
}

// has searches the codes for words, or the message if there are no codes.
func (r Report) has(words ...string) bool {
	text := r.Words
	if text == "" {
		text = strings.ToLower(r.Own())
	}
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func (r Report) says(phrases ...string) bool {
	m := strings.ToLower(r.Own())
	for _, p := range phrases {
		if strings.Contains(m, p) {
			return true
		}
	}
	return false
}
