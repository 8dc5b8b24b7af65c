package main

import (
	_ "embed"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

//go:embed schemas.edn
var schemaText string

// sharedEntries holds the entries that the inputs of each kind have in common.
var sharedEntries = map[string]edn.Value{
	"common": edn.MustRead(`[
		[:workspace {:optional true :unit :path :doc "the directory, or the id of a workspace; may be left out if there is one allowed root"} :string]
		[:agent/id {:optional true :doc "the agent that acts; the setting default_agent if it is left out"} :string]
		[:agent/fallback {:optional true :doc "the agent that acts if there is neither :agent/id nor the setting default_agent"} :string]]`),
	"read": edn.MustRead(`[[:as-of {:optional true :doc "read the state after this transaction"} [:int {:min 0}]]]`),
	"node": edn.MustRead(`[
		[:node/id {:optional true :doc "a node id, or at least 8 digits of one"} :string]
		[:path {:optional true} :string]
		[:path/b64 {:optional true :doc "a path that is not text, in base64url"} :string]]`),
}

// rootEntry is in every output. outEntries are in every output except those that must be equal for
// equal states.
var (
	rootEntry  = edn.MustRead(`[[:root {:optional true :doc "node id of the root"} :string]]`)
	seqEntry   = edn.MustRead(`[[:seq {:doc "transaction that was read"} [:int {:min 0}]]]`)
	outEntries = edn.Vector(appendElems(appendElems(nil, seqEntry), rootEntry)...)
)

// schemasOf returns the schemas of the file by name, without colon.
func schemasOf(text string) map[string]edn.Value {
	named := map[string]edn.Value{}
	file := edn.MustRead(text)
	for key, form := range file.Key("shared").Entries() {
		name, _ := key.AsKeyword()
		named[name] = form
	}
	for key, form := range file.Dissoc(edn.K("shared")).Entries() {
		name, _ := key.AsKeyword()
		var in []edn.Value
		for also := range form.Key("also").Elems() {
			kind, _ := also.AsKeyword()
			in = appendElems(in, sharedEntries[kind])
		}
		out := appendElems(nil, outEntries)
		if form.Key("out/unnumbered").Truthy() {
			out = appendElems(nil, rootEntry)
		}
		if form.Key("out/frame").Truthy() {
			out = append(out, frameEntries(named)...)
		}
		named[schemaName("req", name)] = closed(appendElems(in, form.Key("in")))
		named[schemaName("res", name)] = closed(appendElems(out, form.Key("out")))
		if other := form.Key("out/or"); !other.IsNil() {
			named[schemaName("res", name)] = edn.Vector(edn.K("or"), named[schemaName("res", name)], other)
		}
		if form.Key("out").IsKeyword() {
			named[schemaName("res", name)] = form.Key("out")
		}
	}
	return named
}

// frameEntries returns the entries of a frame, for outputs that consist of one frame.
func frameEntries(named map[string]edn.Value) (list []edn.Value) {
	for entry := range named["workspace/frame"].Elems() {
		if entry.IsVector() {
			list = append(list, entry)
		}
	}
	return list
}

// schemaName returns the name of the schema of an intent, such as
// req/workspace.scan.
func schemaName(prefix, intent string) string {
	return prefix + "/" + strings.ReplaceAll(intent, "/", ".")
}

func appendElems(list []edn.Value, more edn.Value) []edn.Value {
	if more.IsKeyword() {
		return list
	}
	for v := range more.Elems() {
		list = append(list, v)
	}
	return list
}

func closed(entries []edn.Value) edn.Value {
	head := []edn.Value{edn.K("map"), edn.MustMap(edn.K("closed"), edn.Bool(true))}
	return edn.Vector(append(head, entries...)...)
}

// registry compiles the schemas with those of every host.
func registry(named map[string]edn.Value) *schema.Registry {
	all := schema.Builtin()
	for name, form := range named {
		all[name] = form
	}
	r, err := schema.NewRegistry(all)
	if err != nil {
		panic(err) // the file is embedded in the program
	}
	return r
}
