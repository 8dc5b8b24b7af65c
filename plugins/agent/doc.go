// Command agent runs agents under :agent/run: a language model that answers a
// conversation and calls capabilities as tools on the way. Each block "agent" of its
// configuration is one capability, agent/LABEL, with instructions, a model, tools
// and bounds.
//
// The plugin needs no network, files or keys. Models and tools are called through
// the host, which applies bindings, gates, budgets and effects to each request and
// records it. The plugin keeps no conversations: its input has the messages, and
// its output those that it adds.
package main
