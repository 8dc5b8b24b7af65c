package oracle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// LM-008, LLM-054: a tool loop, parts, the tool choice and a schema are written
// like by the client of OpenAI.
func TestResponsesRequests(t *testing.T) {
	const reasoning = `{"id":"rs_1","type":"reasoning","encrypted_content":"c2VhbA==",
	  "summary":[{"type":"summary_text","text":"Hm."}]}`
	schema := map[string]any{"type": "object"}
	item := responses.ResponseInputItemParamOfReasoning("rs_1", []responses.ResponseReasoningItemSummaryParam{{Text: "Hm."}})
	item.OfReasoning.EncryptedContent = openai.String("c2VhbA==")
	said := responses.ResponseInputItemParamOfMessage("Reading.", "assistant")
	said.OfMessage.Phase = "commentary"
	image := func(url string) responses.ResponseInputContentUnionParam {
		part := responses.ResponseInputContentParamOfInputImage("auto")
		part.OfInputImage.ImageURL = openai.String(url)
		return part
	}
	result := responses.ResponseInputItemParamOfFunctionCallOutput("package a")
	result.OfFunctionCallOutput.CallID = openai.String("t1")
	for mode, choice := range map[chat.ChoiceMode]responses.ResponseNewParamsToolChoiceUnion{
		chat.AnyTool:  {OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsAuto)},
		chat.NoTool:   {OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)},
		chat.MustCall: {OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)},
		chat.OneTool:  {OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "fs__read"}},
	} {
		agree(t, "openai-responses", &chat.Request{
			Model: "sample", Tools: reads,
			Options: chat.Options{Effort: "high", MaxTokens: 100, Temperature: "0.5", TopP: "0.9"},
			Choice:  chat.Choice{Mode: mode, Tool: "fs__read"},
			Output:  chat.Output{Form: chat.Native, Name: "grade", Schema: json.RawMessage(`{"type":"object"}`)},
			Messages: []chat.Message{
				{Role: chat.System, Content: "Be brief."},
				{Role: chat.User, Parts: []chat.Part{
					{Kind: chat.TextPart, Text: "What is it?"},
					{Kind: chat.ImagePart, Media: "image/png", Data: "iVBORw0KGgo="},
					{Kind: chat.ImagePart, URL: "https://pictures.example/a.png"},
				}},
				{
					Role: chat.Assistant,
					Parts: []chat.Part{
						{Kind: chat.ThinkingPart, Text: "Hm.", Signature: reasoning},
						{Kind: chat.TextPart, Text: "Reading.", Field: "commentary"},
					},
					Calls: []chat.Call{{ID: "t1", Name: "fs__read", Args: json.RawMessage(`{"path":"a.go"}`)}},
				},
				{Role: chat.ToolRole, CallID: "t1", Content: "package a"},
			},
		}, responses.ResponseNewParams{
			Model: "sample", Store: openai.Bool(false),
			Include:    []responses.ResponseIncludable{"reasoning.encrypted_content"},
			Tools:      []responses.ToolUnionParam{responses.ToolParamOfFunction("fs__read", schema, false)},
			ToolChoice: choice, Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffortHigh},
			MaxOutputTokens: openai.Int(100), Temperature: openai.Float(0.5), TopP: openai.Float(0.9),
			Text: responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
				OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{
					Name: "grade", Strict: openai.Bool(true), Schema: schema,
				},
			}},
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage("Be brief.", "system"),
				responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
					responses.ResponseInputContentParamOfInputText("What is it?"),
					image("data:image/png;base64,iVBORw0KGgo="), image("https://pictures.example/a.png"),
				}, "user"),
				item, said,
				responses.ResponseInputItemParamOfFunctionCall(`{"path":"a.go"}`, "t1", "fs__read"),
				result,
			}},
		}, strings.Fields("input store include tools tool_choice reasoning max_output_tokens temperature top_p text")...)
	}
}
