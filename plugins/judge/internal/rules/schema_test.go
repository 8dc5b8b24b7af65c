package rules

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// JDG-002: Parse rejects everything that the schema rejects, and the schema
// accepts everything that Parse accepts.
func TestSchemaAgrees(t *testing.T) {
	form, err := schema.Compile(Schema())
	require.NoError(t, err)
	for text, valid := range map[string]bool{
		`[{:rule :length :min 1} {:rule :language} {:rule :repetition} {:rule :numbers} {:rule :quotes}]`: true,
		`[{:rule :terms :id :covers :weight 0.5 :all ["a" ["b" "c"]]} {:rule :forbidden :any "a"}]`:       true,
		`[{:rule :length :max 2 :unit :sentences} {:rule :sections :titles ["Summary"]}]`:                 true,
		`[{:rule :repetition :words 2 :most 0.5} {:rule :language :is :de}]`:                              true,
		`[{:rule :pattern :match ["b"] :refuse "a"} {:rule :rouge-l :from [:task/env :reference]}]`:       true,

		`[{:rule :patern :refuse "a"}]`:              false,
		`[{:rule :pattern :refuse "a" :wieght 3}]`:   false,
		`[{:rule :pattern :refuse "a" :weight "3"}]`: false,
		`[{:rule :pattern :refuse "a" :weight -1}]`:  false,
		`[{:rule :terms}]`:                           false,
		`[{:rule :terms :all []}]`:                   false,
		`[{:rule :forbidden :any [1]}]`:              false,
		`[{:rule :length :min "1"}]`:                 false,
		`[{:rule :length :min 1 :unit :word}]`:       false,
		`[{:rule :repetition :words 0}]`:             false,
		`[{:rule :numbers :from []}]`:                false,
		`[]`:                                         false,
		`{:rule :length :min 1}`:                     false,
	} {
		_, perr := Parse(edn.MustRead(text))
		assert.Equal(t, valid, form.Valid(edn.MustRead(text)), text)
		assert.Equal(t, valid, perr == nil, "%s: %v", text, perr)
	}
	for kind := range makers() {
		assert.Contains(t, forms(), kind)
	}
	assert.Len(t, forms(), len(makers()))
}
