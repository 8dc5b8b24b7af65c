//go:build linux

package plugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// takeLimit bounds an attack on a busy machine.
const takeLimit = 2 * time.Minute

// take makes the plugin take a resource, within takeLimit.
func (b *bench) take(t *testing.T, plugin, name string) (edn.Value, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), takeLimit)
	defer cancel()
	a, err := b.client.Invoke(ctx, call(plugin+"/echo", fmt.Sprintf("{:take %q}", name)))
	assert.NoError(t, ctx.Err(), "the host ends the attack, not the deadline")
	return out(a), err
}

// ATT-003, SUP-004: a call whose plugin does everything that it may, and reads
// nothing, ends at its deadline, and the host stops such a plugin in time.
func TestDeadlineUnderAttack(t *testing.T) {
	s := as("greedy")
	b := run(t, s).ready()
	talking := make(chan struct{}, 1)
	b.AnswerCalls(talker(func(c HostCall) error {
		select {
		case talking <- struct{}{}:
		default:
		}
		for {
			if err := c.Emit(edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("t", 60<<10)))); err != nil {
				return err
			}
		}
	}))
	for _, name := range []string{"events", "unread", "blobs"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := b.client.Invoke(ctx, request(fmt.Sprintf("{:take %q}", name)))
			assert.Contains(t, []string{"timeout/hard", "runtime/protocol"}, typed(t, err).Type)
			assert.Less(t, time.Since(began), 10*time.Second)
		})
	}
	select {
	case <-talking:
	default:
		assert.Fail(t, "the host answered nothing")
	}
	for range 3 { // and with such calls in flight
		go func() { _, _ = b.ask(context.Background(), `{:take "unread"}`) }()
	}
	b.inFlight(3)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, b.Supervisor.Close(ctx))
}

// WIRE-002, SUP-003: a plugin whose health changes as fast as it can write causes few changes of
// state, each of which is logged and recorded, and keeps serving.
func TestFlappingHealth(t *testing.T) {
	began := time.Now()
	s := as("greedy", "health-rate")
	b := run(t, s)
	b.flap(t, s.Name, began)
	b.mustAsk(`{:text "a"}`)
}

// flap waits until a plugin with the argument health-rate has sent 1,000 events, and checks the
// number of its changes of state since it began.
func (b *bench) flap(t *testing.T, plugin string, began time.Time) {
	t.Helper()
	changes := waitIn(t, b.journal, "1,000 health events", func() (n int, ok bool) {
		for _, tr := range b.transitions {
			if tr.Plugin != plugin {
				continue
			}
			n++
			if tr.Err != nil {
				_, reason, _ := strings.Cut(tr.Err.Message, "event ")
				var sent int
				_, _ = fmt.Sscan(reason, &sent)
				ok = ok || sent >= 1_000
			}
		}
		return n, ok
	})
	const start = 4 // changes of a start, and one caused by a probe
	assert.LessOrEqual(t, changes, start+wire.MaxHealthBurst+2*int(time.Since(began)/time.Second+1))
	l := b.line(t, "events were dropped")
	assert.Equal(t, plugin, l.Plugin)
}

// talker answers calls of plugins with pieces until they are no longer
// accepted.
type talker func(HostCall) error

func (f talker) HostInvoke(_ context.Context, c HostCall) (edn.Value, error) { return edn.Nil(), f(c) }

// many answers calls of plugins, at once or when it is released.
type many struct {
	mu   sync.Mutex
	gate chan struct{}
	n    int
}

func (m *many) HostInvoke(ctx context.Context, _ HostCall) (edn.Value, error) {
	m.mu.Lock()
	gate := m.gate
	m.n++
	m.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return edn.Nil(), ctx.Err()
		}
	}
	return edn.MustRead(`{:result {:type :value :out {}}}`), nil
}

func (m *many) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate, m.n = make(chan struct{}), 0
}

func (m *many) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

func (m *many) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		close(m.gate)
		m.gate = nil
	}
}

// process returns the configured process of a plugin.
func (b *bench) process(t *testing.T, name string) *process {
	t.Helper()
	u, err := b.Supervisor.unit(name)
	require.NoError(t, err)
	require.NotNil(t, u.all()[0].living.Load())
	return u.all()[0].living.Load().process
}
