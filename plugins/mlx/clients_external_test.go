//go:build external

package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/plugins/mlx/internal/servertest"
)

// LLM-054: the client of OpenAI reads what the stand-in for mlx_lm.server
// sends: a text, its finish reason and its usage, and an error. It requires node and the
// packages of wiretest/clients.
func TestClientReadsTheStandIn(t *testing.T) {
	const clients = "../internal/provider/wiretest/clients"
	serve := func(words ...string) (url string, pid int) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		command := servertest.Command(words...)
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "{port}", port)
		}
		c := exec.Command(command[0], command[1:]...)
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // killed
		})
		url = "http://127.0.0.1:" + port
		require.Eventually(t, func() bool {
			resp, err := http.Get(url + "/health")
			return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		}, time.Minute, time.Millisecond)
		return url + "/v1", c.Process.Pid
	}
	good, pid := serve()
	failing, _ := serve(`each=500:{"error":{"message":"it failed"}}`)
	sights := wiretest.ReadByClients(t, clients, []wiretest.Reading{
		{Dialect: "openai-chat", URL: good, Limit: 100}, {Dialect: "openai-chat", URL: failing, Limit: 100},
	})
	require.Empty(t, sights[0].Error)
	want := wiretest.Want{Text: fmt.Sprint("answer of ", pid), Finish: "stop", In: 9, Out: 3}
	assert.Equal(t, want, sights[0].Want("openai-chat"))
	assert.Contains(t, sights[1].Error, "it failed")
}
