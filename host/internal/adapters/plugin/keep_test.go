//go:build linux

package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
)

// BRK-009: a quarantine that ends before the process has ended does not stay, nor does
// one that an operator releases then.
func TestQuarantineEndsWhileDraining(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*bench) error{
		"by itself":      func(*bench) error { return nil },
		"by an operator": func(b *bench) error { return b.Release("p") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := run(t, as("good")).ready()
			until := time.Now().Add(time.Hour)
			if name == "by itself" {
				until = time.Now()
			}
			end := b.hold(1)
			require.NoError(t, b.client.Quarantine(request(`{}`).CapID, "bad answers", until))
			b.to(t, Draining, 1)
			require.NoError(t, release(b))
			end()
			b.to(t, Ready, 2)
		})
	}
}

// BRK-002, SUP-006: remediations for bad answers act on the processes, and
// their transitions have the cause.
func TestRemediator(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	pid := b.pid()
	renewed := make(chan error, 1)
	b.client.Renew(request(`{}`).CapID, func(err error) { renewed <- err })
	require.NoError(t, <-renewed)
	assert.NotEqual(t, pid, b.pid())
	assert.Equal(t, CauseQuality, b.to(t, Draining, 1).Cause)
	st := b.client.State(request(`{}`).CapID)
	assert.Equal(t, 2, st.Edition)

	pid = b.pid()
	require.NoError(t, b.client.Restart(request(`{}`).CapID))
	assert.Equal(t, CauseQuality, b.to(t, Draining, 2).Cause)
	require.NoError(t, b.Supervisor.Await(within(t), "p"))
	assert.NotEqual(t, pid, b.pid())

	for _, err := range []error{b.client.Restart("no/such"), b.client.Quarantine("no/such", "", time.Time{})} {
		assert.ErrorIs(t, err, contract.OfType("cap/not-found"))
	}
	b.client.Renew("no/such", func(err error) { renewed <- err })
	assert.ErrorIs(t, <-renewed, contract.OfType("cap/not-found"))
}

// BRK-009: a quarantine for quality ends by itself, one of an operator does
// not.
func TestQuarantineForQuality(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	capID := request(`{}`).CapID
	const span = 3 * time.Second // a call must be made before its end, also on a busy machine
	require.NoError(t, b.client.Quarantine(capID, "4 of the last 10 answers passed", time.Now().Add(span)))
	b.to(t, Quarantined, 1)
	_, err := b.ask(context.Background(), `{}`)
	assert.ErrorIs(t, err, contract.OfType("runtime/quarantined"))
	assert.Contains(t, err.Error(), "4 of the last 10 answers passed")
	b.to(t, Ready, 2)

	require.NoError(t, b.client.Quarantine(capID, "bad answers", time.Now().Add(time.Hour)))
	b.to(t, Quarantined, 2)
	require.NoError(t, b.Release("p"))
	b.to(t, Ready, 3)
	require.NoError(t, b.Quarantine("p", "an operator has seen enough"))
	b.to(t, Quarantined, 3)
	assert.Never(t, func() bool { return b.client.State(capID).Ready }, 400*time.Millisecond, 20*time.Millisecond)
}

// A second concurrent change of a plugin fails because of the first.
func TestRenewWhileTrying(t *testing.T) {
	b := run(t, canary(SwapCanary)).ready()
	capID := request(`{}`).CapID
	first, second := make(chan error, 1), make(chan error, 1)
	b.client.Renew(capID, func(err error) { first <- err })
	require.Eventually(t, func() bool { return b.client.targets[capID].unit.trying.Load() }, patience, 5*time.Millisecond)
	b.client.Renew(capID, func(err error) { second <- err })
	assert.ErrorIs(t, <-second, stats.ErrChanging)
	stop := b.judging(true)
	assert.NoError(t, <-first)
	stop()
}
