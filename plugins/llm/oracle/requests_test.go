package oracle

import (
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

const wires = "../../internal/provider/testdata/wire"

// fields decodes the fields of a request.
func fields(t *testing.T, body []byte) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &m))
	return m
}

// agree asserts that the adapter and a client write the same fields.
func agree(t *testing.T, preset string, r *chat.Request, params any, names ...string) {
	t.Helper()
	p, ok := dialect.PresetNamed(preset)
	require.True(t, ok)
	encoded, err := dialect.Encode(p, r)
	require.NoError(t, err)
	theirs, err := json.Marshal(params)
	require.NoError(t, err)
	ours, want := fields(t, encoded.Body), fields(t, theirs)
	for _, name := range names {
		require.Contains(t, want, name, preset)
		assert.JSONEq(t, string(want[name]), string(ours[name]), "%s %s", preset, name)
	}
}

var reads = []chat.Tool{{Name: "fs__read", Schema: json.RawMessage(`{"type":"object"}`)}}

// LM-008, LLM-054: parts, cache marks, returned reasoning and the tool choice
// are written like by the client of Anthropic.
func TestAnthropicRequests(t *testing.T) {
	cached := anthropic.TextBlockParam{Text: "Be brief.", CacheControl: anthropic.NewCacheControlEphemeralParam()}
	agree(t, "anthropic", &chat.Request{
		Model: "sample", Tools: reads, Options: chat.Options{MaxTokens: 4096, Budget: 2048},
		Messages: []chat.Message{
			{Role: chat.System, Content: "Be brief.", Cache: true},
			{Role: chat.User, Parts: []chat.Part{
				{Kind: chat.TextPart, Text: "What is it?"},
				{Kind: chat.ImagePart, Media: "image/png", Data: "iVBORw0KGgo="},
				{Kind: chat.ImagePart, URL: "https://pictures.example/a.png"},
			}},
			{
				Role: chat.Assistant,
				Parts: []chat.Part{
					{Kind: chat.ThinkingPart, Text: "Hm.", Signature: "c2ln"},
					{Kind: chat.RedactedPart, Data: "ZGF0YQ=="},
					{Kind: chat.TextPart, Text: "Reading."},
				},
				Calls: []chat.Call{{ID: "t1", Name: "fs__read", Args: json.RawMessage(`{"path":"a.go"}`)}},
			},
		},
	}, anthropic.MessageNewParams{
		Model: "sample", MaxTokens: 4096, System: []anthropic.TextBlockParam{cached},
		Thinking: anthropic.ThinkingConfigParamOfEnabled(2048),
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(
				anthropic.NewTextBlock("What is it?"), anthropic.NewImageBlockBase64("image/png", "iVBORw0KGgo="),
				anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: "https://pictures.example/a.png"})),
			anthropic.NewAssistantMessage(
				anthropic.NewThinkingBlock("c2ln", "Hm."), anthropic.NewRedactedThinkingBlock("ZGF0YQ=="),
				anthropic.NewTextBlock("Reading."),
				anthropic.NewToolUseBlock("t1", map[string]any{"path": "a.go"}, "fs__read")),
		},
	}, "system", "messages", "thinking", "max_tokens")

	for mode, choice := range map[chat.ChoiceMode]anthropic.ToolChoiceUnionParam{
		chat.AnyTool:  {OfAuto: &anthropic.ToolChoiceAutoParam{}},
		chat.NoTool:   {OfNone: &anthropic.ToolChoiceNoneParam{}},
		chat.MustCall: {OfAny: &anthropic.ToolChoiceAnyParam{}},
		chat.OneTool:  anthropic.ToolChoiceParamOfTool("fs__read"),
	} {
		agree(t, "anthropic", &chat.Request{
			Model: "sample", Tools: reads, Options: chat.Options{Effort: "high"},
			Choice:   chat.Choice{Mode: mode, Tool: "fs__read"},
			Messages: []chat.Message{{Role: chat.User, Content: "Hi."}},
		}, anthropic.MessageNewParams{
			ToolChoice: choice, OutputConfig: anthropic.OutputConfigParam{Effort: anthropic.OutputConfigEffortHigh},
		}, "tool_choice", "output_config")
	}
}

// LM-008, LLM-054: parts and the tool choice are written like by the client of
// OpenAI.
func TestOpenAIRequests(t *testing.T) {
	image := func(url string) openai.ChatCompletionContentPartUnionParam {
		return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url})
	}
	for mode, choice := range map[chat.ChoiceMode]openai.ChatCompletionToolChoiceOptionUnionParam{
		chat.AnyTool:  {OfAuto: openai.String("auto")},
		chat.NoTool:   {OfAuto: openai.String("none")},
		chat.MustCall: {OfAuto: openai.String("required")},
		chat.OneTool:  openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "fs__read"}),
	} {
		agree(t, "openai", &chat.Request{
			Model: "sample", Tools: reads, Options: chat.Options{Effort: "high"},
			Choice: chat.Choice{Mode: mode, Tool: "fs__read"},
			Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{
				{Kind: chat.TextPart, Text: "What is it?"},
				{Kind: chat.ImagePart, Media: "image/png", Data: "iVBORw0KGgo="},
				{Kind: chat.ImagePart, URL: "https://pictures.example/a.png"},
			}}},
		}, openai.ChatCompletionNewParams{
			Model: "sample", ToolChoice: choice, ReasoningEffort: openai.ReasoningEffortHigh,
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("What is it?"),
				image("data:image/png;base64,iVBORw0KGgo="), image("https://pictures.example/a.png"),
			})},
		}, "messages", "tool_choice", "reasoning_effort")
	}
}

// LLM-054: the client of OpenAI reads the same vectors as the plugin.
func TestEmbed(t *testing.T) {
	var transcripts []wiretest.Transcript
	for _, tr := range wiretest.Load(t, wires, "embed") {
		if tr.Name == "openai" {
			tr.Body = nil // only the answer is tested
			transcripts = append(transcripts, tr)
		}
	}
	require.Len(t, transcripts, 1)
	tr := transcripts[0]
	client := openai.NewClient(option.WithBaseURL(wiretest.Serve(t, tr).URL), option.WithAPIKey("none"))
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
