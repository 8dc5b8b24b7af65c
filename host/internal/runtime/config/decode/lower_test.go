package decode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// HCL-002: what is expected of a setting is named as HCL writes it, also if its schema has
// another form.
func TestTakes(t *testing.T) {
	s, err := schema.Compile(edn.MustRead(`[:map
		[:wait {:unit :ms :doc "time of a call"} [:int {:min 1}]]
		[:pause {:unit :ms} [:int {:min 1 :max 500}]]
		[:room {:unit :bytes} :int]
		[:book {:unit :path} :string]
		[:depth [:int {:min 1 :max 64}]]]`))
	require.NoError(t, err)
	var got []string
	for _, e := range s.Entries() {
		got = append(got, Takes(e))
	}
	assert.Equal(t, []string{"duration of at least 1ms, time of a call", "duration 1ms..500ms", "bytes", "path", "int 1..64"}, got)
}
