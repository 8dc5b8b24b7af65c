package wire

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// clockSet returns t as time.Now would return it after the system clock was set
// by whole seconds: the wall reading differs, the monotonic reading is the
// same. This is the only way to create such a time without setting the clock.
func clockSet(t testing.TB, at time.Time, by time.Duration) time.Time {
	t.Helper()
	was := at
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	require.Equal(t, by, at.Round(0).Sub(was.Round(0)), "the clock")
	require.Zero(t, at.Sub(was), "what runs evenly")
	return at
}

// WIRE-003, ATT-010: the remaining time of a call is the same on both sides,
// also if the clock is set after the deadline was computed or during the call.
func TestDeadlineOutlivesTheClock(t *testing.T) {
	const left = time.Minute
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		now := time.Now()
		deadline := now.Add(left)
		sent := clockSet(t, now, by)
		there := offWire(onWire(deadline, sent), sent.Round(0)) // another process
		assert.Equal(t, left, there.Sub(sent.Round(0)), "on arrival, %s", by)

		arrived := time.Now()
		there = offWire(onWire(arrived.Add(left), arrived), arrived)
		assert.Equal(t, left, there.Sub(clockSet(t, arrived, by)), "while it works, %s", by)
	}
	// A deadline without a monotonic reading is sent unchanged.
	at := time.Unix(0, 1_234_567_890_123_456_789)
	assert.Equal(t, at.UnixNano(), onWire(at, time.Now()))
	assert.True(t, at.Equal(offWire(at.UnixNano(), time.Now())))
}

// A deadline that is forwarded, as in calls back to the host, stays the same at
// each hop, although the two clocks are read one after the other. A busy machine
// may interrupt a hop between the two readings for longer than clockSlack, hence
// the attempts.
func TestDeadlineIsHandedOn(t *testing.T) {
	const attempts = 3
	at := time.Now().Add(time.Minute).UnixNano()
	hop := func() int64 { return onWire(offWire(at, time.Now()), time.Now()) }
	for range 1000 {
		sent := hop()
		for try := 1; sent != at && try < attempts; try++ {
			sent = hop()
		}
		require.Equal(t, at, sent, "in %d attempts", attempts)
	}
}

// The deadline in the context of an author's function has a monotonic reading.
func TestReceivedDeadlineRunsEvenly(t *testing.T) {
	p, err := CallContext{Deadline: time.Now().Add(time.Minute)}.Proto(EDN)
	require.NoError(t, err)
	c, err := CallContextFrom(&pluginv1.CallContext{DeadlineUnixNano: p.GetDeadlineUnixNano()}, EDN)
	require.NoError(t, err)
	assert.NotEqual(t, c.Deadline.Round(0).String(), c.Deadline.String(), "it has no monotonic reading: %s", c.Deadline)
}

// WIRE-006: the certificates of a start stay valid when the clock is set back.
func TestCertificateOutlivesTheClock(t *testing.T) {
	now := time.Now()
	_, text, err := newCertificate(now)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	for _, by := range []time.Duration{-24 * time.Hour, -time.Hour, time.Hour, 24 * time.Hour} {
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: serverName, CurrentTime: now.Add(by)})
		assert.NoError(t, err, "%s", by)
	}
}
