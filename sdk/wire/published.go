package wire

import _ "embed"

//go:embed pluginv1/plugin.proto
var pluginProto string

//go:embed goplugin.proto
var goPluginProto string

//go:embed CONTRACT.md
var contractPage string

// PluginProto is the text of plugin.proto, the messages and services of this
// contract.
func PluginProto() string { return pluginProto }

// GoPluginProto is the text of goplugin.proto, the services of go-plugin that
// stand beside them on each connection.
func GoPluginProto() string { return goPluginProto }

// Contract is the page for authors of plugins in other languages, in Markdown.
func Contract() string { return contractPage }
