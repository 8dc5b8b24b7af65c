package main

import (
	_ "embed"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// The inputs and outputs of the plugin's intents.
//
//go:embed schemas.edn
var schemaText string

func schemas() map[string]edn.Value {
	named := make(map[string]edn.Value)
	for key, form := range edn.MustRead(schemaText).Entries() {
		name, _ := key.AsKeyword()
		named[name] = form
	}
	return named
}

// registry holds the schemas that inputs are checked with. As a gate, a
// capability gets the input of the request and the answer that it judges in one
// map, so keys that a schema does not name are no fault.
func registry() *schema.Registry {
	all := schema.Builtin()
	for name, form := range schemas() {
		all[name] = form
	}
	r, err := schema.NewRegistry(all)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return r
}
