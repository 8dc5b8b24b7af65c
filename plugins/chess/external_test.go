//go:build external

package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
	"github.com/fermenthq/ferment/plugins/chess/internal/corpus"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// The tests of this file require stockfish.

var withStockfish = edn.MustRead(`{:engine "uci" :path "stockfish" :depth 18 :options {"Hash" "16"}}`)

// Checks of answers, cancellation and shutdown; the others do not involve the
// engine.
var ofEngines = regexp.MustCompile(`^(chess|hot-swap|mux|core/(cancel/(stops|slots|burns)|deadline|drain|fault|invoke|load/(growth|processes)|run|shutdown))/?`)

func TestStockfishConforms(t *testing.T) {
	o := sdktest.Samples(t, "conformance.edn")
	o.Config = withStockfish
	o.Slow = &conformance.Sample{Capability: "chess/engine", Input: edn.MustRead(`{:fen "` + start + `" :depth 50}`)}
	o.Only = ofEngines
	o.Patience = 10 // a search may take seconds on a busy machine
	sdktest.ConformSelf(t, o)
}

// Where the plain search proves a mate, the UCI engine announces one.
func TestStockfishFindsMates(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(withStockfish))
	all, err := corpus.Mates()
	require.NoError(t, err)
	found := 0
	for _, m := range all {
		out := p.MustInvoke("chess/engine", map[string]any{"fen": m.FEN})
		pos, err := board.Parse(m.FEN)
		require.NoError(t, err)
		_, err = board.Find(pos, keyOf(t, out, "move"))
		require.NoError(t, err)
		if mate, ok := out.Key("mate").AsInt(); ok && mate > 0 { // it may announce a longer one than the shortest
			found++
		}
	}
	assert.GreaterOrEqual(t, found, 195, "of %d", len(all))
}
