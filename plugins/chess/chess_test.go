package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/corpus"
	"github.com/fermenthq/ferment/plugins/chess/internal/movegen"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

const start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }

func keyOf(t *testing.T, v edn.Value, name string) string {
	t.Helper()
	s, ok := v.Key(name).AsString()
	require.True(t, ok, "%s in %s", name, v)
	return s
}

// Every random-walk position gets a legal move and a legal line. Legality is
// checked with another implementation than the plugin's library.
func TestBestMoveIsLegal(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	for _, fen := range corpus.Walk(5, 1000) {
		out := p.MustInvoke("chess/engine", map[string]any{"fen": fen, "depth": 1})
		at, err := movegen.Parse(fen)
		require.NoError(t, err)
		require.Contains(t, at.Moves(), keyOf(t, out, "move"), fen)
		require.True(t, out.Key("eval").IsInt())
		for v := range out.Key("pv").Elems() {
			move, _ := v.AsString()
			require.Contains(t, at.Moves(), move, fen)
			at = at.Play(move)
		}
	}
}

func TestBestMoveAnswer(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	out := p.MustInvoke("chess/engine", edn.MustRead(`{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1" :want {:pv 1 :eval true}}`))
	assert.Equal(t, "d1d8", keyOf(t, out, "move"))
	assert.Equal(t, "Rd8#", keyOf(t, out, "san"))
	assert.True(t, edn.Equal(edn.Int(99999), out.Key("eval")), "a mate in one ply: %s", out)
	assert.True(t, edn.Equal(edn.Int(1), out.Key("mate")))
	assert.Equal(t, 1, out.Key("pv").Len())
}

// Each row is one typed error that names the field.
func TestMalformedInput(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	fen := `:fen "` + start + `"`
	for _, c := range []struct{ intent, input, typ, path string }{
		{"chess/best-move", `{}`, "input/invalid", "fen"},
		{"chess/best-move", `{:fen 7}`, "input/invalid", "fen"},
		{"chess/best-move", `{:fen ""}`, "input/invalid", "fen"},
		{"chess/best-move", `{:fen "8/8/8/8/8/8/8/8 w - - 0 1"}`, "input/invalid", "fen"},
		{"chess/best-move", `{:fen "` + strings.Repeat("k", 4000) + `"}`, "input/invalid", "fen"},
		{"chess/best-move", `{` + fen + ` :depth 0}`, "input/invalid", "depth"},
		{"chess/best-move", `{` + fen + ` :depth 65}`, "input/invalid", "depth"},
		{"chess/best-move", `{` + fen + ` :depth "4"}`, "input/invalid", "depth"},
		{"chess/best-move", `{` + fen + ` :movetime-ms -5}`, "input/invalid", "movetime-ms"},
		{"chess/best-move", `{` + fen + ` :want 3}`, "input/invalid", "want"},
		{"chess/best-move", `{` + fen + ` :want {:pv -1}}`, "input/invalid", "pv"},
		{"chess/best-move", `{` + fen + ` :want {:lines 2}}`, "input/invalid", "want"},
		{"chess/best-move", `{:fen "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"}`, "chess/game-over", ""},
		{"chess/verify-move", `{` + fen + `}`, "input/invalid", "move"},
		{"chess/verify-move", `{:move "e2e4"}`, "input/invalid", "fen"},
		{"chess/verify-move", `{` + fen + ` :move ""}`, "input/invalid", "move"},
		{"chess/verify-move", `{` + fen + ` :move "` + strings.Repeat("e", 50) + `"}`, "input/invalid", "move"},
		{"chess/verify-move", `{` + fen + ` :move "e2e4" :pv "e2e4"}`, "input/invalid", "pv"},
		{"chess/perft", `{` + fen + `}`, "input/invalid", "depth"},
		{"chess/perft", `{` + fen + ` :depth 7}`, "input/invalid", "depth"},
		{"chess/perft", `{:depth 2}`, "input/invalid", "fen"},
	} {
		capability := "chess/rules"
		if c.intent == "chess/best-move" {
			capability = "chess/engine"
		}
		_, err := p.Do(context.Background(), sdktest.Call{Capability: capability, Intent: c.intent, Input: edn.MustRead(c.input)})
		e := contract.AsError(err)
		if !assert.NotNil(t, e, c.input) {
			continue
		}
		assert.Equal(t, c.typ, e.Type, "%s: %v", c.input, e)
		assert.Contains(t, e.Value().String(), c.path, c.input)
		if c.path != "" {
			assert.Contains(t, e.Message, c.path, "the message names the field of %s", c.input)
		}
	}
}

func TestVerifyMove(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	verify := func(input string) edn.Value {
		out, err := p.Do(context.Background(), sdktest.Call{Capability: "chess/rules", Intent: "chess/verify-move", Input: edn.MustRead(input)})
		require.NoError(t, err)
		return out.Key("result").Key("out")
	}
	fen := `:fen "` + start + `"`
	assert.Equal(t, `{:check? false :legal? true :san "e4"}`, verify(`{`+fen+` :move "e2e4"}`).String())
	assert.Equal(t, `{:check? false :legal? true :san "Nf3"}`, verify(`{`+fen+` :move "Nf3" :pv ["Nf3" "e5"]}`).String())
	assert.Contains(t, verify(`{`+fen+` :move "e2e5"}`).String(), `:legal? false`)
	assert.Contains(t, verify(`{`+fen+` :move "e2e4" :pv ["d2d4"]}`).String(), "not with the move")
	assert.Contains(t, verify(`{`+fen+` :move "e2e4" :pv ["e2e4" "e2e4"]}`).String(), "cannot be played")
	assert.Contains(t, verify(`{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1" :move "Rd8"}`).String(), ":check? true")
}

func TestPerft(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	out, err := p.Do(context.Background(), sdktest.Call{Capability: "chess/rules", Intent: "chess/perft", Input: edn.MustRead(`{:fen "` + start + `" :depth 3}`)})
	require.NoError(t, err)
	assert.Equal(t, `{:nodes 8902}`, out.Key("result").Key("out").String())
}

// A missing UCI program makes the plugin not ready, with a reason, and has no
// other effect.
func TestMissingEngineIsNotReady(t *testing.T) {
	p := new(chessPlugin)
	cfg := settings{Engine: "uci", Path: "no-such-engine", Depth: 4}
	offer, err := p.offer(t.Context(), cfg)
	require.NoError(t, err)
	assert.Equal(t, []string{"process/run"}, offer.Needs)
	require.NoError(t, p.start(t.Context(), cfg), "some machines have no engine, and the configuration is right all the same")
	ctx, cancel := context.WithCancel(t.Context())
	var told []sdk.Status
	p.health(ctx, func(s sdk.Status) { told = append(told, s); cancel() })
	require.Len(t, told, 1)
	assert.Equal(t, wire.HealthNotReady, told[0].State)
	assert.Contains(t, told[0].Reason, "no-such-engine")
	require.NoError(t, p.close(t.Context()))
}

func TestCancelledSearchStops(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	at := time.Now()
	_, err := p.Do(ctx, sdktest.Call{Capability: "chess/engine", Intent: "chess/best-move", Input: edn.MustRead(`{:fen "` + start + `" :depth 40}`)})
	require.Error(t, err)
	assert.Less(t, time.Since(at), 30*time.Second, "the search would take years")
}

func TestMissingPathIsAProblem(t *testing.T) {
	require.Error(t, checkSettings(settings{Engine: "uci"}))
	require.NoError(t, checkSettings(settings{Engine: "uci", Path: os.Args[0]}))
}
