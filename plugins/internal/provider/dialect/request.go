package dialect

import "github.com/fermenthq/ferment/plugins/internal/provider/chat"

// elsewhere marks an option that a format writes in a form of its own.
const elsewhere = ""

// options writes the options of a request into the fields of the format, and
// records those without a field.
func (e *encoding) options(to map[string]any, o chat.Options, fields map[string]string) {
	for _, option := range []struct {
		name  string
		set   bool
		value any
	}{
		{"temperature", o.Temperature != "", o.Temperature},
		{"top-p", o.TopP != "", o.TopP},
		{"presence-penalty", o.PresencePenalty != "", o.PresencePenalty},
		{"frequency-penalty", o.FrequencyPenalty != "", o.FrequencyPenalty},
		{"seed", o.Seed != nil, o.Seed},
		{"stop", len(o.Stop) > 0, o.Stop},
		{"max-tokens", o.MaxTokens > 0, o.MaxTokens},
		{"reasoning-effort", o.Effort != "", o.Effort},
		{"reasoning-budget", o.Budget > 0, o.Budget},
	} {
		field, known := fields[option.name]
		switch {
		case !option.set:
		case !known:
			e.drop(option.name)
		case field != elsewhere:
			to[field] = option.value
		}
	}
}

// tool encodes a tool with its schema in the named field.
func tool(t chat.Tool, schema string) map[string]any {
	out := map[string]any{"name": t.Name, schema: t.Schema}
	if t.Description != "" {
		out["description"] = t.Description
	}
	return out
}

// each encodes every element of a list.
func each[T any](list []T, write func(T) map[string]any) []map[string]any {
	var all []map[string]any
	for _, v := range list {
		all = append(all, write(v))
	}
	return all
}

// function encodes a tool in the form that two of the formats share.
func function(t chat.Tool) map[string]any {
	return map[string]any{"type": "function", "function": tool(t, "parameters")}
}

// choose encodes the tool choice in OpenAI's form; one is the form that names a
// tool.
func choose(body map[string]any, c chat.Choice, one map[string]any) {
	switch c.Mode {
	case "":
	case chat.OneTool:
		body["tool_choice"] = one
	default:
		body["tool_choice"] = string(c.Mode)
	}
}

// content encodes the content of a message as a string, or as a list if it has
// more than one part: not all servers accept lists.
func content(parts []chat.Part, text string, image func(url string) map[string]any) any {
	switch {
	case len(parts) == 0:
		return ""
	case len(parts) == 1 && parts[0].Kind == chat.TextPart:
		return parts[0].Text
	}
	return each(parts, func(p chat.Part) map[string]any {
		written := map[string]any{"type": text, "text": p.Text}
		switch p.Kind {
		case chat.TextPart:
			return written
		case chat.ThinkingPart:
			return map[string]any{"type": "thinking", "thinking": []any{written}}
		}
		return image(p.Address())
	})
}
