package effects

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Tool is a built-in effect tool. Plans refer to it by id or alias.
type Tool struct {
	ID, Alias, Effect string
	// Plugin is the name of the plugin that serves the tool and confines each call
	// to its scope.
	Plugin string
}

// The plugins of the tools. Databases have one of their own: their engines are
// large, and each call of a tool starts its program anew.
const (
	toolsPlugin = "tools"
	dbPlugin    = "db"
)

var tools = []Tool{
	{ID: "fs/read-file", Alias: "fs/read", Effect: "fs/read", Plugin: toolsPlugin},
	{ID: "fs/list", Effect: "fs/read", Plugin: toolsPlugin},
	{ID: "fs/write-file", Alias: "fs/write", Effect: "fs/write", Plugin: toolsPlugin},
	{ID: "process/run", Alias: "process/exec", Effect: "process/run", Plugin: toolsPlugin},
	{ID: "net/http-request", Alias: "net/http", Effect: "net/http", Plugin: toolsPlugin},
	{ID: "db/query", Effect: "db/read", Plugin: dbPlugin},
	{ID: "db/exec", Effect: "db/write", Plugin: dbPlugin},
}

// Tools returns the effect tools.
func Tools() []Tool { return slices.Clone(tools) }

// ToolsOf returns the effect tools of a plugin.
func ToolsOf(plugin string) []Tool {
	return slices.DeleteFunc(Tools(), func(t Tool) bool { return t.Plugin != plugin })
}

// ToolNamed returns the tool with the id or alias.
func ToolNamed(name string) (Tool, bool) {
	for _, t := range tools {
		if name == t.ID || name == t.Alias && name != "" {
			return t, true
		}
	}
	return Tool{}, false
}

// Permit decides from the input and the scope alone whether the call is
// allowed. The executor of the tool decides again with the real files and
// addresses. The error is effects/invalid-input or effects/scope-denied with a
// :reason.
func (t Tool) Permit(input edn.Value, s *Scope) *contract.Error {
	if !s.Enabled.V {
		return Denied("disabled", t, "the effect :%s is disabled", t.Effect)
	}
	var err *contract.Error
	switch t.ID {
	case "fs/read-file", "fs/list":
		_, err = t.Place(input, s)
	case "fs/write-file":
		err = t.permitWrite(input, s)
	case "process/run":
		_, err = t.Program(input, s)
	case "net/http-request":
		_, err = t.Target(input, s)
	case "db/query", "db/exec":
		_, err = t.Work(input, s)
	}
	return err
}

// Denied returns effects/scope-denied for a call outside its scope, with the reason
// under :reason.
func Denied(reason string, t Tool, format string, args ...any) *contract.Error {
	return contract.Errorf("effects/scope-denied", ":%s: "+format, append([]any{t.ID}, args...)...).
		WithDetail("reason", edn.K(reason)).
		WithDetail("effect", edn.K(t.Effect)).
		WithDetail("tool/id", edn.K(t.ID))
}

// InvalidInput returns effects/invalid-input for a call that no scope could allow,
// with the reason under :reason.
func InvalidInput(reason string, t Tool, format string, args ...any) *contract.Error {
	return contract.Errorf("effects/invalid-input", ":%s: "+format, append([]any{t.ID}, args...)...).
		WithDetail("reason", edn.K(reason)).
		WithDetail("tool/id", edn.K(t.ID))
}

// optionalText reads an optional text key of an input. ok is false if the value
// has another kind.
func optionalText(input edn.Value, key string) (s string, ok bool) {
	v := input.Key(key)
	if v.IsNil() {
		return "", true
	}
	return v.AsString()
}
