package conformance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// SECRET-001: each part of a secret counts, unless it may be a word or is in the
// configuration; a long secret has no more than a bounded number.
func TestPartsOfSecrets(t *testing.T) {
	t.Parallel()
	assert.Len(t, partsOf(markedSecret), len(markedSecret)-secretPart+1)
	assert.LessOrEqual(t, len(partsOf(strings.Repeat(markedSecret, 100))), secretParts)
	s := schema.MustCompile(edn.MustRead(`[:map [:key {:secret true} :string] [:url :string]]`))
	setup := wire.Setup{
		Config:  edn.MustRead(`{:key nil :url "db://localhost:5432/x"}`),
		Secrets: edn.MustMap(edn.Vector(edn.K("key")), edn.Text("password@localhost:5432-k3y9k3y9")),
	}
	_, secrets := (&bench{}).withSecrets(setup, s)
	for text, hidden := range map[string]bool{
		"no password": false, "connects to localhost:5432": false, "db://localhost:5432/x": false,
		"ends in 9k3y9": false, "ends in ...3y9k3y9": false, "ends in ...k3y9k3y9": true,
		"password@localhost:5432-k3y9k3y9": true,
	} {
		assert.Equal(t, hidden, secrets.Replace(text) != text, text)
	}
}
