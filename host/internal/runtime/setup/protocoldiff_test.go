package setup

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// PRM-007: maps are compared key by key, the hash is not compared.
func TestProtocolChanges(t *testing.T) {
	before := edn.MustRead(`{:hash "1" :intents {:a/b {:in :x} :a/gone {}} :roles #{:a}}`)
	after := edn.MustRead(`{:hash "2" :intents {:a/b {:in :y} :a/new 1} :roles #{:a :b}}`)
	assert.Equal(t, `[{:after :y :before :x :change :changed :path [:intents :a/b :in]} `+
		`{:after nil :before {} :change :removed :path [:intents :a/gone]} `+
		`{:after 1 :before nil :change :added :path [:intents :a/new]} `+
		`{:after #{:a :b} :before #{:a} :change :changed :path [:roles]}]`,
		edn.Vector(ProtocolChanges(before, after)...).String())
	assert.Empty(t, ProtocolChanges(before, before.AssocKey("hash", edn.Text("3"))))
}

func TestCheckProtocol(t *testing.T) {
	v := edn.MustRead(`{:proto 1}`)
	v = v.AssocKey("hash", edn.Text(edn.Hash(v)))
	assert.NoError(t, CheckProtocol("a.edn", v))
	for name, row := range map[string]struct {
		file string
		v    edn.Value
	}{
		"no map":   {"a.edn", edn.Int(1)},
		"no hash":  {"a.edn", edn.MustRead("{:proto 1}")},
		"JSON":     {"a.json", v},
		"a change": {"a.edn", v.AssocKey("proto", edn.Int(2))},
	} {
		assert.ErrorIs(t, CheckProtocol(row.file, row.v), contract.OfType("protocol/invalid"), name)
	}
}
