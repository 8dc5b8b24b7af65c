package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxToolName is the maximum length of a tool name that all providers accept.
const maxToolName = 64

// Names maps the ids of tools to names that providers accept, and back. It
// belongs to one request.
type Names struct{ wire, ids map[string]string }

// NewNames assigns names to the tools with these ids. The same ids in the same
// order get the same names.
func NewNames(ids []string) *Names {
	n := &Names{wire: map[string]string{}, ids: map[string]string{}}
	for _, id := range ids {
		n.Wire(id)
	}
	return n
}

// Wire returns the wire name of a tool, assigning one if it is new.
func (n *Names) Wire(id string) string {
	if name, ok := n.wire[id]; ok {
		return name
	}
	name := plainName(id)
	if _, taken := n.ids[name]; taken || len(name) > maxToolName {
		sum := sha256.Sum256([]byte(id))
		tail := "_" + hex.EncodeToString(sum[:6])
		name = name[:min(len(name), maxToolName-len(tail))] + tail
	}
	n.wire[id], n.ids[name] = name, id
	return name
}

// ID returns the id of the tool with a wire name; ok is false for an unknown
// name.
func (n *Names) ID(name string) (string, bool) {
	id, ok := n.ids[name]
	return id, ok
}

// plainName keeps letters, digits, - and _, and writes two underscores for a
// slash and one for anything else.
func plainName(id string) string {
	var b strings.Builder
	for _, r := range strings.TrimPrefix(id, ":") {
		switch {
		case r == '/':
			b.WriteString("__")
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}
