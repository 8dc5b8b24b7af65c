package clean

import (
	"errors"
	"fmt"
	"strconv"
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
	for t := range c.Tools.Elems() {
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

// freshID returns an id that no other call of the answer has.
func freshID(others []edn.Value) string {
	for n := len(others) + 1; ; n++ {
		id := "call-" + strconv.Itoa(n)
		taken := false
		for _, o := range others {
			other, _ := o.Key("id").AsString()
			taken = taken || other == id
		}
		if !taken {
			return id
		}
	}
}
