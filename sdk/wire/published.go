package wire

import _ "embed"

//go:embed plugin.proto
var pluginProto string

//go:embed goplugin.proto
var goPluginProto string

// PluginProto returns the text of plugin.proto: the messages and services of
// this contract.
func PluginProto() string { return pluginProto }

// GoPluginProto returns the text of goplugin.proto: the services of go-plugin
// on each connection.
func GoPluginProto() string { return goPluginProto }
