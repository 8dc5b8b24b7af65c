package wire

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
)

// WIRE-001: the public constants of the handshake. Changing one is a new
// protocol revision.
func TestHandshakeConstants(t *testing.T) {
	assert.Equal(t, plugin.HandshakeConfig{
		ProtocolVersion:  1,
		MagicCookieKey:   "FERMENT_PLUGIN",
		MagicCookieValue: "7b1e8c0e-5d3f-4a55-9a80-2f6f1f0c9e41",
	}, handshake())
	assert.Equal(t, "ferment", PluginKey)
	assert.Equal(t, 16<<20, MaxMessage)
	assert.Equal(t, 64<<10, BlobThreshold)
	c := ClientConfig()
	assert.True(t, c.AutoMTLS)
	assert.True(t, c.SkipHostEnv)
	assert.Equal(t, []plugin.Protocol{plugin.ProtocolGRPC}, c.AllowedProtocols)
	assert.NotSame(t, c, ClientConfig(), "go-plugin writes into its configuration: one per start")
}

// WIRE-005: the message names the older side.
func TestIncompatible(t *testing.T) {
	for _, tt := range []struct {
		plugin, host []int
		want         string
	}{
		{[]int{1}, []int{2}, ":runtime/protocol: the plugin speaks protocol 1, the host 2: upgrade the plugin"},
		{[]int{2}, []int{1}, ":runtime/protocol: the plugin speaks protocol 2, the host 1: upgrade the host"},
		{[]int{1, 2}, []int{3, 4}, ":runtime/protocol: the plugin speaks protocol 1, 2, the host 3, 4: upgrade the plugin"},
		{[]int{1}, nil, ":runtime/protocol: the plugin speaks protocol 1, the host none: upgrade the host"},
	} {
		assert.EqualError(t, Incompatible(tt.plugin, tt.host), tt.want)
	}
}

// WIRE-005: the revisions that the host announces in the environment.
func TestCheckHost(t *testing.T) {
	for announced, says := range map[string]string{
		"": "", "1": "", "2,1": "", " 1 ": "", "x,1": "",
		"2":   "upgrade the plugin",
		"0":   "upgrade the host",
		"x,y": "the host none",
	} {
		t.Setenv(protocolsEnv, announced)
		err := CheckHost()
		if says == "" {
			require.NoError(t, err, announced)
			continue
		}
		require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
		assert.Contains(t, err.Error(), says)
	}
	t.Setenv(CookieKey, "")
	assert.False(t, StartedByHost())
	t.Setenv(CookieKey, CookieValue)
	assert.True(t, StartedByHost())
}

// WIRE-005: the text of go-plugin's error becomes the sentence of Incompatible.
// A real start in package sdk proves that go-plugin writes this text.
func TestExplainStart(t *testing.T) {
	other := errors.New("something else")
	assert.Equal(t, other, ExplainStart(other))
	require.NoError(t, ExplainStart(nil))
	err := ExplainStart(fmt.Errorf("start: %w", errors.New("incompatible API version with plugin. Plugin version: 3, Client versions: [1 2]")))
	assert.EqualError(t, err, ":runtime/protocol: the plugin speaks protocol 3, the host 1, 2: upgrade the host")
	odd := errors.New("incompatible API version with plugin. Something new")
	assert.Equal(t, odd, ExplainStart(odd))
}

// The plugin map serves only a Service that exists.
func TestGRPCWithoutService(t *testing.T) {
	require.Error(t, (&GRPC{}).GRPCServer(nil, grpc.NewServer()))
	server := ServeConfig(&fake{}).GRPCServer(nil)
	require.NotNil(t, server)
	server.Stop()
}

// The generated code is in the package that plugin.proto names.
func TestProtoPackage(t *testing.T) {
	text, err := os.ReadFile("plugin.proto")
	require.NoError(t, err)
	assert.Contains(t, string(text), fmt.Sprintf("package ferment.plugin.v%d;", Protocol))
}
