package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WS-141, WS-133: an ordering by another intent gets no frames of paths that match
// never_send; they are in the result all the same.
func TestOrderingGetsNothingThatIsNotSent(t *testing.T) {
	b := scannedBench(t, map[string]string{"a": "1", ".env": "1", "secrets/b": "1"}, func(cfg map[string]any) {
		cfg["never-send"] = []any{".env*", "secrets/"}
	})
	for _, path := range []string{"a", ".env", "secrets/b", "secrets"} {
		b.put(path, "note", "text of "+path)
	}
	var got edn.Value
	b.host.Answer("team/rank", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		got = c.Request.Key("input")
		return edn.MustRead(`{:result {:type :value :out {:ids []}}}`), nil
	})
	out := b.call("context/compose", `{:path "a" :sources [:current [:related [".env" "secrets/b" "secrets"]]]
		:ordering [:custom {:intent :team/rank :content? true}]}`)
	assert.Equal(t, 4, out.Key("frames").Len())
	require.Equal(t, 1, got.Key("candidates").Len(), "%s", got)
	assert.Contains(t, got.String(), "text of a")
	assert.NotContains(t, got.String(), ".env")
	assert.NotContains(t, got.String(), "secrets")
}

// WS-141: a pattern of never_send that can match nothing is a problem of the
// configuration, at its place.
func TestNeverSendIsChecked(t *testing.T) {
	cfg := defaults
	cfg.AllowedRoots = []string{"/w"}
	require.NoError(t, checkSettings(cfg))
	for _, pattern := range []string{"", "[a", "a\\", "# all", "a\nb", "!", "a[[:none:]]"} {
		cfg.NeverSend = []string{"*.key", pattern}
		assert.ErrorContains(t, checkSettings(cfg), "[:never-send 1]", "%q", pattern)
	}
	cfg.NeverSend = []string{"secrets/", "!secrets/", "/a/**", "[]a]", "[!a-c]*", "\\#x"}
	require.NoError(t, checkSettings(cfg))
}
