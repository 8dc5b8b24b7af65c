package messagegen

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Text generates a text that is not empty.
func Text() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"Hello", "a\nb", "ż\u0007", "日本"}), rapid.StringN(1, 8, -1))
}

// Message generates a message of any role. Its call ids are few, so that results
// often belong to a call.
func Message() *rapid.Generator[conversation.Message] {
	return rapid.Custom(func(t *rapid.T) conversation.Message {
		role := rapid.SampledFrom([]conversation.Role{
			conversation.RoleSystem, conversation.RoleUser, conversation.RoleAssistant, conversation.RoleTool,
		}).Draw(t, "role")
		var parts []conversation.Part
		if role == conversation.RoleTool {
			parts = append(parts, conversation.Result{
				CallID: callID(t), Failed: rapid.Bool().Draw(t, "failed"),
			})
		}
		n := rapid.IntRange(1, 4).Draw(t, "parts")
		if role == conversation.RoleTool {
			n--
		}
		taken := map[string]bool{}
		for range n {
			parts = append(parts, part(t, role, taken))
		}
		if last, ok := parts[len(parts)-1].(conversation.Call); ok {
			last.Cache = rapid.Bool().Draw(t, "cache")
			parts[len(parts)-1] = last
		}
		m, err := conversation.New(role, parts...)
		if err != nil {
			t.Fatalf("%v of %#v", err, parts)
		}
		return m.WithAttribution(attribution(t))
	})
}

// Messages generates messages.
func Messages() *rapid.Generator[[]conversation.Message] { return rapid.SliceOfN(Message(), 0, 12) }

func callID(t *rapid.T) string { return rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, "call") }

func attribution(t *rapid.T) conversation.Attribution {
	if rapid.Bool().Draw(t, "anonymous") {
		return conversation.Attribution{}
	}
	return conversation.Attribution{
		Agent: Text().Draw(t, "agent"), Capability: "llm/voice", Model: "vendor-model-name", Run: "r-1",
		Finish: rapid.SampledFrom([]string{"", "stop", "length"}).Draw(t, "finish"),
	}
}

// part generates a part that belongs in a message of the role. The calls of a
// message have different ids.
func part(t *rapid.T, role conversation.Role, taken map[string]bool) conversation.Part {
	kinds := map[conversation.Role][]string{
		conversation.RoleSystem:    {"text"},
		conversation.RoleUser:      {"text", "image", "reference"},
		conversation.RoleAssistant: {"text", "reference", "reasoning", "redacted", "call", "call"},
		conversation.RoleTool:      {"text", "image", "reference"},
	}[role]
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "image":
		if rapid.Bool().Draw(t, "linked") {
			return conversation.Image{URL: "https://example.org/a.png", Cache: rapid.Bool().Draw(t, "cache")}
		}
		return conversation.Image{MediaType: "image/png", Data: "AAAA"}
	case "reference":
		return conversation.Reference{Hash: "b3:00", MediaType: "text/plain"}
	case "reasoning":
		return conversation.Reasoning{
			Text: Text().Draw(t, "reasoning"), Signature: rapid.SampledFrom([]string{"", "s"}).Draw(t, "signature"),
			Field: "reasoning_content", Model: "vendor-model-name",
		}
	case "redacted":
		return conversation.Reasoning{Data: "opaque", Model: "vendor-model-name"}
	case "call":
		id := callID(t)
		for n := 4; taken[id]; n++ {
			id = fmt.Sprintf("t%d", n)
		}
		taken[id] = true
		return conversation.Call{
			ID: id, Tool: rapid.SampledFrom([]string{"fs/read", "clock"}).Draw(t, "tool"),
			Args: rapid.SampledFrom([]string{`{}`, `{:path "a.go"}`}).Draw(t, "args"),
		}
	}
	return conversation.Text{
		Text: Text().Draw(t, "text"), Field: rapid.SampledFrom([]string{"", "", "commentary"}).Draw(t, "field"),
		Cache: rapid.Bool().Draw(t, "cache"),
	}
}
