package contract_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ENV-012, ENV-018: a map with only :cap/ref is a handle at any position; a map
// with more keys is data.
func TestHandles(t *testing.T) {
	for text, want := range map[string][]string{
		`{:cap/ref :a/b}`:                      {"a/b"},
		`{:cap/ref "a/b"}`:                     nil,
		`{:cap/ref :a/b :note 1}`:              nil,
		`{:note {:cap/ref :a/b} :more 1}`:      {"a/b"},
		`{}`:                                   nil,
		`nil`:                                  nil,
		`:a/b`:                                 nil,
		`[{:cap/ref :b/b} ({:cap/ref :a/b})]`:  {"a/b", "b/b"},
		`#{{:cap/ref :a/b} [{:cap/ref :a/b}]}`: {"a/b"},
		`{{:cap/ref :a/b} 1}`:                  {"a/b"},
		`#some/tag {:cap/ref :a/b}`:            {"a/b"},
	} {
		assert.Equal(t, want, contract.Handles(edn.MustRead(text)), text)
	}
	id, ok := contract.HandleOf(contract.Handle("a/b"))
	assert.True(t, ok)
	assert.Equal(t, "a/b", id)
	assert.True(t, contract.Handle("no name").IsNil())
}
