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
		{403, ``, AuthFailed},
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
		{418, ``, RequestInvalid},
	} {
		assert.Equal(t, tt.want, Of(tt.status, ReadBody([]byte(tt.body))), "%d %s", tt.status, tt.body)
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
