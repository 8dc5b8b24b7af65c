package failure

import (
	"regexp"
	"strconv"
	"sync"
)

// tooLongCodes are codes of a request above the context window or the maximum size.
var tooLongCodes = []string{
	"context_length", "exceed_context_size", "request_too_large", "string_above_max_length",
}

// tooLongWordings returns what servers write about a request above the context
// window. The groups in and window are its tokens and those of the window. A wording
// with both precedes one that has fewer. The test names the server of each one. A
// limit of output tokens alone is not among them: the server names the field, and
// the request would fail at another candidate too.
var tooLongWordings = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, pattern := range []string{
		// OpenAI, and the servers with its wording
		`maximum context length is (?P<window>\d+) tokens.*\D(?P<in>\d+) in (the messages|your prompt)`,
		`maximum context length is (?P<window>\d+) tokens.* resulted in (?P<in>\d+) tokens`,
		`maximum context length is (?P<window>\d+) tokens.* at least (?P<in>\d+) input tokens`,
		`maximum context length is (?P<window>\d+) tokens.* request has (?P<in>\d+) input tokens`,
		`maximum context length is (?P<window>\d+) tokens.*\D(?P<in>\d+) of text input`,
		`configured limit of (?P<window>\d+) tokens.* resulted in (?P<in>\d+) tokens`,
		// Mistral, SGLang, vLLM, llama.cpp, llama-cpp-python
		`contains (?P<in>\d+) tokens.*too large for model with (?P<window>\d+) maximum context length`,
		`input \((?P<in>\d+) tokens\) is longer than the model's context length \((?P<window>\d+) tokens\)`,
		`prompt (\(length|length of) (?P<in>\d+)\)? is longer than the maximum model length of (?P<window>\d+)`,
		`request \((?P<in>\d+) tokens\) exceeds the available context size \((?P<window>\d+) tokens\)`,
		`requested tokens \((?P<in>\d+)\) exceed context window of (?P<window>\d+)`,
		// LM Studio
		`keep the first (?P<in>\d+) tokens .*context length of only (?P<window>\d+)`,
		`n_keep:? \(?(?P<in>\d+)\)? ?>= ?n_ctx:? \(?(?P<window>\d+)`,
		// several, and the class of LiteLLM
		`context ?(window|length|size)|exceeds the available context`,
		// Anthropic, Bedrock
		`prompt is too long: (?P<in>\d+) tokens > (?P<window>\d+) maximum`,
		`exceed context limit: (?P<in>\d+) \+ \d+ > (?P<window>\d+)`,
		`(prompt|input) is too long`,
		// Gemini
		`input token count \(?(?P<in>\d+)\)? exceeds the maximum number of tokens allowed \(?(?P<window>\d+)`,
		`input token count.* exceeds the maximum number of tokens`,
		// xAI
		`maximum prompt length is (?P<window>\d+) but the request contains (?P<in>\d+) tokens`,
		// text-generation-inference
		"`inputs` tokens \\+ `max_new_tokens` must be <= (?P<window>\\d+)\\. given: (?P<in>\\d+) `inputs` tokens",
		"`inputs` must have less than (?P<window>\\d+) tokens\\. given: (?P<in>\\d+)",
		"`inputs` tokens \\+ `max_new_tokens` must be <=|`inputs` must have less than",
		// Moonshot, Copilot, Poolside, Groq, Perplexity, Cohere
		`exceeded model token limit: (?P<window>\d+) \(requested: (?P<in>\d+)\)`,
		`prompt token count of (?P<in>\d+) exceeds the limit of (?P<window>\d+)`,
		`input length (?P<in>\d+) exceeds the maximum allowed input length of (?P<window>\d+)`,
		`reduce the length of the messages|length of all messages is too long|too many tokens: `,
	} {
		all = append(all, regexp.MustCompile(`(?is)`+pattern))
	}
	return all
})

// tooLong reports whether the request is above the context window, by its codes or
// by its message.
func (r Report) tooLong() bool {
	if r.has(tooLongCodes...) {
		return true
	}
	for _, wording := range tooLongWordings() {
		if wording.MatchString(r.Own()) {
			return true
		}
	}
	return false
}

// sizes returns the tokens of the request and of the context window, 0 for each that
// is not stated: from the fields of the report, or from its message.
func (r Report) sizes() (in, window int64) {
	if r.Prompt > 0 && r.Window > 0 {
		return r.Prompt, r.Window
	}
	for _, wording := range tooLongWordings() {
		i, w := wording.SubexpIndex("in"), wording.SubexpIndex("window")
		if found := wording.FindStringSubmatch(r.Own()); found != nil && i > 0 && w > 0 {
			in, _ = strconv.ParseInt(found[i], 10, 64) // 0 if it is too large
			window, _ = strconv.ParseInt(found[w], 10, 64)
			return in, window
		}
	}
	return 0, 0
}
