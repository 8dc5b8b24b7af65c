package failure

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// LLM-031, 1.4: the failure for each status and body, in every form of body
// that providers send.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   Row
	}{
		{302, ``, Foreign},
		{400, `{"error":{"message":"Invalid value for 'x'","type":"invalid_request_error","param":"x","code":null}}`, RequestInvalid},
		{422, `{"detail":"no"}`, RequestInvalid},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`, ContextExceeded},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, ContextExceeded},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, ContextExceeded},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, ContextExceeded},
		{413, `<html><head><title>413 Request Entity Too Large</title></head></html>`, ContextExceeded},
		{401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, AuthFailed},
		{401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, AuthFailed},
		{403, ``, Forbidden},
		{403, `{"error":{"message":"You are not allowed to sample from this model","type":"invalid_request_error","code":null}}`, Forbidden},
		{402, ``, QuotaExhausted},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, QuotaExhausted},
		{429, `{"error":{"message":"Insufficient balance"}}`, QuotaExhausted},
		{429, `{"error":{"message":"x","code":"usage_limit_reached"}}`, QuotaExhausted},
		{400, `{"type":"error","error":{"type":"billing_error","message":"Your credit balance is too low"}}`, QuotaExhausted},
		{429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`, RateLimited},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`, RateLimited},
		{429, ``, RateLimited},
		{404, `{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","code":"model_not_found"}}`, ModelNotFound},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, ModelNotFound},
		{404, `{"error":"model \"llama9\" not found, try pulling it first"}`, ModelNotFound},
		{400, `{"error":{"message":"Model 'x' is not loaded"}}`, ModelNotFound},
		{404, `{"error":{"message":"Unknown request URL: POST /v1/chat"}}`, Foreign},
		{404, `404 page not found`, Foreign},
		{404, ``, Foreign},
		{405, ``, Foreign},
		{408, ``, Timeout},
		{504, `<html><title>504 Gateway Time-out</title>`, Timeout},
		{500, `{"error":{"message":"The server had an error","type":"server_error"}}`, ProviderError},
		{502, `<html><title>502 Bad Gateway</title></html>`, ProviderError},
		{500, `[{"error":{"message":"oops"}}]`, ProviderError},
		{500, `null`, ProviderError},
		{503, ``, Overloaded},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Overloaded},
		{500, `{"error":{"code":"server_overloaded","message":"x"}}`, Overloaded},
		{400, `{"error":{"code":"content_filter","message":"The prompt was filtered"}}`, Refused},
		{418, ``, Foreign},
		{407, ``, Foreign}, {409, ``, ProviderError}, {425, ``, ProviderError}, {451, ``, Foreign}, {499, ``, Foreign},
	} {
		assert.Equal(t, tt.want, Of(tt.status, ReadBody([]byte(tt.body))), "%d %s", tt.status, tt.body)
	}
}

