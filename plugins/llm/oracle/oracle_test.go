package oracle

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

const wires = "../../internal/provider/testdata/wire"

// seen is what a client says of an answer, in the words of wiretest.Want.
type seen struct {
	text, finish             string
	in, out, cached, thought int64
	calls                    []string
}

func want(w wiretest.Want) seen {
	return seen{text: w.Text, finish: w.Finish, in: w.In, out: w.Out, cached: w.Cached, thought: w.Thought, calls: w.Calls}
}

// wellFormed are the transcripts that promise to be read by everybody.
func wellFormed(t *testing.T, dialect string) []wiretest.Transcript {
	var all []wiretest.Transcript
	for _, tr := range wiretest.Load(t, wires, dialect) {
		if tr.WellFormed {
			tr.Body = nil // it is about the answer
			all = append(all, tr)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// LLM-003, LLM-054: the client of OpenAI sees what the adapter sees.
func TestOpenAI(t *testing.T) {
	for _, tr := range wellFormed(t, "openai-chat") {
		t.Run(tr.Name, func(t *testing.T) {
			server := wiretest.Serve(t, tr)
			client := openai.NewClient(openaioption.WithBaseURL(server.URL), openaioption.WithAPIKey("none"), openaioption.WithMaxRetries(0), openaioption.WithHTTPClient(&http.Client{}))
			stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
				Model: "sample", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Explain ACID.")},
				StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
			})
			var whole openai.ChatCompletionAccumulator
			for stream.Next() {
				require.True(t, whole.AddChunk(stream.Current()))
			}
			require.NoError(t, stream.Err())
			require.Len(t, whole.Choices, 1)
			c := whole.Choices[0]
			got := seen{
				text: c.Message.Content, finish: map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool-calls"}[c.FinishReason],
				in: whole.Usage.PromptTokens, out: whole.Usage.CompletionTokens,
				cached: whole.Usage.PromptTokensDetails.CachedTokens, thought: whole.Usage.CompletionTokensDetails.ReasoningTokens,
			}
			for _, call := range c.Message.ToolCalls {
				got.calls = append(got.calls, call.ID+" "+call.Function.Name+" "+call.Function.Arguments)
			}
			assert.Equal(t, want(tr.Want), got)
		})
	}
}

// LLM-003, LLM-054: the client of Anthropic sees what the adapter sees. It counts what
// comes from and goes into the cache apart from the rest of the input.
func TestAnthropic(t *testing.T) {
	for _, tr := range wellFormed(t, "anthropic-messages") {
		t.Run(tr.Name, func(t *testing.T) {
			server := wiretest.Serve(t, tr)
			client := anthropic.NewClient(anthropicoption.WithBaseURL(server.URL), anthropicoption.WithAPIKey("none"), anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(&http.Client{}))
			stream := client.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
				Model: "sample", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Explain ACID."))},
			})
			var whole anthropic.Message
			for stream.Next() {
				require.NoError(t, whole.Accumulate(stream.Current()))
			}
			require.NoError(t, stream.Err())
			u := whole.Usage
			got := seen{
				finish: map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool-calls"}[string(whole.StopReason)],
				in:     u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, out: u.OutputTokens, cached: u.CacheReadInputTokens,
				thought: u.OutputTokensDetails.ThinkingTokens,
			}
			thought := ""
			var sealed []string
			for _, block := range whole.Content {
				got.text += block.Text
				thought += block.Thinking
				if s := block.Signature + block.Data; s != "" {
					sealed = append(sealed, s)
				}
				if block.Type == "tool_use" {
					got.calls = append(got.calls, block.ID+" "+block.Name+" "+string(block.Input))
				}
			}
			assert.Equal(t, want(tr.Want), got)
			assert.Equal(t, tr.Want.Reasoning, thought)
			assert.Equal(t, tr.Want.Sealed, sealed)
		})
	}
}

// named finds a transcript.
func named(t *testing.T, dialect, name string) wiretest.Transcript {
	for _, tr := range wiretest.Load(t, wires, dialect) {
		if tr.Name == name {
			tr.Body = nil
			return tr
		}
	}
	require.Fail(t, "no transcript "+name)
	return wiretest.Transcript{}
}

// LLM-003: why the wire code is our own. What the plugin takes for a cut answer,
// these clients take for a whole one; an event that cannot be read is the end of
// an answer that goes on; and a request that failed is sent again behind the back
// of the ledger.
func TestWhyTheClientsAreOraclesOnly(t *testing.T) {
	drain := map[string]func(url string) error{
		"openai-chat": func(url string) error {
			client := openai.NewClient(openaioption.WithBaseURL(url), openaioption.WithAPIKey("none"))
			stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
				Model: "sample", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Explain ACID.")},
			})
			for stream.Next() {
				continue
			}
			return stream.Err()
		},
		"anthropic-messages": func(url string) error {
			client := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("none"))
			stream := client.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
				Model: "sample", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Explain ACID."))},
			})
			for stream.Next() {
				continue
			}
			return stream.Err()
		},
	}
	for dialect, run := range drain {
		assert.NoError(t, run(wiretest.Serve(t, named(t, dialect, "truncated")).URL), dialect)
		broken := named(t, dialect, "malformed-then-recovery")
		for i := range broken.Steps { // an event without a name is none to one of them
			broken.Steps[i].Send = strings.Replace(broken.Steps[i].Send, `data: {"type":"content_block_delta","index":0,"del`+"\n", "event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"del`+"\n\n", 1)
		}
		assert.Error(t, run(wiretest.Serve(t, broken).URL), dialect)

		failing := wiretest.Serve(t, wiretest.Transcript{Status: http.StatusInternalServerError, Header: http.Header{"Retry-After-Ms": {"1"}}})
		assert.Error(t, run(failing.URL), dialect)
		assert.Len(t, failing.Requests(), 3, dialect)
	}
}

// LLM-022, LLM-054: the client of Anthropic reads the count as the plugin does.
func TestCount(t *testing.T) {
	tr := named(t, "count", "anthropic")
	client := anthropic.NewClient(anthropicoption.WithBaseURL(wiretest.Serve(t, tr).URL), anthropicoption.WithAPIKey("none"))
	n, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "sample", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Explain ACID."))},
	})
	require.NoError(t, err)
	assert.Equal(t, tr.Want.In, n.InputTokens)
}

// LLM-054: the client of OpenAI reads vectors as the plugin does.
func TestEmbed(t *testing.T) {
	tr := named(t, "embed", "openai")
	client := openai.NewClient(openaioption.WithBaseURL(wiretest.Serve(t, tr).URL), openaioption.WithAPIKey("none"))
	got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "sample", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a bee", "a fly"}},
	})
	require.NoError(t, err)
	var vectors [][]float64
	for _, e := range got.Data {
		vectors = append(vectors, e.Embedding)
	}
	text, err := json.Marshal(vectors)
	require.NoError(t, err)
	assert.JSONEq(t, tr.Want.Text, string(text))
	assert.Equal(t, tr.Want.In, got.Usage.PromptTokens)
}

// LLM-003: none of them is in a program.
func TestTheClientsAreInNoProgram(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	assert.NotContains(t, string(text), "anthropic-sdk-go")
	assert.NotContains(t, string(text), "openai-go")
}
