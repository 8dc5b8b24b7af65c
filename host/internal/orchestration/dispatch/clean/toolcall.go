package clean

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// call converts a tool call in the text of a model to the form of a structured
// tool call.
func (c *Cleaner) call(call text.ToolCall) (edn.Value, error) {
	id, ok := c.tool(call.Name)
	if !ok {
		return edn.Nil(), fmt.Errorf("the request offers no tool %q", excerpt(call.Name, 64))
	}
	args, err := edn.ReadJSON(call.Args)
	if err != nil {
		return edn.Nil(), errors.New("its arguments cannot be read")
	}
	var b edn.MapBuilder
	b.OptText("id", call.ID)
	b.Key("tool/id", id)
	b.Key("args", args)
	return b.Map(), nil
}

// tool finds an offered tool by name. Names on the wire have no slash, so a
// model may use another spelling.
func (c *Cleaner) tool(name string) (edn.Value, bool) {
	for t := range c.Input.Key("tools").Elems() {
		id := t.Key("tool/id")
		word, ok := id.AsKeyword()
		if !ok {
			word, ok = id.AsString()
		}
		if ok && normalizeToolName(word) == normalizeToolName(name) {
			return id, true
		}
	}
	return edn.Nil(), false
}

func normalizeToolName(name string) string {
	name = strings.TrimPrefix(name, ":")
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	return strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(name)
}

// callIDs returns the ids of the calls in the messages of the request and in the answer.
func (c *Cleaner) callIDs(answer []edn.Value) map[string]bool {
	ids := map[string]bool{}
	add := func(calls iter.Seq[edn.Value]) {
		for call := range calls {
			if id, ok := call.Key("id").AsString(); ok {
				ids[id] = true
			}
		}
	}
	add(slices.Values(answer))
	for m := range c.Input.Key("messages").Elems() {
		add(m.Key("tool/calls").Elems())
	}
	return ids
}