// LLM-030, LLM-031, 1.4: failures that the status does not show, by the wording of each server. A
// refused key opens a breaker until it is reset, so status 403 alone is none; the next candidate is
// asked after every one of these failures.
func TestWordings(t *testing.T) {
	openAI := func(message, typ, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, typ, code)
	}
	anthropic := func(typ, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, typ, message)
	}
	google := func(code int, status, message, reason string) string {
		return fmt.Sprintf(`[{"error":{"code":%d,"message":%q,"status":%q,"details":[{"@type":"x","reason":%q}]}}]`, code, message, status, reason)
	}
	const request = "invalid_request_error"
	for _, tt := range []struct {
		source string
		status int
		body   string
		want   Row
	}{
		{"OpenRouter, docs/api/reference/errors-and-debugging", 403, `{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"x","provider_name":"OpenAI"}}}`, Refused},
		{"OpenRouter, the same document: metadata alone", 403, `{"error":{"code":403,"message":"x","metadata":{"reasons":["violence"],"flagged_input":"x"}}}`, Refused},
		{"OpenRouter, developersdigest.tech: content_policy_violation", 403, `{"error":{"code":403,"message":"x","metadata":{"error_type":"content_policy_violation"}}}`, Refused},
		{"OpenRouter, developersdigest.tech: a guardrail", 403, `{"error":{"code":403,"message":"Request blocked: prompt injection patterns detected","metadata":{"error_type":"permission_denied"}}}`, Refused},
		{"OpenAI, BeehiveInnovations/pal-mcp-server issue 178", 400, openAI("Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting", request, "invalid_prompt"), Refused},
		{"Anthropic, anthropics/claude-code issue 58367", 400, anthropic(request, "Output blocked by content filtering policy"), Refused},
		{"DeepSeek, 666ghj/BettaFish issue 108", 400, openAI("Content Exists Risk", request, request), Refused},
		{"DeepSeek, DeepSeek-V2 issue 30", 400, `{"detail":"Content Exists Risk"}`, Refused},
		{"Alibaba, QwenLM/qwen-code issue 2905", 400, openAI("<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content.", request, "data_inspection_failed"), Refused},
		{"Azure, content filtering", 400, openAI("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "", "content_filter"), Refused},
		{"Anthropic, anthropics/claude-code issue 66314", 400, anthropic(request, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), QuotaExhausted},
		{"Anthropic, anthropics/claude-code issue 2127", 400, anthropic(request, "You have reached your specified API usage limits. You will regain access on 2025-07-01 at 00:00 UTC."), QuotaExhausted},
		{"OpenRouter, gptme/gptme issue 1449", 403, `{"error":{"message":"Key limit exceeded (monthly limit). Manage it using https://openrouter.ai/settings/keys","code":403}}`, QuotaExhausted},
		{"Alibaba, hsliuping/TradingAgents-CN issue 170", 400, openAI("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage"), QuotaExhausted},
		{"RooCodeInc/Roo-Code issue 12309", 403, openAI("Access denied due to overdue account", "x", "x"), QuotaExhausted},
		{"Gemini, openai-scala-client issue 109", 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "API_KEY_INVALID"), AuthFailed},
		{"Gemini, google-gemini/gemini-cli issue 25198", 400, google(400, "INVALID_ARGUMENT", "API Key not found. Please pass a valid API key.", "API_KEY_INVALID"), AuthFailed},
		{"xAI, continuedev/continue issue 10778", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai."}`, AuthFailed},
		{"Gemini, continuedev/continue issue 11541", 403, google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key.", ""), AuthFailed},
		{"Anthropic, anthropics/claude-code issue 51610", 403, anthropic("permission_error", "Permission denied"), AuthFailed},
		{"Anthropic, enricoros/big-AGI issue 176", 403, `{"error":{"type":"forbidden","message":"Request not allowed"}}`, Forbidden},
		{"OpenAI, home-assistant/core issue 120072", 403, openAI("Country, region, or territory not supported", "request_forbidden", "unsupported_country_region_territory"), Forbidden},
		{"Gemini, poenl/gemini-api issue 4", 400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use.", ""), Forbidden},
		{"Cloudflare, langgenius/dify issue 3231", 403, `<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head></html>`, Forbidden},
		{"AWS WAF, aws-samples/sample-kolya-br-proxy pull request 38", 403, `<html><head><title>403 Forbidden</title></head></html>`, Forbidden},
		{"no public source: a page of a firewall about permissions", 403, `<html><head><title>You have no permission</title></head></html>`, Forbidden},
		{"Ollama, issue 14795", 400, `{"error":"registry.ollama.ai/library/Qwen3.5:0.8b does not support tools"}`, Unsayable},
		{"Ollama, issue 5793", 400, openAI("llama3 does not support tools", "api_error", ""), Unsayable},
		{"OpenRouter, evalstate/fast-agent issue 122", 404, `{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}`, Unsayable},
		{"OpenRouter, nexu-io/nexu issue 875", 404, `{"error":{"message":"No endpoints found that support image input","code":404}}`, Unsayable},
		{"vLLM, issue 9986", 400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`, Unsayable},
		{"vLLM, studio-dots-ai/dots.ocr issue 61", 400, `{"object":"error","message":"facebook/opt-125m is not a multimodal model None","type":"BadRequestError","param":null,"code":400}`, Unsayable},
		{"Ollama, issue 17301", 400, `{"error":"this model does not support image input (ref: b8bd630e)"}`, Unsayable},
		{"no public source: LM Studio without a loaded model", 400, `{"error":"No models loaded. Please load a model in the developer page or use the lms load command."}`, ProviderError},
		{"Groq, atiilla/sqlmap-ai issue 3", 400, openAI("The model `qwen-qwq-32b` has been decommissioned and is no longer supported. Please refer to https://console.groq.com/docs/deprecations for a recommendation on which model to use instead.", request, "model_decommissioned"), ModelNotFound},
		{"Groq, groq/groq-typescript issue 103", 400, `{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<tool-use>{}</tool-use>"}}`, ToolCallInvalid},
		{"LM Studio, lmstudio-bug-tracker issue 1057", 400, `{"error":"The model has crashed without additional information. (Exit code: null)"}`, ProviderError},
		{"LM Studio, lmstudio-bug-tracker issue 1347", 400, `{"error":"Channel Error"}`, ProviderError},
		{"LM Studio, charmbracelet/crush issue 2546", 400, openAI("Failed to load model \"qwen/qwen3-coder-30b\". Error: Operation canceled.", request, "x"), ProviderError},
	} {
		report := ReadBody([]byte(tt.body))
		assert.NotEmpty(t, tt.source)
		require.Equal(t, tt.want, Of(tt.status, report), "%s: %s", tt.source, tt.body)
		e := (&Reporter{Provider: "p"}).Error(tt.want, Known{Report: report}, "x")
		assert.NotEqual(t, contract.ClassStop, e.Class, tt.source)
		assert.Equal(t, tt.want == AuthFailed, e.Type == "provider/auth-failed", tt.source)
		if strings.Contains(tt.body, "violence") {
			assert.Equal(t, `"violence"`, e.Details.Key("category").String(), tt.source)
		}
		if raw, _ := e.Details.Key("raw").AsString(); tt.want == ToolCallInvalid {
			assert.Equal(t, "<tool-use>{}</tool-use>", raw, "the answer can be repaired")
		}
		if tt.status != 403 && tt.want != Forbidden {
			assert.Equal(t, tt.want, InBand(report), tt.source)
		}
	}
}

// LLM-030: the words of a user or a model that an error repeats do not name a failure.
func TestRepeatedWords(t *testing.T) {
	for _, tt := range []struct {
		source string
		status int
		body   string
		want   Row
	}{
		{"Ollama, issue 12884: the text of the model", 500, `{"error":"error parsing tool call: raw='{\"content\":\"return errors.New(\\\"invalid API key\\\")', err=unexpected end"}`, ProviderError},
		{"vLLM, issue 10015: the prompt", 400, `{"object":"error","message":"[{'type': 'string_type', 'loc': ('body',), 'input': {'text': 'my credit balance is too low, invalid api key'}}]","type":"BadRequestError","code":400}`, RequestInvalid},
		{"Ollama: the call of a small model", 500, `{"error":"error parsing tool call: raw='{\"name\":\"model_lookup\",\"arguments\":\"page not found', err=unexpected end"}`, ProviderError},
		{"Ollama: another", 500, `{"error":"error parsing tool call: raw='{\"name\":\"get_balance\",\"arguments\":{\"size\":\"context window size', err=x"}`, ProviderError},
		{"the name of a tool", 400, `{"error":{"message":"tool 'credit__check': invalid parameter schema"}}`, RequestInvalid},
		{"a word with another in it", 400, `{"detail":"messages.0: unbalanced braces in '...check my balance...'"}`, RequestInvalid},
		{"OpenAI: the name of a tool", 400, `{"error":{"message":"Tool choice 'data_model__get' not found in 'tools' parameter.","type":"invalid_request_error","param":"tool_choice","code":null}}`, RequestInvalid},
		{"a name without quotation marks", 422, `{"error":{"message":"function model__find does not exist"}}`, RequestInvalid},
		{"a server that says it with 500", 500, `{"error":{"message":"invalid api key"}}`, ProviderError},
		{"the result of a tool", 400, `{"error":{"message":"messages.3: expected a text, got {\"error\":{\"message\":\"invalid api key\"}}"}}`, RequestInvalid},
		{"the same, in quotation marks", 400, `{"error":{"message":"expected a number, got 'the HTTPError - {\"message\":\"invalid api key\"}'"}}`, RequestInvalid},
		{"Ollama: a call that repeats an error", 500, `{"error":"error parsing tool call: raw='ApiError - {\"error\":{\"message\":\"the model is overloaded\"}}', err=x"}`, ProviderError},
		{"a list of texts", 400, `{"detail":"cannot read [1, my credit balance is too low]"}`, RequestInvalid},
		{"the text of an input", 400, `{"detail":"a text is expected, input: my credit balance is too low"}`, RequestInvalid},
		{"OpenRouter, nothing flagged", 400, `{"error":{"code":400,"message":"x","metadata":{"raw":"boom","flagged_input":null}}}`, RequestInvalid},
	} {
		report := ReadBody([]byte(tt.body))
		assert.Equal(t, tt.want, Of(tt.status, report), "%s: %s", tt.source, tt.body)
		if strings.Contains(tt.source, "issue") {
			assert.Equal(t, ProviderError, InBand(report), tt.source)
		}
	}
}

// LLM-030, row 5: a request above the context window is recognized by the wording of
// each server, with the two numbers if the server states them. The host then tries
// the next candidate. A refused limit of output tokens is another fault.
func TestTooLong(t *testing.T) {
	openAI := func(message string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":null}}`, message)
	}
	text := func(message string) string { return fmt.Sprintf(`{"error":%q}`, message) }
	for _, tt := range []struct {
		source     string
		status     int
		body       string
		in, window int64 // 0: not stated
	}{
		{"OpenAI, chathub-dev/chathub issue 126", 400, openAI("This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens. Please reduce the length of the messages."), 4294, 4097},
		{"OpenAI, dirk1983/deepseek issue 11", 400, openAI("This model's maximum context length is 4096 tokens. However, you requested 4222 tokens (1222 in the messages, 3000 in the completion). Please reduce the length of the messages or completion."), 1222, 4096},
		{"OpenAI, fierceX/Document_QA issue 3", 400, openAI("This model's maximum context length is 8191 tokens, however you requested 8238 tokens (8238 in your prompt; 0 for the completion). Please reduce your prompt; or completion length."), 8238, 8191},
		{"OpenAI, cline issue 5474", 400, openAI("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens. Please reduce the length of the messages."), 289650, 272000},
		{"OpenAI, badlogic/pi-mono a2dbd62, overflow.ts", 400, openAI("Your input exceeds the context window of this model. Please adjust your input and try again."), 0, 0},
		{"OpenRouter, refly-ai/refly issue 1177", 400, openAI("This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one."), 42832, 32768},
		{"vLLM, earendil-works/pi pull request 5929", 400, openAI("This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens."), 262145, 262144},
		{"vLLM, xorbitsai/inference issue 3785", 400, openAI("The decoder prompt (length 21535) is longer than the maximum model length of 16384."), 21535, 16384},
		{"vLLM, hiyouga/LlamaFactory issue 7723", 400, openAI("Prompt length of 5016 is longer than the maximum model length of 4096."), 5016, 4096},
		{"llama.cpp, issue 19774", 400, openAI("request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"), 4390, 4096},
		{"llama.cpp, pull request 15780", 500, `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}`, 1407, 256},
		{"llama-cpp-python, fedora-copr/logdetective issue 100", 500, openAI("Requested tokens (2138) exceed context window of 2048"), 2138, 2048},
		{"LM Studio, lmstudio-ai/lmstudio-bug-tracker issue 546", 400, text("Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."), 111490, 32768},
		{"LM Studio, claude-code-best/claude-code issue 174", 500, text("The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 26166>= n_ctx: 8192). Try to load the model with a larger context length, or provide a shorter input."), 26166, 8192},
		{"LM Studio, anomalyco/opencode issue 11141", 400, text("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"), 15028, 7424},
		{"Together, iamclancyliang/pi-go issue 37", 422, openAI("The input (516368 tokens) is longer than the model's context length (262144 tokens)."), 516368, 262144},
		{"Ollama, iamclancyliang/pi-go issue 37", 400, text("prompt too long; exceeded max context length by 100918 tokens"), 0, 0},
		{"Mistral, LiteLLM pull request 21647", 400, openAI("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"), 40000, 32768},
		{"Anthropic, stackblitz/bolt.new issue 1748", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 202128 tokens > 200000 maximum"}}`, 202128, 200000},
		{"Anthropic, docker/docker-agent issue 569", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again\"}}", 178959, 200000},
		{"Amazon Bedrock, aws-samples/assessment-generator issue 2", 400, `{"message":"Input is too long for requested model."}`, 0, 0},
		{"Gemini, google-gemini/gemini-cli issue 6678", 400, `[{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1200293, 1048576},
		{"Gemini, google-gemini/gemini-cli issue 4231", 400, `{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, 0, 0},
		{"xAI, cline issue 3120", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}`, 136973, 131072},
		{"text-generation-inference, huggingface/llm-vscode issue 94", 422, text("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`"), 3474, 2048},
		{"text-generation-inference, issue 695", 422, `{"error":"Input validation error: ` + "`inputs`" + ` must have less than 1024 tokens. Given: 1168","error_type":"validation"}`, 1168, 1024},
		{"Moonshot, MoonshotAI/kimi-cli issue 2011", 400, openAI("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"), 269030, 262144},
		{"GitHub Copilot, badlogic/pi-mono a2dbd62, overflow.ts", 400, openAI("prompt token count of 140000 exceeds the limit of 128000"), 140000, 128000},
		{"Poolside, iamclancyliang/pi-go issue 37", 400, openAI("Input length 131393 exceeds the maximum allowed input length of 131040 tokens."), 131393, 131040},
		{"Groq, badlogic/pi-mono a2dbd62, overflow.ts", 400, openAI("Please reduce the length of the messages or completion."), 0, 0},
		{"Perplexity, LiteLLM pull request 21647", 400, openAI("The total length of all messages is too long."), 0, 0},
		{"Cohere, pydantic/pydantic-ai pull request 4221", 400, `{"message":"too many tokens: size limit exceeded by 19296 tokens. Try using shorter or fewer inputs. The limit for this model is 132000 tokens."}`, 0, 0},
		{"LiteLLM, All-Hands-AI/OpenHands issue 5350", 400, openAI(`litellm.ContextWindowExceededError: AnthropicError - {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209303 tokens > 200000 maximum"}}`), 209303, 200000},
		{"LiteLLM, the same with an escape, in bytes and cut", 400, openAI(`litellm.BadRequestError: AnthropicException - b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209303 tokens \u003e 200000 maximum...`), 209303, 200000},
		{"OpenAI in Python, All-Hands-AI/OpenHands issue 998", 400, openAI(`Error code: 400 - {'error': {'message': "This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens.", 'type': 'invalid_request_error'}}`), 4294, 4097},
		{"LiteLLM, Amazon Bedrock", 400, openAI(`litellm.BadRequestError: BedrockException - {"message":"Input is too long for requested model."}`), 0, 0},
		{"LiteLLM, a list of Gemini", 400, openAI(`litellm.BadRequestError: VertexAIException - [{ "error": { "code": 400, "message": "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT" } }]`), 1200293, 1048576},
		{"LiteLLM, its class alone", 400, openAI(`litellm.ContextWindowExceededError: x - {"e":1}`), 0, 0},
		{"OpenAI, neo4j-labs/agent-memory issue 104, with an index", 400, openAI(`Invalid 'input[0]': maximum context length is 8192 tokens.`), 0, 0},
		{"a colon before the wording", 400, openAI(`Invalid input: prompt is too long: 209303 tokens > 200000 maximum`), 209303, 200000},
	} {
		report := ReadBody([]byte(tt.body))
		require.Equal(t, ContextExceeded, Of(tt.status, report), "%s: %s", tt.source, tt.body)
		assert.Equal(t, ContextExceeded, InBand(report), tt.source)
		assert.NotEmpty(t, tt.source)
		e := (&Reporter{Provider: "p"}).Error(ContextExceeded, Known{Report: report}, "x")
		in, _ := e.Details.Key("tokens-in").AsInt()
		window, _ := e.Details.Key("context-tokens").AsInt()
		assert.Equal(t, []int64{tt.in, tt.window}, []int64{in, window}, tt.source)
	}
	for _, tt := range []struct {
		source string
		status int
		body   string
		want   Row
	}{
		{"OpenAI, the error of max_tokens", 400, openAI("max_tokens is too large: 40000. This model supports at most 16384 completion tokens, whereas you provided 40000."), RequestInvalid},
		{"Anthropic, the error of max_tokens", 400, openAI("max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for the model"), RequestInvalid},
		{"Groq, RooCodeInc/Roo-Code issue 5729", 400, openAI("`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model"), RequestInvalid},
		{"text-generation-inference, huggingface/transformers issue 28523", 422, text("Input validation error: `max_new_tokens` must be <= 192. Given: 200"), RequestInvalid},
		{"Groq, cline issue 4971, with the status of a rate", 429, openAI("Request too large for model on tokens per minute (TPM): Limit 10000, Requested 15088, please reduce the length of the messages"), RateLimited},
		{"Amazon Bedrock, iamclancyliang/pi-go issue 37", 429, `{"message":"Too many tokens, please wait before trying again."}`, RateLimited},
	} {
		report := ReadBody([]byte(tt.body))
		assert.Equal(t, tt.want, Of(tt.status, report), "%s: %s", tt.source, tt.body)
		e := (&Reporter{Provider: "p"}).Error(tt.want, Known{Report: report}, "x")
		assert.True(t, e.Details.Key("context-tokens").IsNil(), tt.source)
	}
}

func TestInBand(t *testing.T) {
	for body, want := range map[string]Row{
		`{"error":{"message":"x","type":"server_error"}}`:                       ProviderError,
		`{"type":"error","error":{"type":"overloaded_error","message":"O"}}`:    Overloaded,
		`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`: RateLimited,
		`{"error":"llama runner process has terminated"}`:                       ProviderError,
		`{"error":{"code":"insufficient_quota"}}`:                               QuotaExhausted,
		`{"error":{"code":"context_length_exceeded"}}`:                          ContextExceeded,
	} {
		assert.Equal(t, want, InBand(ReadBody([]byte(body))), body)
	}
}

func TestReadBody(t *testing.T) {
	assert.Equal(t, "502 Bad Gateway", ReadBody([]byte("<html><head><title> 502 Bad\nGateway </title></head>")).Message)
	assert.Empty(t, ReadBody([]byte("<html>")).Message)
	assert.Equal(t, "no", ReadBody([]byte(`{"error":"no"}`)).Message)
	assert.LessOrEqual(t, len(ReadBody([]byte(`{"error":"`+strings.Repeat("x", 100<<10)+`"}`)).Message), 310, "what is cut is text")
	assert.LessOrEqual(t, len(ReadBody([]byte(strings.Repeat("é", 100<<10))).Message), 700)
	for _, body := range []string{
		`{"detail":[%s]}`, `{"object":"error","message":{"detail":[%s]},"type":"invalid_request_error","param":null,"code":null}`,
		`{"object":"Error","message":[%s],"type":"invalid_request_error","code":3001}`, `{"object":"error","message":%q}`,
	} {
		var fault any = `{"type":"extra_forbidden","loc":["body","stop",0],"msg":"not permitted"},{"loc":["body","n"],"msg":"x"}`
		if strings.Contains(body, "%q") {
			fault = fmt.Sprintf(`{"detail":[%s]}`, fault)
		}
		r := ReadBody(fmt.Appendf(nil, body, fault))
		assert.Equal(t, "stop.0", r.Param, body)
		assert.Equal(t, "stop.0: not permitted", r.Message, body)
	}
	assert.Empty(t, ReadBody([]byte(`{"detail":"no"}`)).Param)
	r := ReadBody([]byte(`{"error":{"message":"m","type":"A_type","code":"B_code"}}`))
	assert.Equal(t, "b_code", r.Code)
	assert.Equal(t, "b_code a_type", r.Words)
}

// LLM-030: seconds, dates and milliseconds; invalid values are ignored, and
// waits are capped at one day.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Sun, 22 Nov 2026 12:01:00 GMT", time.Minute},
		{"Retry-After", "Sun, 22 Nov 2026 11:00:00 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e30", MaxRetryAfter},
		{"Retry-After", "Sun, 22 Nov 2099 12:01:00 GMT", MaxRetryAfter},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X", "1", 0},
	} {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		assert.Equal(t, tt.want, RetryAfter(h, now), "%s: %s", tt.name, tt.value)
	}
	both := http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"1500"}}
	assert.Equal(t, 1500*time.Millisecond, RetryAfter(both, now))
}

// LM-004: no run of 8 bytes of a secret remains.
func TestScrub(t *testing.T) {
	const secret = "sk-CANARY-0123456789abcdef"
	s := NewScrubber(secret, "", "short")
	for _, text := range []string{
		secret, "key " + secret + " is wrong", "Incorrect key: sk-CANAR***cdef", secret[4:13] + " and " + secret[10:], "x" + secret + secret + "y", "a short one", "é" + secret,
	} {
		clean := s.Clean(text)
		for i := 0; i+8 <= len(secret); i++ {
			assert.NotContains(t, clean, secret[i:i+8], text)
		}
		assert.NotContains(t, clean, "short", text)
	}
	assert.Equal(t, "key [secret] is wrong", s.Clean("key "+secret+" is wrong"))
	assert.Equal(t, "nothing here", s.Clean("nothing here"))
	assert.Equal(t, "x", (*Scrubber)(nil).Clean("x"))
}

// 1.4: type, class, source and family of every row, and that they agree with
// the catalogue.
func TestRows(t *testing.T) {
	r := Reporter{Provider: "p"}
	stop := Reporter{Provider: "p", RefusalStops: true}
	for row := NotConfigured; row <= Unsayable; row++ {
		is := rows()[row]
		catalogued, ok := contract.Lookup(is.typ)
		assert.True(t, ok, is.typ)
		for _, k := range []Known{{}, {Begun: true}} {
			e := r.Error(row, k, "x")
			assert.Equal(t, is.typ, e.Type)
			assert.True(t, catalogued.Allows(e.Class, e.Source), "%s: class %s", is.typ, e.Class)
			assert.True(t, catalogued.Sources.Has(e.Source), "%s: source %s", is.typ, e.Source)
			assert.NotEqual(t, contract.SourcePlugin, e.Source, "LLM-031")
			back := contract.ErrorFromValue(e.Value(), contract.SourcePlugin)
			assert.Equal(t, []any{e.Type, e.Class, e.Source}, []any{back.Type, back.Class, back.Source}, "a host believes it")
		}
		assert.NotEmpty(t, is.family)
	}
	assert.Equal(t, contract.ClassRetry, r.Error(ProviderError, Known{}, "x").Class)
	assert.Equal(t, contract.ClassSwitch, r.Error(ProviderError, Known{Begun: true}, "x").Class)
	assert.Equal(t, contract.ClassStop, r.Error(RequestInvalid, Known{}, "x").Class)
	assert.Equal(t, contract.ClassSwitch, r.Error(Unsayable, Known{}, "x").Class)
	assert.Equal(t, contract.ClassSwitch, r.Error(Refused, Known{}, "x").Class)
	e := stop.Error(Refused, Known{}, "x")
	assert.Equal(t, contract.ClassStop, e.Class)
	assert.Equal(t, contract.ClassStop, contract.ErrorFromValue(e.Value(), contract.SourcePlugin).Class)
}

// A secret with characters that encoders escape leaves no part of itself in an
// escaped text.
func TestCleanTakesOutEscapedSecrets(t *testing.T) {
	secret := `MaRkZq7"<&>\secret-tail0123456789`
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	twice, err := json.Marshal(string(quoted))
	require.NoError(t, err)
	s := NewScrubber(secret)
	for name, text := range map[string]string{
		"raw":        secret,
		"JSON":       string(quoted),
		"JSON twice": string(twice),
		"Go":         strconv.Quote(secret),
		"query":      url.QueryEscape(secret),
		"path":       url.PathEscape(secret),
		"HTML":       html.EscapeString(secret),
	} {
		clean := s.Clean("said " + text + " and more")
		assert.NotContains(t, clean, "MaRk", name)
		assert.NotContains(t, clean, "tail", name)
		assert.Contains(t, clean, "and more", name)
	}
}
