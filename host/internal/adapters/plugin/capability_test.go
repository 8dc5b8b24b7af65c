//go:build linux

package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
)

// MLX-009: the reported health of a capability applies to it under its name in
// the configuration: it is skipped while others of the plugin are called, and
// dispatch sees its warmth and load.
func TestCapabilityHealth(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	c, err := b.Client(map[string]Route{"a/voice": {Plugin: "p", Advertised: "t/voice"}, "a/other": {Plugin: "p", Advertised: "t/other", MaxInFlight: 3}, "t/echo": {Plugin: "p"}})
	require.NoError(t, err)
	defer c.Close()
	say := func(capabilities string) {
		t.Helper()
		_, err := c.Invoke(t.Context(), call("t/echo", `{:do "health" :state "ready" :capabilities `+capabilities+`}`))
		require.NoError(t, err)
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		require.Eventually(t, is, patience, 5*time.Millisecond, what)
	}
	assert.True(t, c.State("a/voice").Ready)
	silent := c.Condition("a/voice")
	silent.Places = 0 // the limit of the plugin
	assert.Zero(t, silent, "it says nothing")
	assert.Zero(t, c.Condition("a/nobody"))

	say(`{:t/voice {:down true :reason ":model/frozen: by hand"} :t/other {:warmth 3 :places 4 :deaths 2}}`)
	eventually("it is out", func() bool { return !c.State("a/voice").Ready })
	st := c.State("a/voice")
	assert.Equal(t, "runtime/not-ready", st.Reason)
	assert.Equal(t, "model/frozen", st.Why.Type)
	assert.Equal(t, "by hand", st.Why.Message)
	assert.True(t, c.State("a/other").Ready)
	assert.Equal(t, stats.Condition{Warmth: stats.Cold, Places: 4}, c.Condition("a/other"))
	told := b.journal.last()
	assert.Equal(t, "p", told.Plugin)
	assert.Equal(t, c.State("a/other").Generation, told.Generation)
	require.Len(t, told.Capabilities, 2)

	// Calls of the host count from the moment they are made.
	say(`{:t/other {:warmth 1 :in-flight 1 :queued 1 :places 2}}`)
	eventually("it is back", func() bool { return c.State("a/voice").Ready })
	assert.Equal(t, stats.Condition{Warmth: stats.Warm, InFlight: 2, Places: 2}, c.Condition("a/other"))
	ctx, cancel := context.WithCancel(context.Background())
	var hung []chan error
	for range 4 { // a/other takes three at once
		done := make(chan error, 1)
		hung = append(hung, done)
		go func() { _, err := c.Invoke(ctx, call("a/other", `{:do "hang"}`)); done <- err }()
	}
	eventually("four calls", func() bool { d := c.Condition("a/other"); return d.InFlight+d.Queued == 4 })
	assert.Equal(t, stats.Condition{Warmth: stats.Warm, InFlight: 2, Queued: 2, Places: 2}, c.Condition("a/other"))
	cancel()
	for _, done := range hung {
		assert.Error(t, <-done)
	}

	say(`{:t/voice {:down true :reason "it rains"}}`)
	eventually("it is out again", func() bool { return !c.State("a/voice").Ready })
	assert.Equal(t, "runtime/not-ready", c.State("a/voice").Why.Type)
	assert.Contains(t, c.State("a/voice").Why.Message, "it rains")
}

// A plugin that an operator took out of service does not count as starting.
func TestConditionOutOfService(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(*bench) error{
		"quarantined": func(b *bench) error { return b.Quarantine("p", "its answers are wrong") },
		"stopped":     func(b *bench) error { return b.Drain("p") },
	} {
		t.Run(name, func(t *testing.T) {
			b := run(t, as("good")).ready()
			require.NoError(t, order(b))
			require.Eventually(t, func() bool { return !b.client.State("t/echo").Ready }, patience, 5*time.Millisecond)
			require.Eventually(t, func() bool { return b.client.Condition("t/echo").Warmth == stats.Cold }, patience, 5*time.Millisecond)
		})
	}
}

// A plugin without processes because it had no calls must be started.
func TestConditionOfAPluginAsleep(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Instances.Min = 0
	b := run(t, s)
	require.Eventually(t, func() bool { return b.client.Condition("t/echo").Warmth == stats.Cold }, patience, 5*time.Millisecond)
	b.mustAsk(`{}`)
	assert.Empty(t, b.client.Condition("t/echo").Warmth)
}
