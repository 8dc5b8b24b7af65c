package shape

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Bounds of the lowering.
const (
	maxDepth      = 8
	maxProperties = 1000
)

// Lower converts a JSON Schema to the subset that providers enforce: closed
// objects with all keys required, optional ones allowing null. A value that
// fits the schema fits the lowered form once missing keys are null and unnamed
// keys are removed. It returns false for schemas without such a form: open
// maps, any value, recursion, alternatives at the root.
func Lower(schema []byte) (json.RawMessage, bool) {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return nil, false
	}
	l := lowering{left: maxProperties}
	l.defs, _ = root["$defs"].(map[string]any)
	out, ok := l.node(root, 0)
	if !ok || out["type"] != "object" {
		return nil, false
	}
	text, err := json.Marshal(out)
	return text, err == nil
}

type lowering struct {
	defs map[string]any
	open []string // references being followed
	left int      // remaining properties
}

func (l *lowering) node(v any, depth int) (map[string]any, bool) {
	n, ok := v.(map[string]any)
	if !ok || depth > maxDepth {
		return nil, false
	}
	var out map[string]any
	switch {
	case n["$ref"] != nil:
		return l.reference(n["$ref"], depth)
	case n["const"] != nil:
		out = map[string]any{"enum": []any{n["const"]}}
	case n["enum"] != nil:
		out = map[string]any{"enum": n["enum"]}
		if n["type"] != nil {
			out["type"] = n["type"]
		}
	case n["anyOf"] != nil:
		out, ok = l.branches(n["anyOf"], depth)
	case n["oneOf"] != nil:
		out, ok = l.branches(n["oneOf"], depth)
	case n["allOf"] != nil:
		out, ok = l.all(n["allOf"], depth)
	case n["type"] == "object":
		out, ok = l.object(n, depth)
	case n["type"] == "array":
		out, ok = l.array(n, depth)
	case n["type"] != nil:
		out = map[string]any{"type": n["type"]}
	default:
		return nil, false // any value
	}
	if text, is := n["description"].(string); ok && is {
		out["description"] = text
	}
	return out, ok
}

func (l *lowering) reference(v any, depth int) (map[string]any, bool) {
	name, _ := v.(string)
	name, ok := strings.CutPrefix(name, "#/$defs/")
	if !ok || slices.Contains(l.open, name) {
		return nil, false
	}
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	target, ok := l.defs[name]
	if !ok || slices.Contains(l.open, name) {
		return nil, false
	}
	l.open = append(l.open, name)
	defer func() { l.open = l.open[:len(l.open)-1] }()
	return l.node(target, depth)
}

func (l *lowering) branches(v any, depth int) (map[string]any, bool) {
	list, _ := v.([]any)
	var out []any
	for _, b := range list {
		low, ok := l.node(b, depth+1)
		if !ok {
			return nil, false
		}
		out = append(out, low)
	}
	return map[string]any{"anyOf": out}, len(out) > 0
}

// all lowers a conjunction to its one branch that has a form; further
// restrictions are validated afterwards.
func (l *lowering) all(v any, depth int) (map[string]any, bool) {
	list, _ := v.([]any)
	var found map[string]any
	for _, b := range list {
		if n, is := b.(map[string]any); is && (n["not"] != nil || n["pattern"] != nil && n["type"] == nil) {
			continue
		}
		low, ok := l.node(b, depth+1)
		switch {
		case !ok:
			return nil, false
		case found == nil:
			found = low
		case found["type"] == nil || found["type"] != low["type"] || found["type"] == "object" || found["type"] == "array":
			return nil, false
		}
	}
	return found, found != nil
}

func (l *lowering) object(n map[string]any, depth int) (map[string]any, bool) {
	properties, _ := n["properties"].(map[string]any)
	if len(properties) == 0 && n["additionalProperties"] != false {
		return nil, false // an open map
	}
	if extra, is := n["additionalProperties"].(map[string]any); is && len(extra) > 0 {
		return nil, false // values of a schema under any key
	}
	if l.left -= len(properties); l.left < 0 {
		return nil, false
	}
	required := map[string]bool{}
	list, _ := n["required"].([]any)
	for _, name := range list {
		s, _ := name.(string)
		required[s] = true
	}
	names := slices.Sorted(maps.Keys(properties))
	lowered := map[string]any{}
	for _, name := range names {
		low, ok := l.node(properties[name], depth+1)
		if !ok {
			return nil, false
		}
		if !required[name] {
			low = nullable(low)
		}
		lowered[name] = low
	}
	if names == nil {
		names = []string{}
	}
	return map[string]any{"type": "object", "properties": lowered, "required": names, "additionalProperties": false}, true
}

func (l *lowering) array(n map[string]any, depth int) (map[string]any, bool) {
	items := n["items"]
	if list, is := n["prefixItems"].([]any); is && len(list) > 0 {
		items = map[string]any{"anyOf": list}
	}
	low, ok := l.node(items, depth+1)
	return map[string]any{"type": "array", "items": low}, ok
}

// nullable allows null in addition to the node's values.
func nullable(n map[string]any) map[string]any {
	null := map[string]any{"type": "null"}
	if list, is := n["anyOf"].([]any); is {
		n["anyOf"] = append(list, null)
		return n
	}
	return map[string]any{"anyOf": []any{n, null}}
}
