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

// registry holds the schemas of inputs. As a gate, a capability gets the
// request's input and the judged answer merged in one map, so unknown keys are
// not an error.
func registry() *schema.Registry {
	all := schema.Builtin()
	for name, form := range schemas() {
		all[name] = form
	}
	r, err := schema.NewRegistry(all)
	if err != nil {
		panic(err) // the file is embedded in the program
	}
	return r
}
